"""A run opened to be asked: its config, rows and stages, its model at any stage, and fresh inputs.

`open_run(path)` is what notebooks call. Everything in this room goes through it; no other file here knows how a
run folder becomes a config, an experiment and a model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from internalize.constructions.transformer import require_memory
from internalize.curricula import Shown
from internalize.errors import BadInput, closest, require
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.evaluation import modes
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.entrance import Moment, OpenRun, OpenStages, load_experiment, own_opened
from internalize.measure.activations import activations
from internalize.measure.predictor import TransformerPredictor
from internalize.models.gpt2 import GPT2
from internalize.models.language_model import LanguageModel
from internalize.runs.folder import Run
from internalize.runtime.kind import Streams
from internalize.tasks import InputDistribution
from internalize.tasks.inputs import OneSide

ANY_KIND = "`runs show` works with every kind, `ask` with every kind that answers"
Symbols = str | Sequence[str | int]
"""One input: its symbols by name in a text, `1 0 1 1`, or as a list of names or numbers."""


def open_run(path: Path | str, device: str = "auto", field: str = "run") -> OpenRun:
    """Only chains can be looked into.

    path: the run's folder, a unique part of its name, the beginning of its hash, or `latest`.
    """
    from internalize.analysis.open_bits import OPENED

    run = Run.open(path, field)
    config, experiment = load_experiment(run, device)
    opened = OpenChain if isinstance(experiment, ChainExperiment) else OPENED.get(type(experiment))
    return (opened or own_opened(run.identity().kind) or OpenRun)(run, config, experiment)


def open_chain(path: Path | str, device: str = "auto", field: str = "run") -> OpenChain:
    """The same, for whoever asks what only runs of chains can tell."""
    opened = open_run(path, device, field)
    if not isinstance(opened, OpenChain):
        kind = opened.run.identity().kind
        raise BadInput(field, f"{opened.title} is a run of {kind}: this works with runs of `train`; {ANY_KIND}")
    return opened


def stream(seed: int, name: str, device: torch.device | None = None) -> torch.Generator:
    """The random numbers of that name: the same for the same seed, whatever was drawn before."""
    return Streams(seed, device or torch.device("cpu"))(name)


@dataclass(frozen=True)
class TracedInputs:
    """Inputs from one distribution and what is true of them."""

    inputs: str
    symbols: Tensor
    """(samples, T)"""
    states: Tensor
    """(samples, T+1): q_0 … q_T."""
    chance: float
    """The share of the commonest final state: what always saying the same would reach."""


@dataclass(frozen=True)
class Answered:
    """What a run answered to one input."""

    prompt: str
    text: str
    """The answer, token by token."""
    states: tuple[str, ...]
    """The states in it, by name."""
    final: str | None
    """The state right before EOS: the answer itself. None if there is none."""
    truth: tuple[str, ...]
    """q_1 … q_T."""
    truth_text: str
    """The same, token by token."""
    right: bool
    """Whether the final state is q_T."""
    moment: Moment

    def __str__(self) -> str:
        said = "no answer" if self.final is None else self.final
        judged = "right" if self.right else f"wrong: it is {self.truth[-1]}"
        return f"{said} ({judged}; it wrote {self.text}; {self.moment})"


SHARES_DRAWN = 20_000
"""Inputs in which final states are counted where they cannot be computed."""


class OpenChain(OpenStages):
    """A run of chains, whose stages can be loaded one by one."""

    config: ChainConfig
    experiment: ChainExperiment

    def __init__(self, run: Run, config: Any, experiment: Any, trained: ChainExperiment | None = None) -> None:
        """trained: what the run was trained as, where it is asked inputs of another length."""
        super().__init__(run, config, experiment)
        self.trained: ChainExperiment = trained or experiment
        self._shares: dict[tuple[str, bool], Tensor] = {}

    @property
    def all_stages(self) -> int:
        return self.trained.curriculum.stages

    @property
    def horizon(self) -> int:
        return self.experiment.config.horizon

    def at_horizon(self, horizon: int, field: str = "horizon") -> OpenChain:
        """The same weights, asked inputs of another length; refused where the model cannot read them."""
        require(horizon >= 1, field, f"must be at least 1 symbol, got {horizon}")
        config = self.trained.config
        if horizon == config.horizon:
            return OpenChain(self.run, self.config, self.trained)
        why = f"must be {config.horizon} symbols, got {horizon}: {self.title} was trained with"
        fixed = config.model.positions == "absolute" and config.model.network is None
        require(not fixed, field, f"{why} absolute positions; train with --model.positions rotary for others")
        told = self.trained.curriculum
        require(not told.length_hint, field, f"{why} a token for each length of an answer, and knows no others")
        require(not told.pauses, field, f"{why} as many pauses as states are hidden, and never with more")
        longer = replace(config, horizon=horizon)
        experiment = longer.build(self.trained.device, self.run.copies())
        return OpenChain(self.run, self.config, experiment, self.trained)

    # Which weights ---------------------------------------------------------------------------------------

    def predictor(self, budget: int | None = None, stage: int | None = None) -> TransformerPredictor:
        """From the weights of that moment. budget: tokens of an answer with EOS; None: as at that stage."""
        stage = self.moment(stage).stage
        weights = self.run.weights(stage if stage in self.run.stages() else None)
        return self.experiment.load_predictor(weights, budget, self._stage_here(stage))

    def model(self, stage: int | None = None) -> LanguageModel:
        """The network itself, for whoever looks inside it; of a network of one's own it is `.module`.

        stage: the weights at its end. None: the final ones, or in an unfinished run those at the end of the
        last stage that ended; `moment` says which.
        """
        return self.predictor(stage=stage).model

    def untrained(self) -> LanguageModel:
        """The very model that the run began with, or would have begun with, before any training."""
        model = self.experiment.new_model()
        model.initialise(stream(self.config.seed, "init", self.experiment.device))
        return model

    def transformer(self, stage: int | None = None) -> GPT2:
        """The model, for whoever needs the layers of the built-in GPT-2; other networks are refused."""
        model = self.model(stage)
        self._require_built_in("this command looks at the layers of")
        return cast(GPT2, model)

    def _require_built_in(self, what: str) -> None:
        network = self.config.model.network
        require(network is None, "run", f"{self.title} trained {network}: {what} the built-in GPT-2 alone")

    def own_shown(self, stage: int, budget: int | None = None) -> Shown:
        """What the stage's own format shows; of a mixture's formats the one of this budget, or the direct one.

        budget: tokens of the answer, EOS included.
        """
        curriculum, stage = self.experiment.curriculum, self._stage_here(stage)
        if budget is None:
            return curriculum.shortest(stage) if curriculum.tells_length else curriculum.shown(stage)
        lengths = {len(shown) + 1: shown for shown in curriculum.formats(stage)}
        wrong = f"stage {stage} trained answers of {sorted(lengths)} tokens, not {budget}"
        require(budget in lengths, "budget", wrong)
        return lengths[budget]

    def _stage_here(self, stage: int) -> int:
        """The stage at the horizon that is asked for: at another one the last stage is still the last."""
        here, last = self.experiment.curriculum.stages, self.trained.curriculum.stages
        require(1 <= stage <= last, "stage", f"must lie in 1…{last}, got {stage}")
        return here if stage == last else min(stage, here)

    def ways_to_ask(self, stage: int | None) -> dict[str, TransformerPredictor]:
        """Mixtures are asked for their shortest and their longest answer, others answer as they like."""
        asked = modes(self.experiment.curriculum, self.moment(stage).stage)
        hint = "LEN_{}" if self.experiment.renderer.length_hint else "{} tokens"
        names = {"free" if mode.budget is None else hint.format(mode.budget): mode.budget for mode in asked}
        return {name: self.predictor(budget, stage) for name, budget in names.items()}

    # Inputs ----------------------------------------------------------------------------------------------

    def require_room(self, count: int, field: str) -> None:
        """Refuse more sequences than memory holds, by their symbols and states alone, eight bytes each."""
        length = self.horizon
        require_memory(8 * count * (2 * length + 1), field, f"{count:,} sequences of {length} symbols")

    def draw(self, inputs: InputDistribution, samples: int, seed: int, purpose: str) -> TracedInputs:
        """Fresh inputs; the same seed and purpose give the same ones."""
        require(samples >= 1, "samples", f"must be at least 1, got {samples}")
        self.require_room(samples, "samples")
        generator = stream(seed, f"{purpose}/{inputs.name}", self.experiment.device)
        symbols = inputs.sample((samples, self.horizon), generator)
        states = self.experiment.task.trace(symbols, self.experiment.renderer.initial_state)
        return TracedInputs(inputs.name, symbols, states, float(self.final_shares(inputs).max()))

    def final_shares(self, inputs: InputDistribution) -> Tensor:
        """(states,) float64: how often inputs end in each state, computed symbol by symbol, not sampled.

        Of inputs that are held out, or all others, which no formula counts: in a large draw, always the same.
        """
        task, start = self.experiment.task, self.experiment.renderer.initial_state
        if not isinstance(inputs, OneSide):
            return task.final_shares(inputs.probabilities, self.horizon, start)
        key = (inputs.name, inputs.held_out)
        if key not in self._shares:
            generator = stream(0, f"final shares/{inputs.name}", self.experiment.device)
            states = task.trace(inputs.sample((SHARES_DRAWN, self.horizon), generator), start)
            counts = torch.bincount(states[:, -1].cpu(), minlength=task.states)
            self._shares[key] = counts.double() / SHARES_DRAWN
        return self._shares[key]

    def both_inputs(self) -> dict[str, InputDistribution]:
        return {"id": self.experiment.inputs, "ood": self.experiment.ood_inputs}

    def read_symbols(self, inputs: Symbols) -> Tensor:
        """(1, T): one input that somebody typed; its length may be the run's own horizon alone."""
        names = list(self.experiment.task.symbol_names)
        words = words_of(inputs, names)
        numbers = []
        for word in words:
            if isinstance(word, int) and not isinstance(word, bool) and 0 <= word < len(names):
                numbers.append(word)
                continue
            known = ", ".join(names)
            require(
                word in names, "inputs", f"{word!r} is no symbol{closest(str(word), names)}; there are {known}"
            )
            numbers.append(names.index(str(word)))
        wrong = f"must have {self.horizon} symbols, got {len(numbers)}"
        require(len(numbers) == self.horizon, "inputs", wrong)
        return torch.tensor([numbers], device=self.experiment.device)

    # Answers ---------------------------------------------------------------------------------------------

    def answer(self, inputs: Symbols, budget: int | None = None, stage: int | None = None) -> Answered:
        """What it says to one input, and whether that is right. Another length is read where the model can."""
        words = words_of(inputs, self.experiment.task.symbol_names)
        chain = self if len(words) == self.horizon else self.at_horizon(len(words), "inputs")
        symbols = chain.read_symbols(words)
        return chain.answers(symbols, chain.predictor(budget, stage), chain.moment(stage))[0]

    def answers(self, symbols: Tensor, predictor: TransformerPredictor, moment: Moment) -> list[Answered]:
        """(inputs, T) symbols to one answer each."""
        renderer, task = self.experiment.renderer, self.experiment.task
        states = task.trace(symbols, renderer.initial_state)
        generated = predictor.generate(symbols)
        read = renderer.read(generated)
        prompts = renderer.text(renderer.prompt(symbols, predictor.answer_length))
        rows = zip(prompts, renderer.text(generated), read.final_state.tolist(), states.tolist(), strict=True)
        return [
            Answered(
                prompt=prompt,
                text=text,
                states=tuple(word.removeprefix("q:") for word in text.split() if word.startswith("q:")),
                final=None if final < 0 else task.state_names[final],
                truth=tuple(task.state_names[state] for state in true[1:]),
                truth_text=" ".join(f"q:{task.state_names[state]}" for state in true[1:]),
                right=final == true[-1],
                moment=moment,
            )
            for prompt, text, final, true in rows
        ]

    # Inside ----------------------------------------------------------------------------------------------

    def activations(self, inputs: Symbols, stage: int | None = None) -> dict[str, Tensor]:
        """Every activation by name, as in measure/activations.py: it reads one input and its own answer.

        Of a network of one's own: what each submodule gives, by the submodule's name.
        """
        symbols, predictor = self.read_symbols(inputs), self.predictor(stage=stage)
        prompt = self.experiment.renderer.prompt(symbols, predictor.answer_length)
        tokens = torch.cat([prompt, predictor.generate(symbols)[:, :-1]], dim=1)
        return {name: value[0] for name, value in activations(predictor.model, tokens).items()}

    def attention(self, inputs: Symbols, stage: int | None = None) -> list[Tensor]:
        """For every layer (heads, positions, positions): who looks at whom, on prompt and own answer."""
        self._require_built_in("attention is known of")
        found = self.activations(inputs, stage)
        return [found[f"pattern.{layer}"] for layer in range(1, self.config.model.depth + 1)]

    def hidden_states(self, inputs: Symbols, stage: int | None = None) -> list[Tensor]:
        """The residual stream (positions, width) before the first and after every layer."""
        self._require_built_in("run.activations(…) has what your modules give; a residual stream is known of")
        found = self.activations(inputs, stage)
        return [found[f"residual.{layer}"] for layer in range(self.config.model.depth + 1)]


def words_of(inputs: Symbols, names: Sequence[str]) -> list[str | int]:
    """`1 0 1`, `1,0,1` or, where all symbols have one letter, `101`; lists stay as they are."""
    if not isinstance(inputs, str):
        return list(inputs)
    words = inputs.split()
    if not all(word in names for word in words):  # a name may have a comma: (1,2)
        words = [word for word in re.split(r"[\s,]+", inputs) if word]
    letters = len(words) == 1 and words[0] not in names and all(len(name) == 1 for name in names)
    return list(words[0]) if letters else list(words)
