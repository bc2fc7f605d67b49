"""`internalize evaluate`: how often is a run right on fresh inputs, of any distribution and any length?"""

from __future__ import annotations

import json

from rich.markup import escape

from internalize.analysis.arguments import AskArguments, EvaluateArguments, ShowArguments
from internalize.analysis.open_run import Answered, OpenChain, open_chain, open_run, stream
from internalize.display.terminal import PlainConsole, percent, results_table
from internalize.errors import require
from internalize.kinds.entrance import Moment
from internalize.measure.predictor import Measurement, measure


def evaluate_command(arguments: EvaluateArguments) -> None:
    require(arguments.samples >= 1, "samples", f"must be at least 1, got {arguments.samples}")
    chain = open_chain(arguments.run, arguments.device)
    if arguments.horizon is not None:
        chain = chain.at_horizon(arguments.horizon)
    chain.require_room(arguments.samples, "samples")
    moment, config = chain.moment(arguments.stage), chain.config
    names = [arguments.inputs] if arguments.inputs else [config.inputs, config.ood_inputs]
    found = [_measure(chain, arguments, moment, name) for name in names]
    if arguments.json:
        results = [_as_json(measurement) for measurement in found]
        whole = {**results[0], "distributions": results} if len(results) > 1 else results[0]
        length = {"horizon": chain.horizon, "trained_horizon": config.horizon}
        print(json.dumps(whole | moment.to_json() | length))
        return
    cells = {
        "inputs": [m.inputs for m in found],
        "accuracy": [str(m.accuracy) for m in found],
        "on the stage's target": [str(m.target_accuracy) for m in found],
        "exact chain": [percent(m.exact_chain.value) for m in found],
        "tokens": [f"{m.response_length:.2f}" for m in found],
        "FLOPs": [f"{m.flops:,.0f}" for m in found],
    }
    if all(m.target_accuracy == m.accuracy for m in found):  # the stage's answer ends in q_T: one question
        del cells["on the stage's target"]
    rows = [list(row) for row in zip(*cells.values(), strict=True)]
    longer = "" if chain.horizon == config.horizon else f", T = {chain.horizon} (trained on {config.horizon})"
    PlainConsole().print(results_table(f"{chain.title}: {moment}{longer}", list(cells), rows))


def _measure(chain: OpenChain, arguments: EvaluateArguments, moment: Moment, name: str) -> Measurement:
    experiment, budget = chain.experiment, arguments.budget
    predictor = chain.predictor(budget, moment.stage)
    shown = chain.own_shown(moment.stage, budget if experiment.renderer.tells_length else None)
    inputs = experiment.test_inputs(name)
    generator = stream(arguments.seed, f"evaluate command/{name}", experiment.device)
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


def show_command(arguments: ShowArguments) -> None:
    require(arguments.examples >= 1, "examples", f"must be at least 1, got {arguments.examples}")
    chain = open_chain(arguments.run, arguments.device)
    chain.require_room(arguments.examples, "examples")
    moment = chain.moment(arguments.stage)
    inputs = chain.experiment.test_inputs(arguments.inputs or "uniform")
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
    PlainConsole().print(table)


def _judged(right: bool) -> str:
    return "[green]right[/green]" if right else "[red]wrong[/red]"


def _shown_json(answered: Answered) -> dict[str, object]:
    row = {"prompt": answered.prompt, "answer": answered.text, "truth": answered.truth_text}
    return {**row, "right": answered.right, **answered.moment.to_json()}


def ask_command(arguments: AskArguments) -> None:
    opened = open_run(arguments.run, arguments.device)
    found = opened.answer(arguments.inputs, arguments.budget, arguments.stage)
    if arguments.json:
        said = {"run": opened.title, **_shown_json(found), "states": list(found.states), "final": found.final}
        print(json.dumps(said, ensure_ascii=False))
        return
    console = PlainConsole(soft_wrap=True)
    final = "no answer: no state right before EOS" if found.final is None else found.final
    console.print(f"[bold]{escape(final)}[/bold]  {_judged(found.right)}")
    console.print(f"it wrote   {escape(found.text)}")
    console.print(f"the truth  {escape(found.truth_text)}")
    console.print(f"asked      {escape(opened.title)}, {found.moment}")
