"""Problems in words, with exact oracles: a question, the steps to its answer, and the answer."""

from internalize.tasks.text.names import PROBLEMS, find_problems
from internalize.tasks.text.problem import Problem, Problems, draw_splits

__all__ = ["PROBLEMS", "Problem", "Problems", "draw_splits", "find_problems"]
