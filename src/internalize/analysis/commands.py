"""`internalize evaluate` and `internalize show`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import tyro
from rich.console import Console
from rich.markup import escape

from internalize.analysis.opening import OpenChain, open_chain
from internalize.configs.trust import TrustOption
from internalize.constructions.weights import require_memory
from internalize.display.terminal import results_table
from internalize.errors import require
from internalize.measure.accuracy import Measurement, measure
from internalize.measure.predictor import TransformerPredictor
from internalize.runtime.streams import Streams

Device = Literal["auto", "cpu", "cuda", "mps"]


@dataclass(frozen=True)
class EvaluateArguments(TrustOption):
    """Measure a finished run on fresh inputs."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder, or the beginning of its hash."""
    inputs: str | None = None
    """uniform, binomial:p, weights:… (a number a symbol, commas between); the run's ID and OOD if not given."""
    samples: int = 10_000
    """Sequences to answer."""
    stage: int | None = None
    """Measure the weights at the end of this stage; the final ones if not given."""
    budget: int | None = None
    """Tokens of an answer, EOS included: asked for by LEN (mixture) or forced; free if not given."""
    seed: int = 0
    """Which inputs are drawn."""
    device: Device = "auto"
    json: bool = False
    """Print one JSON object."""


def evaluate_command(arguments: EvaluateArguments) -> None:
    require(arguments.samples >= 1, "samples", f"must be at least 1, got {arguments.samples}")
    chain = open_chain(arguments.run, arguments.device)
    _require_room(chain, arguments.samples, "samples")
    config = chain.experiment.config
    names = [arguments.inputs] if arguments.inputs else [config.inputs, config.ood_inputs]
    found = [_measure(chain, arguments, name) for name in names]
    if arguments.json:
        results = [_as_json(measurement) for measurement in found]
        print(json.dumps({**results[0], "distributions": results} if len(results) > 1 else results[0]))
        return
    rows = [
        [
            m.inputs,
            str(m.accuracy),
            str(m.target_accuracy),
            str(m.exact_chain),
            f"{m.response_length:.2f}",
            f"{m.flops:,.0f}",
        ]
        for m in found
    ]
    columns = ["inputs", "accuracy", "on the stage's target", "exact chain", "tokens", "FLOPs"]
    Console(highlight=False).print(results_table(chain.title, columns, rows))


def _require_room(chain: OpenChain, count: int, field: str) -> None:
    """Refuse more sequences than memory holds, by their symbols and states alone, eight bytes each."""
    length = chain.experiment.renderer.horizon
    require_memory(8 * count * (2 * length + 1), field, f"{count:,} sequences of {length} symbols")


def _measure(chain: OpenChain, arguments: EvaluateArguments, name: str) -> Measurement:
    experiment, budget = chain.experiment, arguments.budget
    predictor = chain.predictor(arguments.stage, budget)
    asked = budget if experiment.renderer.length_hint else None
    shown = chain.own_shown(chain.stage_or_last(arguments.stage), asked)
    inputs = experiment.test_inputs(name)
    generator = Streams(arguments.seed, experiment.device)(f"evaluate command/{name}")
    return measure(predictor, experiment.task, inputs, shown, arguments.samples, generator)


def _as_json(measurement: Measurement) -> dict[str, object]:
    rates = {
        "accuracy": measurement.accuracy,
        "target_accuracy": measurement.target_accuracy,
        "exact_chain": measurement.exact_chain,
        "direct_accuracy": measurement.direct_accuracy,
    }
    row: dict[str, object] = {"inputs": measurement.inputs, "samples": measurement.samples}
    for name, rate in rates.items():
        row[name] = rate.value
        row["interval" if name == "accuracy" else f"{name}_interval"] = [rate.interval.low, rate.interval.high]
    length = measurement.response_length_interval
    return row | {
        "response_length": measurement.response_length,
        "response_length_interval": [length.low, length.high],
        "forward_passes": measurement.forward_passes,
        "flops": measurement.flops,
    }


@dataclass(frozen=True)
class ShowArguments(TrustOption):
    """Look at a run's answers: prompt, answer and truth side by side."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder, or the beginning of its hash."""
    examples: int = 10
    """How many."""
    inputs: str = "uniform"
    """uniform, binomial:p or weights:… (a number a symbol, commas between)."""
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
    _require_room(chain, arguments.examples, "examples")
    predictor = chain.predictor(arguments.stage, arguments.budget)
    rows = examples(chain, predictor, arguments.inputs, arguments.examples, arguments.seed)
    if arguments.json:
        print(json.dumps(rows, ensure_ascii=False))
        return
    console = Console(highlight=False)
    cells = [
        [
            escape(row["prompt"]),
            escape(row["answer"]),
            escape(row["truth"]),
            "[green]right[/green]" if row["right"] else "[red]wrong[/red]",
        ]
        for row in rows
    ]
    table = results_table(chain.title, ["prompt", "answer", "truth (all states)", ""], cells)
    for column in table.columns[:3]:
        column.justify = "left"
        column.overflow = "fold"
    console.print(table)


class Example(TypedDict):
    prompt: str
    answer: str
    truth: str
    right: bool


def examples(
    chain: OpenChain, predictor: TransformerPredictor, inputs: str, count: int, seed: int
) -> list[Example]:
    """Drawn inputs with the model's answer, the whole true chain, and whether the final state is right."""
    renderer = chain.experiment.renderer
    drawn = chain.draw(chain.experiment.test_inputs(inputs), count, seed, "show command")
    generated = predictor.generate(drawn.symbols)
    right = renderer.read(generated).final_state == drawn.states[:, -1]
    prompts = renderer.text(renderer.prompt(drawn.symbols, predictor.answer_length))
    truths = renderer.text(renderer.answer(drawn.states, tuple(range(1, renderer.horizon + 1))))
    answers = renderer.text(generated)
    return [
        {"prompt": p, "answer": a, "truth": t.removesuffix(" EOS"), "right": bool(r)}
        for p, a, t, r in zip(prompts, answers, truths, right, strict=True)
    ]
