"""`internalize show` and `internalize ask`: what does a run answer, word by word, beside the truth?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from internalize.analysis.evaluation import require_room
from internalize.analysis.open_run import Answered, open_chain, open_run
from internalize.analysis.output import Device, RunPath
from internalize.configs.trust import TrustOption
from internalize.display.terminal import results_table
from internalize.errors import require


@dataclass(frozen=True)
class ShowArguments(TrustOption):
    """Look at a run's answers to drawn inputs: prompt, answer and truth side by side."""

    run: RunPath
    """The run's folder, or the beginning of its hash."""
    examples: int = 10
    """How many."""
    inputs: str = "uniform"
    """uniform, binomial:p or weights:… (one number for each symbol, commas between)."""
    stage: int | None = None
    """Show the weights at the end of this stage; the final ones if not given."""
    budget: int | None = None
    """Tokens of an answer, EOS included: asked for by LEN (mixture) or forced; free if not given."""
    seed: int = 0
    """Which inputs are drawn."""
    device: Device = "auto"
    json: bool = False
    """Print a JSON list."""


def show_command(arguments: ShowArguments) -> None:
    require(arguments.examples >= 1, "examples", f"must be at least 1, got {arguments.examples}")
    chain = open_chain(arguments.run, arguments.device)
    require_room(chain, arguments.examples, "examples")
    moment = chain.moment(arguments.stage)
    inputs = chain.experiment.test_inputs(arguments.inputs)
    drawn = chain.draw(inputs, arguments.examples, arguments.seed, "show command")
    found = chain.answers(drawn.symbols, chain.predictor(arguments.budget, moment.stage), moment)
    if arguments.json:
        print(json.dumps([_shown_json(answered) for answered in found], ensure_ascii=False))
        return
    cells = [[escape(a.prompt), escape(a.text), escape(a.truth_text), _judged(a.right)] for a in found]
    table = results_table(f"{chain.title}: {moment}", ["prompt", "answer", "truth (all states)", ""], cells)
    for column in table.columns[:3]:
        column.justify = "left"
        column.overflow = "fold"
    Console(highlight=False).print(table)


def _judged(right: bool) -> str:
    return "[green]right[/green]" if right else "[red]wrong[/red]"


def _shown_json(answered: Answered) -> dict[str, object]:
    row = {"prompt": answered.prompt, "answer": answered.text, "truth": answered.truth_text}
    return {**row, "right": answered.right, **answered.moment.to_json()}


@dataclass(frozen=True)
class AskArguments(TrustOption):
    """Ask a run one question: `internalize ask RUN "1 0 1 1"`."""

    run: RunPath
    """The run's folder, or the beginning of its hash."""
    inputs: Annotated[str, tyro.conf.Positional]
    """The symbols, by their names, with spaces or commas between. Another length than the run's own is read
    where the model can (rotary or no positions)."""
    stage: int | None = None
    """Ask the weights at the end of this stage; the final ones if not given."""
    budget: int | None = None
    """Tokens of the answer, EOS included: asked for by LEN (mixture) or forced; free if not given."""
    device: Device = "auto"
    json: bool = False
    """Print one JSON object."""


def ask_command(arguments: AskArguments) -> None:
    opened = open_run(arguments.run, arguments.device)
    found = opened.answer(arguments.inputs, arguments.budget, arguments.stage)
    if arguments.json:
        said = {"run": opened.title, **_shown_json(found), "states": list(found.states), "final": found.final}
        print(json.dumps(said, ensure_ascii=False))
        return
    console = Console(highlight=False, soft_wrap=True)
    final = "no answer: no state right before EOS" if found.final is None else found.final
    console.print(f"[bold]{escape(final)}[/bold]  {_judged(found.right)}")
    console.print(f"it wrote   {escape(found.text)}")
    console.print(f"the truth  {escape(found.truth_text)}")
    console.print(f"asked      {escape(opened.title)}, {found.moment}")
