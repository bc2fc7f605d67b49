"""`internalize evaluate`, `show` and `ask` on runs of text: how often is it right, and what does it say?"""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.markup import escape

from internalize.display.terminal import results_table
from internalize.errors import require
from internalize.kinds.text.evaluation import TextMeasurement, summarise
from internalize.kinds.text.open_text import OpenText, TextAnswer, open_text


def evaluate(arguments: Any) -> None:
    """--inputs: one of the run's files by its name, or another file of rows; all of its own if not given."""
    require(arguments.samples >= 1, "samples", f"must be at least 1, got {arguments.samples}")
    opened = open_text(arguments.run, arguments.device)
    found = measure_files(opened, arguments.inputs, arguments.samples, arguments.budget, arguments.stage)
    if arguments.json:
        results = [measurement_json(name, measurement) for name, measurement in found.items()]
        whole = {**results[0], "distributions": results} if len(results) > 1 else results[0]
        print(json.dumps(whole | {"stage": opened.stage_or_last(arguments.stage)}))
        return
    columns = ["rows of", "n", "answer", "chain", "both", "tokens", "FLOPs"]
    cells = [
        [name, f"{m.rows:,}", str(m.accuracy), str(m.chain_accuracy), str(m.exact_chain),
         f"{m.response_length:.2f}", f"{m.flops:,.0f}"]
        for name, m in found.items()
    ]  # fmt: skip
    stage = f"stage {opened.stage_or_last(arguments.stage)} of {opened.experiment.curriculum.stages}"
    Console(highlight=False).print(results_table(f"{opened.title}: {stage}", columns, cells))


def measure_files(
    opened: OpenText, inputs: str | None, most: int, budget: int | None, stage: int | None
) -> dict[str, TextMeasurement]:
    predictor = opened.predictor(budget, stage)
    found = {}
    for name, rows in opened.rows(inputs, most).items():
        said = predictor.write(rows)
        found[name] = summarise(opened.experiment, rows, said, predictor.stage, predictor.asked_budget)
    return found


def measurement_json(name: str, found: TextMeasurement) -> dict[str, Any]:
    rates = {
        "accuracy": found.accuracy,
        "chain_accuracy": found.chain_accuracy,
        "exact_chain": found.exact_chain,
        "direct_accuracy": found.direct_accuracy,
    }
    row: dict[str, Any] = {"inputs": name, "samples": found.rows}
    for key, rate in rates.items():
        row[key] = rate.value
        row["interval" if key == "accuracy" else f"{key}_interval"] = [rate.interval.low, rate.interval.high]
    length = found.response_length
    return row | {"response_length": length, "forward_passes": length, "flops": found.flops}


def show(arguments: Any) -> None:
    require(arguments.examples >= 1, "examples", f"must be at least 1, got {arguments.examples}")
    opened = open_text(arguments.run, arguments.device)
    predictor = opened.predictor(arguments.budget, arguments.stage)
    tokenizer = opened.experiment.material.tokenizer
    rows = next(iter(opened.rows(arguments.inputs, arguments.examples).values()))
    found = []
    for row, said in zip(rows, opened.answers(predictor, rows), strict=True):
        chain = tokenizer.decode(token for unit in row.units for token in unit)
        truth = tokenizer.decode(row.answer)
        found.append({**vars(said), "true_chain": chain, "truth": truth, "right": said.answer == truth})
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
        return
    cells = [
        [escape(str(row["question"])), escape(str(row["chain"])), escape(_said(row["answer"])),
         escape(str(row["truth"])), "[green]right[/green]" if row["right"] else "[red]wrong[/red]"]
        for row in found
    ]  # fmt: skip
    table = results_table(opened.title, ["question", "it wrote", "answer", "truth", ""], cells)
    for column in table.columns[:4]:
        column.justify = "left"
        column.overflow = "fold"
    Console(highlight=False).print(table)


def ask(arguments: Any) -> None:
    opened = open_text(arguments.run, arguments.device)
    said: TextAnswer = opened.answer(arguments.inputs, arguments.budget, arguments.stage)
    if arguments.json:
        print(json.dumps({"run": opened.title, **vars(said)}, ensure_ascii=False))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(_said(said.answer))}[/bold]")
    console.print(f"before it  {escape(said.chain) or 'nothing'}")
    console.print(f"tokens     {said.tokens}")


def _said(answer: Any) -> str:
    return "no answer" if answer is None else str(answer)
