"""`internalize audit`: what does a mixture model do when its LEN is right, wrong, absent or contradictory?

right          LEN_L, L = 2 … T+1; the answer should be the format of that length.
wrong          LEN_L, but the answer was begun with the first state of the format of another length. Does
               the model finish by the hint or by what stands there?
absent         no LEN token at all, so that the answer begins a place earlier; or q_0 once more in its place.
contradictory  two LEN tokens, short and long, in both orders. Whom does it believe?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from rich.console import Console
from torch import Tensor

from internalize.analysis.arguments import AuditArguments
from internalize.analysis.open_run import OpenChain, TracedInputs, open_chain
from internalize.curricula import Shown
from internalize.display.terminal import errors_console, percent, results_table
from internalize.errors import require
from internalize.measure.predictor import TransformerPredictor, generate
from internalize.models.path import make_decoder
from internalize.sequences import Renderer
from internalize.statistics import Rate

HintKind = Literal["right", "wrong", "absent", "contradictory"]
CHUNK = 1_000


@dataclass(frozen=True)
class HintFinding:
    """What the model does with one hint, on one distribution."""

    kind: HintKind
    hint: str
    """What stands after q_0."""
    inputs: Literal["id", "ood"]
    right: Rate
    """The last state is q_T."""
    length: float
    """Mean tokens of the answer, EOS included, also those that were put there."""
    obeyed: Rate
    """The answer has as many states as the last LEN asks for; without one, as some format has."""
    exact: Rate
    """It is, token by token, the true answer in a format of its own length."""
    commonest: str
    """The commonest length of an answer and its share."""

    def row(self) -> dict[str, object]:
        rates = {"accuracy": self.right, "obeyed": self.obeyed, "exact": self.exact}
        row: dict[str, object] = {"kind": self.kind, "hint": self.hint, "inputs": self.inputs}
        row |= {"n": self.right.trials, "length": self.length, "commonest_length": self.commonest}
        for name, rate in rates.items():
            row |= {name: rate.value, f"{name}_low": rate.interval.low, f"{name}_high": rate.interval.high}
        return row


@dataclass(frozen=True)
class Prompted:
    """A way to end the prompt."""

    kind: HintKind
    hint: str
    tokens: tuple[int, ...]
    """Ids after q_0."""
    begun: Shown
    """States of the true chain that are written into the answer."""
    wanted: int | None
    """States that the last LEN asks for."""


def audit(chain: OpenChain, samples: int, seed: int = 0) -> list[HintFinding]:
    """Every hint on the same ID and on the same OOD inputs."""
    curriculum = chain.experiment.curriculum
    method = chain.experiment.config.method
    require(
        curriculum.length_hint, "run", f"{chain.title} has no length tokens to audit (its method is {method})"
    )
    formats = {len(shown): shown for shown in curriculum.formats(chain.moment().stage)}
    predictor, renderer = chain.predictor(), chain.experiment.renderer
    findings = []
    for name, inputs in chain.both_inputs().items():
        examples = chain.draw(inputs, samples, seed, "audit")
        for asked in hints(renderer, formats):
            written = answers_to(predictor, asked, examples)
            findings.append(
                _judge(renderer, asked, written, examples, formats, "id" if name == "id" else "ood")
            )
    return findings


def hints(renderer: Renderer, formats: dict[int, Shown]) -> Iterator[Prompted]:
    """All ways to ask. formats: number of states → the format."""
    token = renderer.vocabulary.length_token
    few, many = min(formats), max(formats)
    middle = sorted(formats)[(len(formats) - 1) // 2]
    for k in sorted(formats):
        yield Prompted("right", f"LEN_{k + 1}", (token(k + 1),), (), k)
    for k, other in ((few, many), (many, few), (many, middle)):
        if k != other:
            hint = f"LEN_{k + 1}, then q{formats[other][0]}"
            yield Prompted("wrong", hint, (token(k + 1),), formats[other][:1], k)
    yield Prompted("absent", "nothing", (), (), None)
    first = renderer.vocabulary.first_state + renderer.initial_state
    yield Prompted("absent", "q_0 in its place", (first,), (), None)
    for k, other in ((few, many), (many, few)):
        if k != other:
            tokens = (token(other + 1), token(k + 1))
            yield Prompted("contradictory", f"LEN_{other + 1} LEN_{k + 1}", tokens, (), k)


def answers_to(predictor: TransformerPredictor, asked: Prompted, examples: TracedInputs) -> Tensor:
    """(samples, …) tokens of the answers, with those that were put there, filled up with EOS."""
    model, renderer = predictor.model, predictor.renderer
    decoder = make_decoder(predictor.kernel, model, min(CHUNK, len(examples.symbols)))
    eos, first_state, rows = renderer.vocabulary.eos, renderer.vocabulary.first_state, []
    for symbols, states in zip(examples.symbols.split(CHUNK), examples.states.split(CHUNK), strict=True):
        count = len(symbols)
        q_0 = torch.full((count, 1), first_state + renderer.initial_state, device=symbols.device)
        hint = torch.tensor(asked.tokens, dtype=torch.int64, device=symbols.device).expand(count, -1)
        begun = states[:, list(asked.begun)] + first_state
        prompt = torch.cat([symbols, q_0, hint, begun], dim=1)
        limit = min(renderer.generation_limit() - begun.shape[1], model.context - prompt.shape[1] + 1)
        written = torch.cat([begun, generate(decoder, prompt, eos, limit)], dim=1)
        rows.append(
            torch.nn.functional.pad(written, (0, renderer.generation_limit() - written.shape[1]), value=-1)
        )
    together = torch.cat(rows)
    ended = (together == eos).cummax(dim=1).values
    return torch.where(ended, eos, together)


def _judge(
    renderer: Renderer,
    asked: Prompted,
    written: Tensor,
    examples: TracedInputs,
    formats: dict[int, Shown],
    inputs: Literal["id", "ood"],
) -> HintFinding:
    """Rows that were cut off before an EOS are filled with -1 and count as wrong."""
    answers = renderer.read(written)
    length = torch.where(answers.ended, answers.length, (written >= 0).sum(1))
    states = torch.where(answers.ended, length - 1, -1)
    obeyed = torch.isin(states, torch.tensor(sorted(formats), device=states.device))
    if asked.wanted is not None:
        obeyed = states == asked.wanted
    exact = torch.zeros_like(answers.ended)
    for k, shown in formats.items():
        same = (written[:, : k + 1] == renderer.answer(examples.states, shown)).all(dim=1)
        exact |= same & (states == k)
    (commonest, count), *_ = Counter(length.tolist()).most_common(1)
    return HintFinding(
        kind=asked.kind,
        hint=asked.hint,
        inputs=inputs,
        right=_rate(answers.final_state == examples.states[:, -1]),
        length=float(length.float().mean()),
        obeyed=_rate(obeyed),
        exact=_rate(exact),
        commonest=f"{commonest} ({count / len(length):.0%})",
    )


def _rate(hits: Tensor) -> Rate:
    return Rate(int(hits.sum()), hits.numel())


# The command ---------------------------------------------------------------------------------------------


def audit_command(arguments: AuditArguments) -> None:
    chain = open_chain(arguments.run, arguments.device)
    with errors_console().status("audit"):
        found = audit(chain, arguments.samples, arguments.seed)
    rows = [finding.row() for finding in found]
    moment = chain.moment()
    report = {"run": chain.title, **moment.to_json(), "findings": rows}
    out = arguments.folder(chain.run.path)
    out.csv("audit", rows)
    out.json("audit", report)
    arguments.present(report, out, partial(_print_audit, f"{chain.title}, {moment}", found))


def _print_audit(title: str, found: list[HintFinding], console: Console) -> None:
    for name in ("id", "ood"):
        console.print(_audit_table(f"{title}, {name.upper()}", [f for f in found if f.inputs == name]))


def _audit_table(title: str, found: list[HintFinding]) -> object:
    columns = ["hint", "after q_0", "right", "as long as asked", "exact chain", "tokens"]
    rows = []
    for f in found:
        rates = [percent(rate.value) for rate in (f.right, f.obeyed, f.exact)]
        rows.append([f.kind, f.hint, *rates, f"{f.length:.2f}"])
    n = found[0].right.trials
    table = results_table(f"{title}: {n:,} inputs for each hint (intervals in audit.csv)", columns, rows)
    table.columns[1].justify = "left"
    for column in table.columns[:2]:
        column.no_wrap = True
    return table
