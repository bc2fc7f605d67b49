"""Traces as tokens."""

from internalize.sequences.rendering import Answers, Renderer
from internalize.sequences.vocabulary import Vocabulary

__all__ = ["Answers", "Renderer", "Vocabulary"]
