"""What a text experiment computes: the identity of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from internalize.configs.codec import LEFT_OUT_UNLESS_SET, OBJECTS, typed
from internalize.curricula import ScheduleConfig
from internalize.errors import BadInput, require, require_seed
from internalize.kinds.text.rendering import Boundary, RemovalConfig, Unit
from internalize.kinds.text.rows import RowsConfig
from internalize.models.config import AdamWConfig, Precision

MOST = 1_000_000_000
"""Rows of a step or a measurement, or steps between two measurements: no file has more, no run is longer."""
ROWS_IN_PYTHON = "name a file of rows; data=internalize.write_rows(rows, 'data/') writes one of a list"
"""A run that holds only what is in memory could not go on from the command line."""
HELD_OUT = "id"
"""The name of rows that are drawn as those of the training are."""
TRAIN = "train"
"""The name of the training rows themselves."""
MODES = ("", "chain_")
"""What stands before the columns of a file: nothing, or where a mixture was asked for its whole chain this."""
FILE_COLUMNS = ("accuracy", "interval", "target_accuracy", "exact_chain", "chain_accuracy", "response_length")
"""What is measured on every file, on the way or at the end: `id_accuracy` and so on."""
OWN_COLUMNS = frozenset(
    {"token_accuracy", *(f"{mode}{name}" for mode in MODES for name in ("chain_accuracy", "response_length"))}
)
"""Columns of a run that belong to no single file, but have such a form."""


def columns_of(name: str) -> set[str]:
    """The columns that a file of this name can have."""
    return {f"{mode}{name}_{column}" for mode in MODES for column in FILE_COLUMNS}


@dataclass(frozen=True)
@typed("optimizer")
class TextOptimizerConfig(AdamWConfig):
    """AdamW, with a warm-up, a cool-down and a bound on the gradient."""

    warmup: int = 0
    """Iterations over which the learning rate rises, at the beginning and after every reset."""
    clip: float | None = None
    """Shorten the gradient to at most this norm; as it is if not given."""
    cooldown: int | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Iterations at the end of the training over which the learning rate falls to 0; it stays if not given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.warmup >= 0, "optimizer.warmup", f"must be 0 or more, got {self.warmup}")
        good = self.cooldown is None or self.cooldown >= 1
        require(good, "optimizer.cooldown", f"must be at least 1, got {self.cooldown}")
        good = self.clip is None or 0 < self.clip < math.inf
        require(good, "optimizer.clip", f"must be more than 0 and finite, got {self.clip}")


@dataclass(frozen=True)
@typed("evaluation")
class TextEvaluationConfig:
    """When and on how many rows the model is measured."""

    every: int | None = None
    """Iterations between two measurements, besides those at stage ends; only at stage ends if not given."""
    rows: int = 500
    """Rows of each file for a measurement on the way: always the same ones."""
    final_rows: int | None = None
    """Rows of each file for the last measurement; all if not given."""
    batch: int = 256
    """Rows that are answered at once."""

    def __post_init__(self) -> None:
        for name in ("every", "rows", "final_rows", "batch"):
            value = getattr(self, name)
            shown = f"evaluation.{name.replace('_', '-')}"
            require(value is None or value >= 1, shown, f"must be at least 1, got {value}")
            require(value is None or value <= MOST, shown, f"must be at most {MOST:,}, got {value}")


@dataclass(frozen=True)
@typed("lora")
class LoraFields:
    """Train small matrices beside a folder's frozen weights (needs the library peft)."""

    rank: int | None = None
    """Rank of the matrices; all weights are trained if not given."""
    alpha: float | None = None
    """Their scale is alpha divided by rank; twice the rank if not given."""
    targets: tuple[str, ...] = ()
    """Names of the modules beside which they stand; all linear ones if not given."""

    def __post_init__(self) -> None:
        require(self.rank is None or self.rank >= 1, "lora.rank", f"must be at least 1, got {self.rank}")
        good = self.alpha is None or 0 < self.alpha < math.inf
        require(good, "lora.alpha", f"must be more than 0 and finite, got {self.alpha}")
        idle = self.rank is None and (self.alpha is not None or self.targets != ())
        require(not idle, "lora.rank", "must be given with lora.alpha or lora.targets")


@dataclass(frozen=True)
@typed()
class TextConfig:
    """A language model learns to answer questions with a chain of words, which are then taken away."""

    kind: ClassVar[str] = "text"

    data: str = field(default="", metadata={OBJECTS: ROWS_IN_PYTHON})
    """Training rows: a .jsonl, .json or .txt file, a folder of datasets.save_to_disk, or file.py:ROWS."""
    eval: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=FILE")] = ()
    """NAME=FILE, once for each file to measure on: id=test.jsonl for rows as in training, others freely."""
    model: str = ""
    """A Hugging Face folder (safetensors), or a config.json of any causal language model, from scratch."""
    tokenizer: str | None = None
    """A folder with a tokenizer, characters or words; the model folder's own if not given."""
    method: str = "left"
    """cot, e2e, left, right, inductive, even, geometric, mixture, mixture:right, filler, filler:left,
    filler:geometric, or file.py:Class."""
    unit: Unit = "token"
    """What is taken away at a time: single tokens of the chain, or whole steps."""
    iterations: int = 10_000
    """Training steps in all."""
    seed: int = 0
    """Everything random in the run is a function of this number."""
    rows: RowsConfig = field(default_factory=RowsConfig)
    removal: RemovalConfig = field(default_factory=RemovalConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    optimizer: TextOptimizerConfig = field(default_factory=TextOptimizerConfig)
    evaluation: TextEvaluationConfig = field(default_factory=TextEvaluationConfig)
    lora: LoraFields = field(default_factory=LoraFields)
    batch: int = 32
    """Rows of a step."""
    accumulate: int = 1
    """Parts that the rows of a step are computed in, one after the other, to save memory."""
    checkpointing: bool = False
    """Compute inner layers again in the backward pass instead of keeping them, to save memory."""
    precision: Precision = "fp32"
    """bf16: matrix products in bfloat16; weights and optimizer stay in fp32."""
    kernel: Literal["auto", "plain"] = "auto"
    """How a training step is computed: auto takes this package's fast path for GPT-2 on a processor, in steps
    whose rows all have one length; plain always takes the library's."""
    dropout: float = 0.0
    """Every rate of dropout in the model, whatever its config.json says (GPT-2's own default is 0.1)."""
    init_std: float | None = None
    """Spread of the first weights of a config.json; its own if not given."""
    boundary: Boundary = "marker"
    """marker: a token <|answer|> stands between chain and answer. none: nothing does, and the last tokens
    before the end are the answer, as in the chains of states of `internalize train`; then all answers must
    have the same number of tokens."""
    held_out: float = 0.1
    """Share of the training rows that are kept for measuring where no --eval id=FILE is given."""
    log_every: int = 50
    """Iterations averaged into one row of metrics."""

    def __post_init__(self) -> None:
        for name in ("iterations", "batch", "accumulate", "log_every"):
            value = getattr(self, name)
            require(value >= 1, name.replace("_", "-"), f"must be at least 1, got {value}")
        require_seed(self.seed)
        require(self.batch <= MOST, "batch", f"must be at most {MOST:,}, got {self.batch}")
        require(self.accumulate <= self.batch, "accumulate", f"must be at most the batch of {self.batch} rows")
        require(0 <= self.dropout < 1, "dropout", f"must lie in [0, 1), got {self.dropout}")
        require(0 < self.held_out < 1, "held-out", f"must lie between 0 and 1, got {self.held_out}")
        good = self.init_std is None or 0 < self.init_std < math.inf
        require(good, "init-std", f"must be more than 0 and finite, got {self.init_std}")
        plain = self.schedule.kind != "controller"
        require(plain, "schedule.kind", "must be fixed or adaptive: for text there is no controller")
        cooldown = self.optimizer.cooldown or 0
        fits = cooldown <= self.iterations
        require(
            fits, "optimizer.cooldown", f"must be at most all {self.iterations:,} iterations, got {cooldown:,}"
        )
        self.eval_files()

    def eval_files(self) -> dict[str, str]:
        """Name → file."""
        found: dict[str, str] = {}
        for text in self.eval:
            name, equals, file = text.partition("=")
            require(bool(equals and file), "eval", f"must have the form NAME=FILE, got {text!r}")
            require(name.isidentifier(), "eval", f"a name is a word of letters and digits, got {name!r}")
            require(name not in found, "eval", f"the name {name!r} is there twice")
            require(name != TRAIN, "eval", f"{TRAIN!r} is the name of the training rows: choose another one")
            found[name] = file
        _refuse_shared_columns(list(found))
        return found

    def require_files(self) -> None:
        """What has no default, and must be asked for."""
        small = '{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4}'
        model = f"a Hugging Face folder, or a JSON file such as {small} for a new model, with --tokenizer words"
        for name, what in (("data", "a file of training rows"), ("model", model)):
            if not getattr(self, name):
                raise BadInput(name, f"is missing: name {what}")

    def label(self) -> str:
        """The readable part of the run's folder name."""
        named = (Path(name.partition(":")[0]).stem for name in (self.data, self.model))
        method = Path(self.method).stem if "/" in self.method or ".py" in self.method else self.method
        return f"{'-'.join(named)}-{method.replace(':', '-')}-s{self.seed}"


def _refuse_shared_columns(names: list[str]) -> None:
    """Two results of one name: the later would replace the earlier. Rows called `id` are always there."""
    owners = dict.fromkeys(OWN_COLUMNS, "the run itself")
    for name in [HELD_OUT, *(name for name in names if name != HELD_OUT)]:
        shared = sorted(columns_of(name) & owners.keys(), key=lambda column: (len(column), column))
        also = f"its result {shared[0]!r} would also be one of {owners[shared[0]]}" if shared else ""
        require(not shared, "eval", f"the name {name!r} cannot be used, {also}: choose another one")
        owners |= dict.fromkeys(columns_of(name), repr(name))
