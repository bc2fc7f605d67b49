"""What goes into the page: the task, what was measured, and the weights of the kept stages, packed."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from internalize.errors import require
from internalize.explorer.subject import (
    PROBE_SAMPLES,
    Subject,
    Weights,
    pack_construction,
    pack_probes,
    pack_weights,
    probes_size,
    round_weights,
)

AGREEMENT_SAMPLES = 1_000
AGREEMENT = 0.999
"""16-bit weights are used where they give the answers of the 32-bit ones on at least this share of inputs."""
MATRIX_SAMPLES = 250
LARGEST_MATRIX = 2e12
"""Operations that the internalization matrix may take: about a minute of one core."""
LARGEST_LIVE = 3_000_000
"""Parameters of a model that still answers in a page while somebody drags a slider."""
RECORDED = 200
"""Recorded inputs of each distribution, for models that are larger."""
METHODS = {
    "cot": "Chain of thought",
    "e2e": "End to end",
    "left": "Internalized",
    "right": "Internalized (right)",
    "inductive": "Internalized (leaps)",
    "even": "Internalized (evenly)",
    "geometric": "Internalized (doubling)",
    "mixture": "Mixture of lengths",
}

Json = dict[str, Any]
Progress = Callable[[str], None]


@dataclass
class Bundle:
    """The page's data: one JSON object, and blocks of bytes that it refers to by name."""

    data: Json
    blocks: dict[str, str] = field(default_factory=dict)
    """Name → base64."""

    def add(self, name: str, content: bytes) -> None:
        self.blocks[name] = base64.b64encode(content).decode("ascii")

    @property
    def size(self) -> int:
        """Letters of all blocks."""
        return sum(map(len, self.blocks.values()))


def make_bundle(
    subjects: Sequence[Subject], megabytes: float = 4.0, progress: Progress = lambda _: None
) -> Bundle:
    """All runs on one page. They must share task, number of symbols and inputs.

    megabytes: what weights and probes may take together; stages are left out evenly where they take more.
    """
    require_one_task(subjects)
    first = subjects[0]
    bundle = Bundle({"task": describe_task(first), "inputs": describe_inputs(first), "models": []})
    allowance = Allowance(subjects, megabytes)
    for number, subject in enumerate(subjects):
        progress(subject.title)
        bundle.data["models"].append(add_model(bundle, number, subject, allowance, progress))
    tell_apart(bundle.data["models"])
    add_construction(bundle, first)
    bundle.data["made"] = provenance(first)
    return bundle


def require_one_task(subjects: Sequence[Subject]) -> None:
    def asked(subject: Subject) -> tuple[object, ...]:
        task = subject.task
        start = subject.renderer.initial_state
        return task.transitions.tolist(), task.state_names, task.symbol_names, subject.config.horizon, start

    require(len(subjects) >= 1, "run", "name at least one run")
    for other in subjects[1:]:
        ours, theirs = (f"{s.config.task}, T = {s.config.horizon}" for s in (subjects[0], other))
        same = asked(other) == asked(subjects[0])
        message = f"one page shows one task: {subjects[0].title} has {ours}, {other.title} has {theirs}"
        require(same, "run", message)


def describe_task(subject: Subject) -> Json:
    task = subject.task
    return {
        "name": subject.config.task,
        "symbols": list(task.symbol_names),
        "states": list(task.state_names),
        "table": task.transitions.tolist(),
        "output": None if task.outputs is None else task.outputs.tolist(),
        "outputs": len(task.output_names),
        "initial": subject.renderer.initial_state,
        "horizon": subject.config.horizon,
        "counter": subject.construction() is not None,
    }


def describe_inputs(subject: Subject) -> Json:
    shares = subject.final_shares()
    return {
        name: {"name": text, "probabilities": chances, "shares": shares[name]}
        for name, (text, chances) in subject.inputs().items()
    }


class Allowance:
    """How much of every model fits: the same share of stages for all of them, then probes with what is left.

    The probes of the last stage come first: there one wants to see what can be read though it is not said.
    """

    def __init__(self, subjects: Sequence[Subject], megabytes: float) -> None:
        self.live = [subject for subject in subjects if self.is_live(subject)]
        # every model has at least its last stage, and its beginning as the probes' control
        last = sum(2 * weights_size(s) for s in self.live)
        more = sum(weights_size(s) * (len(s.stages) - 1) for s in self.live)
        room = megabytes * 1e6
        self.sure = {s.title: last_probes_size(s) for s in self.live if len(s.stages) > 1}
        if sum(self.sure.values()) > room / 8:
            self.sure = {}
        last += sum(self.sure.values())
        self.share = 1.0 if more == 0 else min(1.0, max(0.0, (room - last) / more))
        self.left = max(0.0, room - last - self.share * more)
        self.waiting = sum(len(self.kept(s)) for s in self.live) - len(self.sure)
        self.is_tight = room < 2 * (last + self.share * more)

    def is_live(self, subject: Subject) -> bool:
        return not subject.obstacle and subject.parameters <= LARGEST_LIVE

    def kept(self, subject: Subject) -> list[int]:
        """The stages that the page carries: all, or evenly chosen ones with the first and the last."""
        stages = subject.stages
        if not self.is_live(subject):
            return thin_out(stages, 40)
        return thin_out(stages, 1 + int(self.share * (len(stages) - 1) + 1e-9))

    def has_room(self, count: int, subject: Subject, stage: int) -> bool:
        """Whether this stage's probes, of so many bytes, fit into its even part of what is left."""
        if subject.title in self.sure and stage == subject.stages[-1]:
            return True
        part, size = self.left / max(1, self.waiting), count * 4 / 3
        self.waiting -= 1
        if size > part:
            return False
        self.left -= size
        return True


def weights_size(subject: Subject) -> float:
    """Of one stage: two bytes for a weight, and four letters for three bytes."""
    return 2 * subject.parameters * 4 / 3


def last_probes_size(subject: Subject) -> float:
    """Letters that the probes of the last stage take."""
    return probes_size(subject, subject.shown(subject.stages[-1])) * 4 / 3


def thin_out(stages: list[int], count: int) -> list[int]:
    """At most `count` of the stages, evenly chosen; the last one always, and the first one next."""
    if count >= len(stages):
        return stages
    if count <= 1:
        return stages[-1:]
    places = [round(i * (len(stages) - 1) / (count - 1)) for i in range(count)]
    return [stages[place] for place in places]


# One model ------------------------------------------------------------------------------------------------


def add_model(bundle: Bundle, number: int, subject: Subject, allowance: Allowance, progress: Progress) -> Json:
    """Describe a run's model, and put its weights or its recorded answers into the bundle."""
    stages = allowance.kept(subject)
    model = describe_model(subject, stages)
    if allowance.is_live(subject):
        add_weights(bundle, number, subject, model, allowance, progress)
    else:
        why = subject.obstacle or "too large to run in a page"
        model |= {"kind": "recorded", "recorded": record_answers(subject, stages) | {"why": why}}
    work = MATRIX_SAMPLES * subject.parameters * 2.0 * subject.config.horizon**2 * len(subject.stages)
    several = len(subject.stages) > 1 or subject.renderer.length_hint
    if work < LARGEST_MATRIX and several and subject.config.answer_positions is None:
        progress(f"{subject.title}: matrix")
        model["matrix"] = describe_matrix(subject)
    return model


def describe_model(subject: Subject, stages: list[int]) -> Json:
    config, shape = subject.config, subject.config.model
    method = config.method
    return {
        "kind": "trained",
        "title": subject.title,
        "method": method,
        "label": label_of(method, subject.total_stages, subject.summary()),
        "seed": config.seed,
        "parameters": subject.parameters,
        "shape": {
            "depth": shape.depth,
            "width": shape.width,
            "heads": shape.heads,
            "mlp": shape.mlp_width,
            "positions": shape.positions,
            "vocabulary": subject.renderer.vocabulary.size,
            "context": subject.renderer.context,
        },
        "lengthHint": subject.renderer.length_hint,
        "totalStages": subject.total_stages,
        "keptStages": len(subject.stages),
        "stages": [describe_stage(subject, stage) for stage in stages],
        "curve": describe_curve(subject),
        "summary": subject.summary(),
    }


def label_of(method: str, stages: int, summary: Json) -> str:
    """What the model is called beside its answers: only a run that internalized is called so."""
    label = METHODS.get(method.partition(":")[0], method)
    if not summary:
        return label.replace("Internalized", "Not finished") if stages > 1 else f"{label}, not finished"
    failed = stages > 1 and not summary.get("internalized", False)
    return label.replace("Internalized", "Not internalized") if failed else label


def tell_apart(models: list[Json]) -> None:
    """Runs of the same method are told apart by their seeds."""
    labels = Counter(model["label"] for model in models)
    for model in models:
        if labels[model["label"]] > 1:
            model["label"] += f", seed {model['seed']}"


def describe_stage(subject: Subject, stage: int) -> Json:
    """What a stage shows, and how well it did at its end; the last one with the results of the run."""
    rows = [row for row in subject.evaluations() if row.get("stage") == stage]
    last = rows[-1] if rows else {}
    if stage == subject.total_stages:
        last = last | {name: value for name, value in subject.summary().items() if name in last}
    return {
        "stage": stage,
        "label": subject.stage_label(stage),
        "shown": list(subject.shown(stage)),
        "formats": [list(shown) for shown in subject.formats(stage)],
        "budget": subject.own_budget(stage),
        "iteration": last.get("iteration"),
        "measured": {
            name: {
                "accuracy": last[f"{name}_accuracy"],
                "target": last.get(f"{name}_target_accuracy"),
                "interval": last[f"{name}_interval"],
            }
            for name in ("id", "ood", "chain_id", "chain_ood")
            if f"{name}_accuracy" in last and f"{name}_interval" in last
        },
    }


def describe_curve(subject: Subject) -> Json:
    rows = subject.evaluations()
    return {
        "iteration": [row["iteration"] for row in rows],
        "stage": [row.get("stage") for row in rows],
        **{name: [row.get(f"{name}_accuracy") for row in rows] for name in ("id", "ood")},
    }


def describe_matrix(subject: Subject) -> Json:
    """Accuracy of every stage at every budget, the model writing everything itself."""
    return {
        "stages": subject.stages,
        "samples": MATRIX_SAMPLES,
        **{
            name: [subject.accuracy_by_budget(stage, name, MATRIX_SAMPLES) for stage in subject.stages]
            for name in ("id", "ood")
        },
    }


def add_weights(
    bundle: Bundle, number: int, subject: Subject, model: Json, allowance: Allowance, progress: Progress
) -> None:
    """Weights of every stage, as 16-bit numbers where that changes no answer; and the probes that fit."""
    stages = [stage["stage"] for stage in model["stages"]]
    weights = {stage: subject.weights(stage) for stage in stages}
    model["precision"], model["agreement"] = choose_precision(subject, weights)
    if model["precision"] == "float32" and allowance.is_tight:  # room was counted for half as many bits
        stages = thin_out(stages, max(2, len(stages) // 2))
        model["stages"] = [stage for stage in model["stages"] if stage["stage"] in stages]
    first = weights[stages[0]]
    model["tensors"] = [[short_name(name), tensor.numel()] for name, tensor in first.items()]
    start = round_weights(subject.untrained(), model["precision"])
    bundle.add(f"weights-{number}-untrained", pack_weights(start, model["precision"]))
    for i, stage in enumerate(stages):
        progress(f"{subject.title}: stage {stage}")
        rounded = round_weights(weights[stage], model["precision"])
        bundle.add(f"weights-{number}-{i}", pack_weights(rounded, model["precision"]))
        if subject.task.states > 1:
            shown = tuple(model["stages"][i]["shown"])
            if allowance.has_room(probes_size(subject, shown), subject, stage):
                model["stages"][i]["probes"], content = pack_probes(subject, rounded, start, shown)
                bundle.add(f"probes-{number}-{i}", content)
    model["probeSamples"] = PROBE_SAMPLES


def choose_precision(subject: Subject, weights: dict[int, Weights]) -> tuple[str, list[int]]:
    """float16 where every stage's answers stay as they are, and on how many of how many inputs they did."""
    examples = subject.draw("id", AGREEMENT_SAMPLES, "agreement")
    worst = AGREEMENT_SAMPLES
    for stage, exact in weights.items():
        rounded = round_weights(exact, "float16")
        told = [
            answers_of(subject.predictor_of(stage, chosen).generate(examples.symbols), subject)
            for chosen in (exact, rounded)
        ]
        worst = min(worst, int((told[0] == told[1]).sum()))
    if worst >= AGREEMENT * AGREEMENT_SAMPLES:
        return "float16", [worst, AGREEMENT_SAMPLES]
    return "float32", [AGREEMENT_SAMPLES, AGREEMENT_SAMPLES]


def answers_of(generated: Tensor, subject: Subject) -> Tensor:
    """(batch,) final states."""
    return subject.renderer.read(generated).final_state


def short_name(name: str) -> str:
    """transformer.h.0.ln_1.weight → h.0.ln_1.weight"""
    return name.removeprefix("transformer.")


def record_answers(subject: Subject, stages: list[int]) -> Json:
    """What a model that is too large for a page says to some inputs, at every stage."""
    drawn = [subject.draw(name, RECORDED, "recorded").symbols for name in ("id", "ood")]
    symbols = torch.cat(drawn).unique(dim=0)
    return {
        "inputs": symbols.tolist(),
        "answers": [recorded_at(subject, stage, symbols) for stage in stages],
    }


@torch.no_grad()
def recorded_at(subject: Subject, stage: int, symbols: Tensor) -> list[Json]:
    """One entry for each input: the tokens up to EOS, their probabilities, and the operations of the answer."""
    predictor = subject.predictor(stage)
    generated = predictor.generate(symbols)
    prompt = subject.renderer.prompt(symbols, predictor.answer_length)
    whole = torch.cat([prompt, generated], dim=1)
    logits, _ = predictor.model(whole[:, :-1], first=prompt.shape[1] - 1)
    chances = logits.softmax(dim=-1).gather(2, generated[:, :, None])[:, :, 0]
    lengths = subject.renderer.read(generated).length.tolist()
    rows = zip(generated.tolist(), np.round(chances.numpy(), 3).tolist(), lengths, strict=True)
    return [
        {"tokens": tokens[:n], "probabilities": shares[:n], "operations": predictor.flops(n)}
        for tokens, shares, n in rows
    ]


# The construction, and where it all comes from ---------------------------------------------------------


def add_construction(bundle: Bundle, subject: Subject) -> None:
    """Beside what was learned: what can be written by hand, where the task is a counter."""
    construction = subject.construction()
    if construction is not None:
        about, content = pack_construction(construction)
        bundle.data["models"].append(about)
        bundle.add(f"weights-{len(bundle.data['models']) - 1}-0", content)


def provenance(subject: Subject) -> Json:
    known = subject.provenance()
    return {name: known.get(name) for name in ("internalize", "torch", "created")}
