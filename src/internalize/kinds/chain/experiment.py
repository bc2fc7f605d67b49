"""The chain kind: task, curriculum and transformer joined."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from internalize.configs.named import Copies
from internalize.contract import Row, Stage
from internalize.curricula import Progress, Shown, find_curriculum
from internalize.curricula.schedule import begin_step, end_step, looks_at_signal
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.data import TrainingData
from internalize.kinds.chain.evaluation import evaluation_row, summary_row
from internalize.kinds.chain.starting_weights import find_weights, read_starting_weights
from internalize.kinds.chain.state import AnswerAverages, ChainState, part_of
from internalize.measure.cost import NetworkCosts, costs_of
from internalize.measure.predictor import TransformerPredictor
from internalize.models.gpt2 import GPT2
from internalize.models.huggingface import folder_files, is_exportable
from internalize.models.language_model import LanguageModel
from internalize.models.own_network import find_network
from internalize.models.parameters import AdamW, flatten_parameters
from internalize.models.path import Kernel, choose_kernel, make_step
from internalize.runtime.experiment import Finish
from internalize.runtime.streams import Streams
from internalize.sequences.rendering import Renderer, vocabulary_of
from internalize.tasks.inputs import InputDistribution, Split, one_side, parse_inputs
from internalize.tasks.names import find_task


class ChainExperiment:
    """Built from its config; all that changes is in the state."""

    def __init__(self, config: ChainConfig, device: torch.device, copies: Copies) -> None:
        self.config = config
        self.device = device
        self.copies = copies
        self.task = find_task(config.task, "task", copies)[0].to(device)
        self.curriculum = find_curriculum(config.method, config.horizon, copies)[0]
        self._make_model = find_network(config.model, copies)[0]
        self.split = None if config.held_out is None else Split(config.held_out, config.seed)
        self.inputs = self.test_inputs(config.inputs)
        self.ood_inputs = self.test_inputs(config.ood_inputs, "ood-inputs")
        trained_on = one_side(parse_inputs(config.inputs, self.task.symbols), self.split, held_out=False)
        initial = self.task.initial_state if config.initial_state is None else config.initial_state
        vocabulary = vocabulary_of(self.task, config.horizon, self.curriculum.length_hint)
        self.renderer = Renderer(vocabulary, config.horizon, initial)
        self.data = TrainingData(self.task, trained_on, config.batch, config.horizon, initial)

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
            model.load(read_starting_weights(model, source), "init-from")
        return self.assemble(model, Progress())

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> ChainState:
        model = self.new_model()
        model.load(part_of(tensors, "model"), "checkpoint")
        state = self.assemble(model, Progress(**scalars["progress"]), scalars["kernel"])
        state.optimizer.load(part_of(tensors, "optimizer"), scalars["optimizer"])
        state.averages.load(part_of(tensors, "averages"))
        return state

    def _kernel(self) -> Kernel:
        choice = self.config.kernel
        if self.config.model.network is not None or self.config.model.dropout is not None:
            return "plain"  # the fast path is GPT-2's, and drops nothing
        return choose_kernel(self.config.model, self.device) if choice == "auto" else choice

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

    def assemble(self, model: LanguageModel, progress: Progress, kernel: Kernel | None = None) -> ChainState:
        """The state with this model; the kernel is chosen if none is given."""
        kernel = kernel or self._kernel()
        parameters, gradient = flatten_parameters(model)
        choice = self.config.optimizer
        optimizer = AdamW(parameters, gradient, choice.lr, choice.betas, choice.weight_decay)
        averages = AnswerAverages(self.config.horizon + 1, self.device)
        step = make_step(kernel, self.config.precision, model, gradient)
        return ChainState(model, optimizer, step, averages, progress, kernel)

    # A step ----------------------------------------------------------------------------------------------

    def advance(self, state: ChainState, streams: Streams) -> tuple[ChainState, Row | None]:
        """One iteration; consumes streams("data", …), and "format" and "dropout" where there are any."""
        config = self.config
        if state.progress.stage_ended:
            self._enter_next_stage(state)
        progress = state.progress
        symbols, states = self.data(progress.iteration, streams)
        shown = self.shown_at(progress, streams)
        tokens = self.renderer.sequence(symbols, states, shown)
        if config.scored == "states":
            tokens = tokens[:, :-1]
        drops = None if config.model.dropout is None else streams("dropout", progress.iteration)
        stats = state.step(tokens, self.renderer.prompt_length, drops)
        state.optimizer.step()
        state.averages.add(stats, config.schedule.memory)
        signal = state.averages.signal(config.schedule) if looks_at_signal(config.schedule, progress) else None
        state.progress = end_step(config.schedule, progress, config.iterations, self.curriculum.stages, signal)
        due = state.progress.iteration % config.log_every == 0 or state.progress.stage_ended
        return state, self._training_row(state) if due else None

    def _enter_next_stage(self, state: ChainState) -> None:
        state.progress = begin_step(state.progress)
        state.averages.begin_stage()
        if self.config.optimizer.reset:
            state.optimizer.reset()

    def shown_at(self, progress: Progress, streams: Streams) -> Shown:
        """The states this iteration shows; a mixture draws them from streams("format", iteration)."""
        formats = self.curriculum.formats(progress.stage)
        if len(formats) == 1:
            return formats[0]
        generator = streams("format", progress.iteration)
        return formats[int(torch.randint(len(formats), (), generator=generator, device=generator.device))]

    def _training_row(self, state: ChainState) -> Row:
        row: Row = {
            "event": "train",
            "iteration": state.progress.iteration,
            "stage": state.progress.stage,
            **state.averages.read_window(),
        }
        return row

    # For the loop ----------------------------------------------------------------------------------------

    def stage(self, state: ChainState) -> Stage:
        progress = state.progress
        return Stage(
            index=progress.stage,
            total=self.curriculum.stages,
            label=self.curriculum.label(progress.stage),
            just_ended=progress.stage_ended,
            step=progress.iteration,
            steps=self.config.iterations,
        )

    def done(self, state: ChainState) -> bool:
        return state.progress.finished

    def evaluation_due(self, state: ChainState) -> bool:
        every = self.config.evaluation_interval
        return state.progress.stage_ended or state.progress.iteration % every == 0

    def evaluate(self, state: ChainState, streams: Streams) -> Row:
        """Consumes streams("evaluate/…", iteration)."""
        row: Row = {
            "event": "evaluation",
            "iteration": state.progress.iteration,
            "stage": state.progress.stage,
        }
        return row | evaluation_row(self, state, streams, self.config.evaluation.samples)

    def snapshot(self, state: ChainState) -> dict[str, Tensor]:
        return state.weights()

    def finish(self, state: ChainState, streams: Streams) -> Finish:
        """Consumes streams("final/…")."""
        files, model = {}, state.model
        if isinstance(model, GPT2) and is_exportable(model):
            files = folder_files(model, self.renderer.vocabulary.tokens(), self.renderer.vocabulary.eos)
        return Finish(summary_row(self, state, streams), state.weights(), files)

    def predictor(self, state: ChainState, budget: int | None) -> TransformerPredictor:
        budget = self._budget(budget, state.progress.stage)
        return TransformerPredictor(state.model, self.renderer, budget, state.kernel)

    def _budget(self, budget: int | None, stage: int) -> int | None:
        """A model that never learned EOS cannot end its answer: it writes as many states as its format."""
        if budget is None and self.config.scored == "states":
            return len(self.curriculum.shown(stage)) + 1
        return budget

    def load_predictor(self, weights: Mapping[str, Tensor], budget: int | None) -> TransformerPredictor:
        """A predictor from saved weights, as of a stage's end."""
        model = self.new_model()
        model.load(weights, "run")
        budget = self._budget(budget, self.curriculum.stages)
        return TransformerPredictor(model, self.renderer, budget, self._kernel())
