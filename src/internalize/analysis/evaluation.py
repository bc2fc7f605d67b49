"""`internalize evaluate`: how often is a run right on fresh inputs, of any distribution and any length?"""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console

from internalize.analysis.open_run import Moment, OpenChain, open_chain, stream
from internalize.analysis.output import Device, RunPath
from internalize.configs.trust import TrustOption
from internalize.constructions.weights import require_memory
from internalize.display.terminal import results_table
from internalize.errors import require
from internalize.measure.accuracy import Measurement, measure


@dataclass(frozen=True)
class EvaluateArguments(TrustOption):
    """Measure a run on fresh inputs. Of an unfinished run the last kept stage is measured, and this is said."""

    run: RunPath
    """The run's folder, or the beginning of its hash."""
    inputs: str | None = None
    """uniform, binomial:p, weights:… (one number for each symbol, commas between); the run's ID and OOD if not
    given."""
    samples: int = 10_000
    """Sequences to answer."""
    horizon: int | None = None
    """Symbols in an input; the run's own number if not given. Models with absolute positions know no other."""
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
    if arguments.horizon is not None:
        chain = chain.at_horizon(arguments.horizon)
    require_room(chain, arguments.samples, "samples")
    moment, config = chain.moment(arguments.stage), chain.config
    names = [arguments.inputs] if arguments.inputs else [config.inputs, config.ood_inputs]
    found = [_measure(chain, arguments, moment, name) for name in names]
    if arguments.json:
        results = [_as_json(measurement) for measurement in found]
        whole = {**results[0], "distributions": results} if len(results) > 1 else results[0]
        length = {"horizon": chain.horizon, "trained_horizon": config.horizon}
        print(json.dumps(whole | moment.to_json() | length))
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
    longer = "" if chain.horizon == config.horizon else f", T = {chain.horizon} (trained on {config.horizon})"
    Console(highlight=False).print(results_table(f"{chain.title}: {moment}{longer}", columns, rows))


def require_room(chain: OpenChain, count: int, field: str) -> None:
    """Refuse more sequences than memory holds, by their symbols and states alone, eight bytes each."""
    length = chain.horizon
    require_memory(8 * count * (2 * length + 1), field, f"{count:,} sequences of {length} symbols")


def _measure(chain: OpenChain, arguments: EvaluateArguments, moment: Moment, name: str) -> Measurement:
    experiment, budget = chain.experiment, arguments.budget
    predictor = chain.predictor(budget, moment.stage)
    shown = chain.own_shown(moment.stage, budget if experiment.renderer.length_hint else None)
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
