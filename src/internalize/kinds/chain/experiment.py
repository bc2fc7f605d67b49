"""The chain kind: task, curriculum and transformer joined."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from internalize.configs.named import Copies
from internalize.contract import Row, Stage
from internalize.curricula import Progress, Shown
from internalize.curricula.controller import (
    Control,
    Gentleness,
    control_step,
    cooling_for,
    enter_next,
    gentleness,
    go_back,
    guard,
)
from internalize.curricula.curriculum import Rehearsed
from internalize.curricula.saved_progress import read_control, read_progress, require_optimizer_step
from internalize.curricula.schedule import begin_step, end_step, ended_by_schedule, looks_at_signal
from internalize.errors import require
from internalize.kinds.chain.config import ChainConfig, find_weights
from internalize.kinds.chain.data import EasySteps, TrainingData, draw_format, easy_share
from internalize.kinds.chain.evaluation import evaluation_row, modes, summary_row
from internalize.kinds.chain.state import (
    AnswerAverages,
    ChainState,
    KeptPositions,
    make_optimizer,
    saved_kernel,
)
from internalize.measure.cost import NetworkCosts, costs_of
from internalize.measure.ledger import Ledger, ledger_from_json
from internalize.measure.predictor import TransformerPredictor
from internalize.models.gpt2 import GPT2
from internalize.models.huggingface import folder_files, is_exportable, starting_weights
from internalize.models.language_model import LanguageModel
from internalize.models.own_network import find_network
from internalize.models.path import AnswerStats, Kernel, choose_kernel, make_step
from internalize.runtime.kind import Finish, Streams, part_of
from internalize.sequences import language_of
from internalize.tasks.inputs import InputDistribution, Split, one_side, parse_inputs
from internalize.tasks.names import find_task


class ChainExperiment:
    """Built from its config; all that changes is in the state."""

    def __init__(self, config: ChainConfig, device: torch.device, copies: Copies) -> None:
        self.config = config
        self.device = device
        self.copies = copies
        self.task = find_task(config.task, "task", copies)[0].to(device)
        self.curriculum = config.find_curriculum(copies)[0]
        self._make_model = find_network(config.model, copies)[0]
        self.split = None if config.held_out is None else Split(config.held_out, config.seed)
        self.inputs = self.test_inputs(config.inputs)
        self.ood_inputs = self.test_inputs(config.ood_inputs, "ood-inputs")
        trained_on = one_side(parse_inputs(config.inputs, self.task.symbols), self.split, held_out=False)
        initial = self.task.initial_state if config.initial_state is None else config.initial_state
        self.renderer = language_of(self.task, self.curriculum, initial)
        self.data = TrainingData(self.task, trained_on, config.batch, config.horizon, initial)
        self.easy_steps = EasySteps(self.task, self.curriculum, initial, self.split)
        self._operations: dict[int, int] = {}

    def test_inputs(self, text: str, field: str = "inputs") -> InputDistribution:
        """The distribution of that name for measuring: on held-out inputs alone, where there are any."""
        return one_side(parse_inputs(text, self.task.symbols, field), self.split, held_out=True)

    # The state -------------------------------------------------------------------------------------------

    def init(self, streams: Streams) -> ChainState:
        """Consumes streams("init"), unless the weights come from elsewhere."""
        config = self.config
        model = self.new_model()
        if config.init_from is None:
            model.initialise(streams("init"))
        else:
            source = find_weights(config.init_from, self.copies)
            model.load(starting_weights(model, source.path, "init-from"), "init-from")
        return self.assemble(model, Progress(), ledger=Ledger())

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> ChainState:
        model = self.new_model()
        model.load(part_of(tensors, "model"), "checkpoint")
        config, schedule, stages = self.config, self.config.schedule, self.curriculum.stages
        limited = config.operations_limit is not None
        progress = read_progress(scalars["progress"], schedule, config.iterations, stages, limited)
        control = read_control(scalars.get("control"), schedule, progress, stages)
        cost = scalars.get("cost")  # states of earlier versions have none
        ledger = None if cost is None else ledger_from_json(cost, stages)
        kernel = saved_kernel(scalars["kernel"], config, self.device)
        state = self.assemble(model, progress, kernel, ledger, control)
        require_optimizer_step(scalars["optimizer"]["step"], progress, config.optimizer.reset)
        state.optimizer.load(part_of(tensors, "optimizer"), scalars["optimizer"])
        state.averages.load(part_of(tensors, "averages"))
        if state.good is not None:
            state.good.load(part_of(tensors, "good"), scalars["good"])
        return state

    def _kernel(self) -> Kernel:
        choice = self.config.kernel
        if self.config.model.network is not None:
            return "plain"  # the fast path is GPT-2's
        good = choice != "fast" or self.device.type == "cpu"
        require(good, "kernel", f"the fast path is the processor's: on {self.device} choose auto or plain")
        return choose_kernel(self.device) if choice == "auto" else choice

    def new_model(self) -> LanguageModel:
        """A model of the config's shape, its weights not yet set."""
        return self._make_model(self.renderer.vocabulary.size, self.renderer.context).to(self.device)

    @cached_property
    def costs(self) -> NetworkCosts:
        """What its models cost, whatever their weights."""
        with torch.device("meta"):  # of GPT-2 only the shapes are needed
            return costs_of(self._make_model(self.renderer.vocabulary.size, self.renderer.context))

    def trial_data(self, batch: int) -> TrainingData:
        """Training data in batches of another size, to time a step on."""
        return TrainingData(self.task, self.data.inputs, batch, self.config.horizon, self.data.initial_state)

    def assemble(
        self,
        model: LanguageModel,
        progress: Progress,
        kernel: Kernel | None = None,
        ledger: Ledger | None = None,
        control: Control | None = None,
    ) -> ChainState:
        """The state with this model; the kernel is chosen if none is given."""
        kernel = kernel or self._kernel()
        if control is None and self.config.schedule.kind == "controller":
            control = Control()
        optimizer = make_optimizer(self.config.optimizer, model)
        rehearses = isinstance(self.curriculum, Rehearsed)
        averages = AnswerAverages(self.config.horizon + 1, self.device, rehearses)
        step = make_step(kernel, self.config.precision, model, optimizer.gradient)
        positions = None
        if self.config.keep_positions:
            assert isinstance(model, GPT2)  # the config's check
            eased = self.config.ease is not None
            positions = KeptPositions(
                model, optimizer, self.renderer.prompt_length() - 1, self.curriculum, eased
            )
        return ChainState(model, optimizer, step, averages, progress, kernel, ledger, control, positions)

    # A step ----------------------------------------------------------------------------------------------

    def advance(self, state: ChainState, streams: Streams) -> tuple[ChainState, Row | None]:
        """One iteration; consumes streams("data", …), and "format", "ease", "dropout" where they are needed."""
        config = self.config
        if state.control is not None and state.control.lost:
            self._take_back(state)
        elif state.progress.stage_ended:
            self._enter_next_stage(state)
        progress, manner = state.progress, self.manner(state.control)
        symbols, states = self.data(progress.iteration, streams)
        shown = self.shown_at(progress, streams, manner)
        share = easy_share(config.ease, progress, state.control)
        if share and shown == self.curriculum.shown(progress.stage):
            generator = streams("ease", progress.iteration)
            symbols, states = self.easy_steps(symbols, states, progress.stage, share, generator)
        tokens = self.renderer.sequence(symbols, states, shown)
        if config.scored == "states":
            tokens = tokens[:, :-1]
        self._place(state.model, len(shown))
        drops = None if config.model.dropout is None else streams("dropout", progress.iteration)
        with state.positions_for(self.curriculum, shown):
            emphasis = self._emphasis(progress.stage, shown)
            stats = state.step(tokens, self.renderer.prompt_length(len(shown) + 1), drops, emphasis)
        last = progress.stage == self.curriculum.stages
        falling = cooling_for(config.schedule, progress, state.control) if last else 0
        state.optimizer.lr = config.optimizer.lr_at(progress.in_stage, falling) * manner.lr
        state.optimizer.step()
        self._note_step(state, stats, shown)
        looks = looks_at_signal(config.schedule, progress) and not share
        signal = state.averages.signal(config.schedule) if looks else None
        self._end_step(state, signal)
        due = state.progress.iteration % config.log_every == 0 or state.progress.stage_ended
        return state, self._training_row(state) if due or self._is_lost(state) else None

    def _emphasis(self, stage: int, shown: Shown) -> float:
        """How much the answer's first position counts; more only where it has something new to learn."""
        new = stage > 1 and shown == self.curriculum.shown(stage)
        return self.config.emphasis if new and self.config.emphasis is not None else 1.0

    def manner(self, control: Control | None) -> Gentleness:
        """How steps are trained: as the config says, or as the controller's attempt wants it."""
        share = self.config.rehearsal or 0.0
        if control is None:
            return Gentleness(rehearsal=share, lr=1.0, ahead=0.0)
        return gentleness(self.config.schedule, control, share)

    def _note_step(self, state: ChainState, stats: AnswerStats, shown: Shown) -> None:
        own = self.curriculum.shown(state.progress.stage)
        foreign = isinstance(self.curriculum, Rehearsed) and shown != own
        if foreign:
            state.averages.add_rehearsed(stats)
        else:
            state.averages.add(stats, self.config.schedule.memory)
        if state.ledger is not None:
            state.ledger = state.ledger.step(self.operations_of_step(len(shown) + 1), foreign)

    def operations_of_step(self, answer: int) -> int:
        """Of one training step on answers of that many tokens, EOS included."""
        if answer not in self._operations:
            prompt = self.renderer.prompt_length(answer)
            trained = answer - 1 if self.config.scored == "states" else answer  # then EOS is not trained on
            self._operations[answer] = self.costs.training_flops(self.config.batch, prompt, trained)
        return self._operations[answer]

    def mean_operations(self, stage: int) -> float:
        """Of a training step of that stage, over the formats that it draws from."""
        return sum(
            share * self.operations_of_step(len(shown) + 1)
            for shown, share in self.curriculum.shares(stage).items()
        )

    def _end_step(self, state: ChainState, signal: float | None) -> None:
        config, stages = self.config, self.curriculum.stages
        if state.control is None:
            state.progress = end_step(config.schedule, state.progress, config.iterations, stages, signal)
        else:
            state.progress, state.control = control_step(
                config.schedule, state.progress, state.control, config.iterations, stages, signal, self.chance
            )
        if state.control is not None and signal is not None:
            state.control = guard(config.schedule, state.control, state.averages.rehearsed_worst())
        progress = state.progress
        if state.ledger is not None and progress.stage_ended and self._has_passed(state):
            state.ledger = state.ledger.stage_passed(progress.stage, progress.iteration)
        limit = config.operations_limit
        if state.ledger is not None and limit is not None and state.ledger.operations >= limit:
            state.progress = replace(progress, stage_ended=True, finished=True)

    @property
    def chance(self) -> float:
        """The schedule's signal for a model that knows nothing of a state."""
        states = self.task.states
        return math.log(states) if self.config.schedule.signal == "loss" else 1 / states

    def _has_passed(self, state: ChainState) -> bool:
        if state.control is not None:
            return state.control.settled
        return ended_by_schedule(self.config.schedule, state.progress, self.config.iterations)

    def _is_lost(self, state: ChainState) -> bool:
        return state.control is not None and state.control.lost

    def _enter_next_stage(self, state: ChainState) -> None:
        before = state.progress.stage
        if state.control is None:
            state.progress = begin_step(state.progress)
        else:
            assert state.good is not None
            state.good.keep(state.optimizer)
            state.progress, state.control = enter_next(state.progress, state.control)
        self._move_positions(state, before)
        state.averages.begin_stage()
        if self.config.optimizer.reset:
            state.optimizer.reset()

    def _take_back(self, state: ChainState) -> None:
        """Undo a lost attempt: weights and optimizer as they were at the end of the stage before."""
        assert state.control is not None
        assert state.good is not None
        state.good.take_back(state.optimizer)
        passed = state.control.frontier - 1
        state.progress, state.control = go_back(self.config.schedule, state.progress, state.control)
        self._move_positions(state, passed)
        state.averages.begin_stage()
        if self.config.optimizer.reset:
            state.optimizer.reset()
        if state.ledger is not None:
            state.ledger = state.ledger.attempt_undone()

    def _move_positions(self, state: ChainState, stage: int) -> None:
        """From their order at that stage (the present one, or the one before) to that of the present one."""
        if state.positions is not None:
            state.positions.begin_stage(stage, state.progress.stage)

    def shown_at(self, progress: Progress, streams: Streams, manner: Gentleness | None = None) -> Shown:
        """The states this iteration shows; where there are several formats, streams("format", iteration)
        decides.
        """
        manner = manner or self.manner(None)
        formats = self.curriculum.formats(progress.stage)
        if len(formats) == 1 and not manner.ahead:
            return formats[0]
        generator = streams("format", progress.iteration)
        if not isinstance(self.curriculum, Rehearsed):
            return draw_format(formats, self.curriculum.shares(progress.stage), generator)
        chance, which = torch.rand(2, generator=generator, device=generator.device).tolist()
        if chance >= 1 - manner.ahead and progress.stage < self.curriculum.stages:
            return self.curriculum.shown(progress.stage + 1)
        return self.curriculum.draw(progress.stage, manner.rehearsal, chance, which)

    def _place(self, model: LanguageModel, states: int) -> None:
        """Set the positions for answers of so many states, where they depend on it."""
        if self.config.answer_positions is not None:
            assert isinstance(model, GPT2)  # the config allows no other
            model.places = self.renderer.places(states).to(self.device)

    def _training_row(self, state: ChainState) -> Row:
        row: Row = {
            "event": "train",
            "iteration": state.progress.iteration,
            "stage": state.progress.stage,
            **state.averages.read_window(),
            **state.story(),
        }
        return row

    # For the loop ----------------------------------------------------------------------------------------

    def stage(self, state: ChainState) -> Stage:
        progress = state.progress
        return Stage(
            index=progress.stage,
            total=self.curriculum.stages,
            label=self._label(state),
            just_ended=progress.stage_ended and not self._gave_up(state),
            step=progress.iteration,
            steps=self.config.iterations,
            losses=state.named_losses(self.curriculum),
        )

    def _label(self, state: ChainState) -> str:
        label = self.curriculum.label(state.progress.stage)
        if state.control is None or state.control.attempt == 1:
            return label
        return f"{label}, attempt {state.control.attempt} at stage {state.control.frontier}"

    def _gave_up(self, state: ChainState) -> bool:
        """A stage that was given up is not kept as one that ended."""
        return state.control is not None and bool(state.control.gave_up)

    def done(self, state: ChainState) -> bool:
        return state.progress.finished

    def evaluation_due(self, state: ChainState) -> bool:
        every = self.config.evaluation_interval
        return state.progress.stage_ended or state.progress.iteration % every == 0

    def evaluate(self, state: ChainState, streams: Streams) -> Row:
        """Consumes streams("evaluate/…", iteration). Of the state only the ledger of costs takes note of it."""
        progress = state.progress
        row: Row = {"event": "evaluation", "iteration": progress.iteration, "stage": progress.stage}
        found, direct = evaluation_row(self, state, streams, self.config.evaluation.samples)
        if state.ledger is not None:
            last = progress.stage == self.curriculum.stages
            state.ledger = state.ledger.measured(progress.iteration, last, direct)
        return row | found | state.story()

    def snapshot(self, state: ChainState) -> dict[str, Tensor]:
        return state.weights()

    def finish(self, state: ChainState, streams: Streams) -> Finish:
        """Consumes streams("final/…")."""
        files, model, words = {}, state.model, self.renderer.vocabulary
        if isinstance(model, GPT2) and is_exportable(model):
            files = folder_files(model, words.tokens(), words.eos)
        return Finish(summary_row(self, state, streams), state.weights(), files)

    def predictor(self, state: ChainState, budget: int | None) -> TransformerPredictor:
        budget = self._budget(budget, state.progress.stage)
        self._place(state.model, len(self.curriculum.shown(state.progress.stage)))
        return TransformerPredictor(state.model, self.renderer, budget, state.kernel)

    def _budget(self, budget: int | None, stage: int) -> int | None:
        """A model that never learned EOS cannot end its answer: it writes as many states as its format."""
        if budget is None and self.config.scored == "states":
            return len(self.curriculum.shown(stage)) + 1
        return budget

    def load_predictor(
        self, weights: Mapping[str, Tensor], budget: int | None, stage: int | None = None
    ) -> TransformerPredictor:
        """A predictor from saved weights, as of a stage's end; the last stage's if not given.

        Without a budget it is asked as it was measured at that stage.
        """
        model = self.new_model()
        model.load(weights, "run")
        stage = stage or self.curriculum.stages
        if budget is None:
            budget = self._budget(modes(self.curriculum, stage)[0].budget, stage)
        self._place(model, len(self.curriculum.shown(stage)) if budget is None else budget - 1)
        return TransformerPredictor(model, self.renderer, budget, self._kernel())
