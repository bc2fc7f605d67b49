"""The text kind: rows, curriculum and language model joined."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from internalize.contract import Row, Stage
from internalize.curricula import Progress
from internalize.curricula.saved_progress import read_progress, require_optimizer_step
from internalize.curricula.schedule import begin_step, end_step, ended_by_schedule, looks_at_signal
from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.evaluation import TextCosts, TextPredictor, evaluation_row, summary_row
from internalize.kinds.text.export import folder_files
from internalize.kinds.text.generation import FastTextStep, fast_shape, share_storage
from internalize.kinds.text.material import Material
from internalize.kinds.text.network import add_adapters, build, load_weights, merged, outline, weights_of
from internalize.kinds.text.rendering import Rendered
from internalize.kinds.text.state import SlotAverages, TextState, TextStep, clip, cool_down, rows_at, warm_up
from internalize.measure.ledger import Ledger, ledger_from_json
from internalize.models.parameters import AdamW, flatten_parameters
from internalize.runtime.kind import Finish, Streams, part_of


class TextExperiment:
    """Built from its config and material; all that changes is in the state."""

    def __init__(self, config: TextConfig, material: Material, device: torch.device) -> None:
        self.config = config
        self.material = material
        self.device = device
        self.curriculum = material.curriculum

    # The state -------------------------------------------------------------------------------------------

    def init(self, streams: Streams) -> TextState:
        """Consumes streams("init") for weights from scratch and new markers, and streams("lora")."""
        return self._assemble(self.new_model(streams), Progress(), Ledger())

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> TextState:
        model = self.new_model()
        load_weights(model, part_of(tensors, "model"), "checkpoint", self.trained_only)
        cost = scalars.get("cost")
        config, stages = self.config, self.curriculum.stages
        ledger = None if cost is None else ledger_from_json(cost, stages)
        progress = read_progress(scalars["progress"], config.schedule, config.iterations, stages)
        state = self._assemble(model, progress, ledger)
        require_optimizer_step(scalars["optimizer"]["step"], progress, config.optimizer.reset)
        state.optimizer.load(part_of(tensors, "optimizer"), scalars["optimizer"])
        state.averages.load(part_of(tensors, "averages"))
        return state

    @property
    def trained_only(self) -> bool:
        """Whether only a part of the weights is trained and kept."""
        return self.config.lora.rank is not None

    def new_model(self, streams: Streams | None = None) -> nn.Module:
        """The model with the weights that a training begins with.

        Without streams its weights are not settled, but for those of a folder that stay as they are.
        """
        if streams is None and self.trained_only:
            streams = Streams(
                self.config.seed
            )  # the frozen weights with their new markers, as at the beginning
        generator = None if streams is None else streams.on_processor("init")
        model = build(self.material.model, self.material.tokenizer.size, generator)
        if streams is not None and self.trained_only:
            model = add_adapters(model, self.config.lora, self.material.tokenizer, streams.on_processor("lora"))
        if self.config.checkpointing:
            whole: Any = model
            whole.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            if self.trained_only:
                whole.enable_input_require_grads()
        return model.to(self.device).train(self.config.dropout > 0 or self.config.checkpointing)

    @cached_property
    def costs(self) -> TextCosts:
        """What its models cost, whatever their weights."""
        return TextCosts.of(outline(self.material.model, self.material.tokenizer.size))

    def _assemble(self, model: nn.Module, progress: Progress, ledger: Ledger | None) -> TextState:
        config, choice = self.config, self.config.optimizer
        library: Any = model
        shape = fast_shape(library.config, config, self.device)
        own = None
        if shape is None:
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            parameters, gradient = flatten_parameters(nn.ParameterList(trained))
        else:
            own, parameters, gradient = share_storage(model, shape)
        plain = TextStep(model, gradient, self.material.renderer, config.precision, config.accumulate)
        step = plain if own is None else FastTextStep(plain, own)
        optimizer = AdamW(parameters, gradient, choice.lr, choice.betas, choice.weight_decay)
        averages = SlotAverages(self.material.renderer.slots, self.device)
        return TextState(model, optimizer, averages, progress, self.trained_only, step, ledger)

    # A step ----------------------------------------------------------------------------------------------

    def advance(self, state: TextState, streams: Streams) -> tuple[TextState, Row | None]:
        """One iteration; consumes streams("order", …), and "format", "smoothing", "dropout" as they apply."""
        config = self.config
        if state.progress.stage_ended:
            self._enter_next_stage(state)
        progress = state.progress
        rows = self.rendered_at(progress, streams)
        drops = streams("dropout", progress.iteration) if config.dropout > 0 else None
        stats = state.step(rows, drops)
        self._update(state)
        state.averages.add(stats, config.schedule.memory)
        signal = state.averages.signal(config.schedule) if looks_at_signal(config.schedule, progress) else None
        state.progress = end_step(config.schedule, progress, config.iterations, self.curriculum.stages, signal)
        self._count(state, rows)
        due = state.progress.iteration % config.log_every == 0 or state.progress.stage_ended
        return state, self._training_row(state) if due else None

    def _count(self, state: TextState, rows: list[Rendered]) -> None:
        """A step's operations go into the ledger, and a stage that its schedule has ended."""
        if state.ledger is None:
            return
        operations = sum(self.costs.training_flops(row.prompt, len(row.slots)) for row in rows)
        state.ledger = state.ledger.step(operations, rehearsed=False)
        progress, config = state.progress, self.config
        if progress.stage_ended and ended_by_schedule(config.schedule, progress, config.iterations):
            state.ledger = state.ledger.stage_passed(progress.stage, progress.iteration)

    def _update(self, state: TextState) -> None:
        choice, progress = self.config.optimizer, state.progress
        if choice.clip is not None:
            clip(state.optimizer.gradient, choice.clip)
        done = progress.in_stage if choice.reset else progress.iteration
        left = self.config.iterations - progress.iteration
        state.optimizer.lr = choice.lr * warm_up(done, choice.warmup) * cool_down(left, choice.cooldown)
        state.optimizer.step()

    def rendered_at(self, progress: Progress, streams: Streams) -> list[Rendered]:
        """The rows of an iteration, as its stage shows them."""
        material, curriculum = self.material, self.curriculum
        chosen = rows_at(progress.iteration, self.config.batch, len(material.train), streams)
        rows = [material.train[i] for i in chosen]
        if curriculum.budgets:
            generator = streams.on_processor("format", progress.iteration)
            drawn = int(torch.randint(len(curriculum.budgets), (), generator=generator))
            units = curriculum.budgets[drawn]
            kept = [curriculum.kept_within(len(row.units), units) for row in rows]
            return [material.renderer.render(row, k, drawn) for row, k in zip(rows, kept, strict=True)]
        offsets = [0] * len(rows)
        if curriculum.removal.smoothing is not None:
            generator = streams.on_processor("smoothing", progress.iteration)
            offsets = curriculum.draw_offsets(len(rows), generator)
        return [
            material.renderer.render(row, curriculum.kept(len(row.units), progress.stage, offset))
            for row, offset in zip(rows, offsets, strict=True)
        ]

    def _enter_next_stage(self, state: TextState) -> None:
        state.progress = begin_step(state.progress)
        state.averages.begin_stage()
        if self.config.optimizer.reset:
            state.optimizer.reset()

    def _training_row(self, state: TextState) -> Row:
        row: Row = {
            "event": "train",
            "iteration": state.progress.iteration,
            "stage": state.progress.stage,
            **state.averages.read_window(),
        }
        if state.ledger is not None:
            row["operations"] = state.ledger.operations
        return row

    # For the loop ----------------------------------------------------------------------------------------

    def stage(self, state: TextState) -> Stage:
        progress = state.progress
        return Stage(
            index=progress.stage,
            total=self.curriculum.stages,
            label=self.curriculum.label(progress.stage),
            just_ended=progress.stage_ended,
            step=progress.iteration,
            steps=self.config.iterations,
            losses=tuple((self._slot_name(slot), loss) for slot, loss in state.averages.newest),
        )

    def _slot_name(self, slot: int) -> str:
        """1, 2, … in the chain, then the marker and the tokens of the answer with its end."""
        after = slot - self.material.renderer.longest_chain
        return str(slot + 1) if after < 0 else "→" if after == 0 else f"a{after}"

    def done(self, state: TextState) -> bool:
        return state.progress.finished

    def evaluation_due(self, state: TextState) -> bool:
        every = self.config.evaluation.every
        return state.progress.stage_ended or (every is not None and state.progress.iteration % every == 0)

    def evaluate(self, state: TextState, streams: Streams) -> Row:
        """Of the state only the ledger of costs takes note of it."""
        row: Row = {
            "event": "evaluation",
            "iteration": state.progress.iteration,
            "stage": state.progress.stage,
        }
        found, direct = evaluation_row(self, state)
        if state.ledger is not None:
            last = state.progress.stage == self.curriculum.stages
            state.ledger = state.ledger.measured(state.progress.iteration, last, direct)
        return row | found

    def snapshot(self, state: TextState) -> dict[str, Tensor]:
        return state.weights()

    def finish(self, state: TextState, streams: Streams) -> Finish:
        summary = summary_row(self, state, streams)
        model = merged(state.model) if self.trained_only else state.model
        return Finish(summary, weights_of(model), folder_files(self, model))

    def predictor(self, state: TextState, budget: int | None) -> TextPredictor:
        return TextPredictor(self, state.model, state.progress.stage, budget)

    def load_predictor(
        self, weights: Mapping[str, Tensor], budget: int | None, stage: int | None = None
    ) -> TextPredictor:
        """A predictor from saved weights, as of a stage's end; None: the last stage."""
        return TextPredictor(self, self.load_model(weights), stage or self.curriculum.stages, budget)

    def load_model(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """From a stage's end, or from the final folder, which holds all weights even where few were trained."""
        whole = self.trained_only and not any("lora_" in name for name in weights)
        if whole:
            model = build(self.material.model, self.material.tokenizer.size, None).to(self.device)
            load_weights(model, weights, "run")
        else:
            model = self.new_model()
            load_weights(model, weights, "run", self.trained_only)
        return model.eval()
