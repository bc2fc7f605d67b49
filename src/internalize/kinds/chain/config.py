"""What a chain experiment computes: the identity of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from internalize.configs.codec import LEFT_OUT_UNLESS_SET, typed
from internalize.configs.named import Copies, Source
from internalize.curricula import Curriculum, ScheduleConfig, find_curriculum
from internalize.curricula.controller import require_time_to_learn
from internalize.curricula.curriculum import Reach, Rehearsed, add_rehearsal
from internalize.errors import BadInput, require, require_seed
from internalize.models.config import AdamWConfig, ModelConfig, Precision
from internalize.runs.folder import Run
from internalize.runs.location import split_stage
from internalize.tasks.inputs import Split, parse_inputs, require_both_sides
from internalize.tasks.names import find_task

if TYPE_CHECKING:
    import torch

    from internalize.kinds.chain.experiment import ChainExperiment
    from internalize.tasks.semiautomaton import Semiautomaton

LONGEST = 2_000
"""The largest horizon: a curriculum has as many stages, of as many states."""
LONGEST_MIXTURE = 1_000
"""Of a mixture, which has as many formats in every stage."""


@dataclass(frozen=True)
@typed("optimizer")
class OptimizerConfig(AdamWConfig):
    """AdamW at a constant learning rate."""

    warmup: int | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Iterations at the beginning of every stage over which the learning rate rises to its value; it is there
    at once if not given."""
    cooling: int | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Iterations of the last stage in which the learning rate falls by half, again and again; it stays if not
    given."""

    muon: bool | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Whether Muon moves the matrices of attention and MLPs, at the same learning rate; AdamW moves them, as it
    does everything else, if not given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        good = self.warmup is None or self.warmup >= 1
        require(good, "optimizer.warmup", f"must be at least 1, got {self.warmup}")
        good = self.cooling is None or self.cooling >= 1
        require(good, "optimizer.cooling", f"must be at least 1, got {self.cooling}")

    def lr_at(self, in_stage: int, falling: int) -> float:
        """The learning rate after so many iterations of a stage; falling: for how many of them it cools."""
        risen = 1.0 if self.warmup is None else min(1.0, (in_stage + 1) / self.warmup)
        cooled = 1.0 if self.cooling is None else 0.5 ** (falling / self.cooling)
        return self.lr * risen * cooled


@dataclass(frozen=True)
@typed("evaluation")
class EvaluationConfig:
    """When and on how much the model is measured."""

    every: int | None = None
    """Iterations between two measurements, besides those at stage ends; about 20 in all if not given."""
    samples: int = 1_000
    """Sequences of a measurement on the way, in distribution and out of it each."""
    final_samples: int = 10_000
    """Sequences of the last measurement, in distribution and out of it each."""

    def __post_init__(self) -> None:
        require(
            self.every is None or self.every >= 1, "evaluation.every", f"must be at least 1, got {self.every}"
        )
        require(self.samples >= 1, "evaluation.samples", f"must be at least 1, got {self.samples}")
        require(
            self.final_samples >= 1,
            "evaluation.final-samples",
            f"must be at least 1, got {self.final_samples}",
        )


@dataclass(frozen=True)
@typed()
class ChainConfig:
    """A transformer learns to run a semiautomaton, with the chain of states shown, hidden or taken away."""

    kind: ClassVar[str] = "chain"

    task: str = "C2"
    """The semiautomaton: C7, S3, A5, D4, Q8, flipflop2, a product C2xC3, regex:(0|1)*11, a .json, .yaml or
    .fsm file, module:name. `internalize tasks` lists them."""
    horizon: int = 25
    """T: how many symbols are read."""
    method: str = "left"
    """cot, e2e, left, right, inductive, even, geometric, mixture, mixture:right, filler, filler:left, or your
    own module:Class."""
    iterations: int = 50_000
    """Training steps in all (the paper: 50 thousand; S_3 200 thousand)."""
    seed: int = 0
    """Everything random in the run is a function of this number."""
    model: ModelConfig = field(default_factory=ModelConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    batch: int = 128
    """Fresh sequences in each step."""
    inputs: str = "uniform"
    """Training inputs: uniform, binomial:p, or weights:… (one number for each symbol, commas between)."""
    ood_inputs: str = "binomial:0.8"
    """Inputs out of distribution, for measuring only."""
    initial_state: int | None = None
    """q_0; the task's own if not given."""
    init_from: str | None = None
    """Start from the weights of RUN, RUN@STAGE or a Hugging Face folder instead of random ones. With held-out
    inputs the run must have held them out too."""
    log_every: int = 50
    """Iterations averaged into one row of metrics."""
    kernel: Literal["auto", "plain", "fast"] = "auto"
    """How a training step is computed; auto takes the one that measurements found faster for this shape."""
    precision: Precision = "fp32"
    """bf16: matrix products in bfloat16; weights, optimizer, layer norm and softmax stay in fp32."""
    held_out: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Share of all inputs that training never sees; accuracies are then measured on these alone, and those of
    the others stand beside them. Nothing is held out if not given."""
    scored: Literal["states"] | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """states: take the loss on the states alone; on the states and EOS if not given. Without EOS in the loss
    the model cannot end its answer, and is made to write as many states as its format shows."""
    rehearsal: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Share of steps whose whole batch shows the format of an earlier stage, so that it is not forgotten; none
    if not given."""
    rehearse: Reach | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Which earlier stages are rehearsed: the previous one (if not given), or all of them, each as often."""
    length_token: bool | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Whether the prompt ends in a token that tells the answer's length, as it does for a mixture."""
    keep_positions: bool | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Whether a state is predicted by the same learned position at all stages: when states before it are taken
    away, the rows of the position table move along. If not, all positions of the answer have to learn anew at
    every stage what their neighbours knew."""
    ease: int | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Iterations at the beginning of a stage in which the step out of a state that was just taken away (with
    `right`, the step into it) is made easy: its symbol is one that keeps the state (in C_n the symbol 0), in
    all inputs at first, then in fewer.
    Steps without such a symbol stay as they are. A controller's further attempts take twice as long, three
    times and so on; the schedule does not look at a stage before. Inputs are never made easy if not given."""
    emphasis: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """How many other positions the first state shown counts for in the loss: from the second stage on it is the
    one that is new. Rehearsal weights all alike. It counts as much as each of the others if not given."""
    operations_limit: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """End the training after so many operations of the cost model, whatever iterations are left; no limit if
    not given. For methods at equal compute."""

    answer_positions: Literal["end"] | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """end: absolute positions of q_0 and the answer count from the end of the full chain, so that the step
    to q_T keeps its position when states before it are removed; from the beginning if not given."""

    def __post_init__(self) -> None:
        require(self.horizon >= 1, "horizon", f"must be at least 1, got {self.horizon}")
        most = LONGEST_MIXTURE if self.method.startswith("mixture") else LONGEST
        require(
            self.horizon <= most,
            "horizon",
            f"must be at most {most:,} with {self.method}, got {self.horizon:,}",
        )
        require(self.iterations >= 1, "iterations", f"must be at least 1, got {self.iterations}")
        require(self.batch >= 1, "batch", f"must be at least 1, got {self.batch}")
        require(self.log_every >= 1, "log-every", f"must be at least 1, got {self.log_every}")
        shares = self.held_out is None or 0 < self.held_out < 1
        require(shares, "held-out", f"must lie between 0 and 1, got {self.held_out}")
        shares = self.rehearsal is None or 0 < self.rehearsal < 1
        require(shares, "rehearsal", f"must lie between 0 and 1, got {self.rehearsal}")
        good = self.emphasis is None or 0 < self.emphasis < math.inf
        require(good, "emphasis", f"must be more than 0 and finite, got {self.emphasis}")
        good = self.operations_limit is None or self.operations_limit > 0
        require(good, "operations-limit", f"must be more than 0, got {self.operations_limit}")
        require_seed(self.seed)

    def check(self, copies: Copies) -> list[Source]:
        """Find every name in the config; refuse what does not fit together. Returns the user's files."""
        task, task_source = find_task(self.task, "task", copies)
        curriculum, curriculum_source = self.find_curriculum(copies)
        inputs = parse_inputs(self.inputs, task.symbols, "inputs")
        ood_inputs = parse_inputs(self.ood_inputs, task.symbols, "ood-inputs")
        if self.held_out is not None:
            require_both_sides(Split(self.held_out, self.seed), self.horizon, inputs, ood_inputs)
            self._require_split_of_first_weights(copies)
        last = task.inner_states - 1
        good = self.initial_state is None or 0 <= self.initial_state <= last
        require(good, "initial-state", f"must be a state in 0…{last}, got {self.initial_state}")
        require(
            self.iterations >= curriculum.stages,
            "iterations",
            f"must be at least the {curriculum.stages} stages of {self.method}, got {self.iterations}",
        )
        if self.keep_positions:
            learned = self.model.positions == "absolute" and self.model.network is None
            pauses = curriculum.pauses
            require(not pauses, "keep-positions", "must be left out: behind pauses every state has its place")
            why = "needs the learned absolute positions of the built-in GPT-2: set it to False here"
            require(learned, "keep-positions", why)
            good = self.rehearse != "all" and _mixes_neighbours_alone(curriculum)
            require(good, "keep-positions", "keeps those of a stage and the ones beside it: mix in no others")
        if self.ease is not None:
            require(self.ease >= 1, "ease", f"must be at least 1 (leave it out for none), got {self.ease}")
            require(
                curriculum.stages > 1, "ease", f"must be left out with {self.method}, which takes nothing away"
            )
            require_time_to_learn(self.schedule, self.ease)
        if self.scored is not None:
            hinted = curriculum.tells_length
            require(
                not hinted, "scored", f"must be left out with {self.method}: its answers are told their length"
            )
        if self.answer_positions is not None:
            absolute = self.model.positions == "absolute" and self.model.network is None
            require(absolute, "answer-positions", "needs the built-in GPT-2 with model.positions absolute")
            hinted = curriculum.tells_length
            require(not hinted, "answer-positions", f"must be left out with {self.method}: not built")
        if self.emphasis is not None:
            several = curriculum.stages > 1
            require(several, "emphasis", f"must be left out with {self.method}, which has one stage alone")
        if self.model.network is not None:
            require(not self.optimizer.muon, "optimizer.muon", "needs the built-in GPT-2")
            why = "with model.network: only the built-in GPT-2 has"
            require(self.kernel != "fast", "kernel", f"cannot be fast {why} a fast path")
            require(self.precision == "fp32", "precision", f"must be fp32 {why} bfloat16 products")
        sources = (task_source, curriculum_source, *self._check_model(task, curriculum, copies))
        return [source for source in sources if source is not None]

    def _require_split_of_first_weights(self, copies: Copies) -> None:
        """Refuse to begin from a run that trained on what is held out here; a folder of weights cannot tell."""
        if self.init_from is None or self.init_from in copies or not _names_a_run(self.init_from):
            return
        parent = Run.open(split_stage(self.init_from, "init-from")[0], "init-from").identity().config
        assert self.held_out is not None
        same = parent.get("seed") == self.seed and (parent.get("held_out") or 0) >= self.held_out
        its = f"--seed {parent.get('seed')}, --held-out {parent.get('held_out') or 'not set'}"
        why = "inputs held out here may have been trained on there: use the same seed and no larger share"
        require(same, "held-out", f"{self.init_from} has {its}; {why}")

    def _check_model(
        self, task: Semiautomaton, curriculum: Curriculum, copies: Copies
    ) -> tuple[Source | None, Source | None]:
        """Refuse a network that cannot be made, and weights that do not fit it. Returns the user's files."""
        weights = None if self.init_from is None else find_weights(self.init_from, copies)
        import torch

        from internalize.models.huggingface import starting_weights
        from internalize.models.own_network import OwnNetwork, find_network
        from internalize.sequences import language_of

        language = language_of(task, curriculum, 0)
        make_model, network_source = find_network(self.model, copies)
        with torch.device("meta"):  # of GPT-2 only the shapes are needed
            model = make_model(language.vocabulary.size, language.context)
        if weights is not None:
            starting_weights(model, weights.path, "init-from")
        if isinstance(model, OwnNetwork):
            model.check()
        return network_source, weights

    def find_curriculum(self, copies: Copies) -> tuple[Curriculum, Source | None]:
        """The method's curriculum with the rehearsal asked for, and the user's file behind it."""
        curriculum, source = find_curriculum(self.method, self.horizon, copies)
        told = add_rehearsal(curriculum, self.rehearsal, self.rehearse, self.length_token)
        if self.schedule.smoothing:
            good = isinstance(told, Rehearsed) and told.length_hint
            require(good, "schedule.smoothing", "needs --length-token, which tells formats apart")
            lengths = [len(told.shown(stage)) for stage in range(1, told.stages + 1)]
            good = all(before != after for before, after in pairwise(lengths))
            require(
                good, "schedule.smoothing", "needs stages whose answers differ in length from the next one's"
            )
        return told, source

    @property
    def samples_per_step(self) -> int:
        return self.batch

    @property
    def evaluation_interval(self) -> int:
        """Iterations between two measurements."""
        return self.evaluation.every or max(100, self.iterations // 20)

    def label(self) -> str:
        """The readable part of the run's folder name."""
        task, method = (
            Path(name).stem if "/" in name or "." in name else name for name in (self.task, self.method)
        )
        return f"{task}-T{self.horizon}-{method}-s{self.seed}"

    def build(self, device: torch.device, copies: Copies) -> ChainExperiment:
        from internalize.kinds.chain.experiment import ChainExperiment

        return ChainExperiment(self, device, copies)


def find_weights(text: str, copies: Copies, field: str = "init-from") -> Source:
    """The file of weights that `RUN`, `RUN@STAGE` or a Hugging Face folder names."""
    if text in copies:
        return Source(text, copies[text])
    if not _names_a_run(text):
        path = Path(text) / "model.safetensors"
        require(path.is_file(), field, f"{text} is neither a run nor a folder with a model.safetensors")
        return Source(text, path)
    folder, stage = split_stage(text, field)
    try:
        return Source(text, Run.open(folder, field).weights_path(stage))
    except BadInput as error:
        raise BadInput(field, error.message) from None


def _names_a_run(text: str) -> bool:
    """Else it is a folder of Hugging Face's."""
    return not Path(text).is_dir() or (Path(text) / "status.json").exists()


def _mixes_neighbours_alone(curriculum: Curriculum) -> bool:
    """Whether every format that a stage draws is its own or that of the stage before or after it."""
    own = [curriculum.shown(stage) for stage in range(1, curriculum.stages + 1)]
    return all(
        set(curriculum.formats(stage)) <= set(own[max(0, stage - 2) : stage + 1])
        for stage in range(1, curriculum.stages + 1)
    )
