"""What is computed, with exact oracles. A task knows nothing of tokens, models or training."""

from internalize.tasks.inputs import InputDistribution, parse_inputs
from internalize.tasks.names import parse_task
from internalize.tasks.semiautomaton import Semiautomaton

__all__ = ["InputDistribution", "Semiautomaton", "parse_inputs", "parse_task"]
