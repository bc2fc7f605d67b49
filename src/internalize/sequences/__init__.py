"""Traces as tokens."""

from internalize.sequences.rendering import Answers, Renderer, Vocabulary

__all__ = ["Answers", "Renderer", "Vocabulary"]
