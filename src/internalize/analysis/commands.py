"""`internalize evaluate` and `internalize show`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import tyro
from rich.console import Console
from rich.markup import escape

from internalize.analysis.loading import LoadedChain, load_chain
from internalize.display.terminal import results_table
from internalize.errors import require
from internalize.experiments.streams import Streams
from internalize.measure.accuracy import Measurement, measure
from internalize.tasks.inputs import parse_inputs

Device = Literal["auto", "cpu", "cuda", "mps"]


@dataclass(frozen=True)
class EvaluateArguments:
    """Measure a finished run on fresh inputs."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    inputs: str | None = None
    """uniform, binomial:p or weights:w0,w1,…; both the run's own ID and OOD inputs if not given."""
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
    loaded = load_chain(arguments.run, arguments.stage, arguments.budget, arguments.device)
    config = loaded.experiment.config
    names = [arguments.inputs] if arguments.inputs else [config.inputs, config.ood_inputs]
    found = [_measure(loaded, name, arguments.samples, arguments.seed) for name in names]
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
    Console(highlight=False).print(results_table(loaded.title, columns, rows))


def _measure(loaded: LoadedChain, name: str, samples: int, seed: int) -> Measurement:
    experiment = loaded.experiment
    inputs = parse_inputs(name, experiment.task.symbols)
    generator = Streams(seed, experiment.device)(f"evaluate command/{name}")
    return measure(loaded.predictor, experiment.task, inputs, loaded.shown, samples, generator)


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
class ShowArguments:
    """Look at a run's answers: prompt, answer and truth side by side."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    examples: int = 10
    """How many."""
    inputs: str = "uniform"
    """uniform, binomial:p or weights:w0,w1,…"""
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
    loaded = load_chain(arguments.run, arguments.stage, arguments.budget, arguments.device)
    rows = examples(loaded, arguments.inputs, arguments.examples, arguments.seed)
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
    table = results_table(loaded.title, ["prompt", "answer", "truth (all states)", ""], cells)
    for column in table.columns[:3]:
        column.justify = "left"
        column.overflow = "fold"
    console.print(table)


class Example(TypedDict):
    prompt: str
    answer: str
    truth: str
    right: bool


def examples(loaded: LoadedChain, inputs: str, count: int, seed: int) -> list[Example]:
    """Drawn inputs with the model's answer, the whole true chain, and whether the final state is right."""
    experiment, renderer = loaded.experiment, loaded.experiment.renderer
    distribution = parse_inputs(inputs, experiment.task.symbols)
    symbols = distribution.sample(
        (count, renderer.horizon), Streams(seed, experiment.device)(f"show command/{inputs}")
    )
    states = experiment.task.trace(symbols, renderer.initial_state)
    generated = loaded.predictor.generate(symbols)
    right = renderer.read(generated).final_state == states[:, -1]
    length = loaded.predictor.answer_length
    prompts = renderer.text(renderer.prompt(symbols, length))
    truths = renderer.text(renderer.answer(states, tuple(range(1, renderer.horizon + 1))))
    answers = renderer.text(generated)
    return [
        {"prompt": p, "answer": a, "truth": t.removesuffix(" EOS"), "right": bool(r)}
        for p, a, t, r in zip(prompts, answers, truths, right, strict=True)
    ]
