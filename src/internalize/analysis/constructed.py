"""`internalize construct`, with runs at hand: a transformer written by hand beside one that was trained."""

from __future__ import annotations

from internalize.analysis.opening import open_chain
from internalize.constructions import commands
from internalize.constructions.against import TrainedModel
from internalize.constructions.commands import ConstructArguments

__all__ = ["ConstructArguments", "construct_command"]


def construct_command(arguments: ConstructArguments) -> None:
    commands.construct_command(arguments, load_trained)


def load_trained(path: str) -> TrainedModel:
    """The final model of a chain run."""
    chain = open_chain(path, device="cpu", field="against")
    return TrainedModel(chain.title, chain.experiment.task.name, chain.model(), chain.experiment.renderer)
