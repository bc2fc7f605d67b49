"""What a config names, found, read and checked: rows as token ids, tokenizer, curriculum, model."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.configs.named import Copies, Source
from internalize.errors import BadInput, RunWarning, require
from internalize.kinds.text.config import HELD_OUT, TRAIN, TextConfig
from internalize.kinds.text.places import as_written, located
from internalize.kinds.text.rendering import CutRow, TextCurriculum, TextRenderer
from internalize.kinds.text.rows import ContentSource, TextRow, files_of, read_rows
from internalize.kinds.text.tokenization import (
    MADE,
    TextTokenizer,
    make_tokenizer,
    read_tokenizer,
    refuse_markers,
    texts_of,
)

if TYPE_CHECKING:
    from internalize.kinds.text.network import ModelSource


@dataclass(frozen=True, eq=False)
class Material:
    """All that a text experiment is made of, but the weights."""

    train: tuple[CutRow, ...]
    evals: Mapping[str, tuple[CutRow, ...]]
    """Name → rows; `id` first."""
    texts: Mapping[str, tuple[TextRow, ...]]
    """The same rows as they were written; `train` among them."""
    tokenizer: TextTokenizer
    curriculum: TextCurriculum
    renderer: TextRenderer
    model: ModelSource
    sources: tuple[Source, ...]

    @property
    def limit(self) -> int:
        """Tokens after which an answer without an end counts as wrong: the longest right one and one more."""
        return self.renderer.slots + 1

    @property
    def context(self) -> int:
        """Positions the model needs: all it reads while it writes `limit` tokens."""
        return _context(self.renderer, _longest_question(self), bool(self.curriculum.budgets))


def _longest_question(material: Material) -> int:
    return max(len(row.question) for rows in (material.train, *material.evals.values()) for row in rows)


def _context(renderer: TextRenderer, question: int, hinted: bool) -> int:
    paused = renderer.longest_chain if renderer.pauses else 0
    return question + 1 + hinted + paused + renderer.slots


def find_material(config: TextConfig, copies: Copies) -> Material:
    """Refuses what does not fit together, before anything is trained or written.

    Configs that differ in nothing but how they are trained share the rows that were read first.
    """
    config.require_files()
    config = located(config, copies)
    _require_fields(config)
    plain = replace(config, **{name: getattr(DEFAULTS, name) for name in ONLY_TRAINING})
    named = [config.data, config.model, config.tokenizer, config.method, *config.eval_files().values()]
    material = _find_once(plain, tuple(_stamp(name) for name in named if name), tuple(sorted(copies.items())))
    _require_iterations(config, material.curriculum)
    from internalize.kinds.text.trial import require_adapters, require_model

    require_model(material, config.removal, config.checkpointing)
    if config.lora.rank is not None:
        require_adapters(material, config.lora)
    return replace(material, sources=as_written(material.sources, copies))


DEFAULTS = TextConfig()
ONLY_TRAINING = ("seed", "iterations", "optimizer", "schedule", "evaluation", "lora", "batch", "accumulate",
                 "checkpointing", "precision", "kernel", "log_every")  # fmt: skip
"""Fields that change nothing about the material."""


def _require_fields(config: TextConfig) -> None:
    scratch = config.lora.rank is not None and not Path(config.model).is_dir()
    require(not scratch, "lora.rank", "needs a model folder: weights from scratch would stay as they are")


def _stamp(name: str) -> tuple[str, int, int]:
    """Changes when the file does, or the newest in a folder."""
    path = Path(name.partition(":")[0] if not Path(name).exists() else name)
    files = [path] if path.is_file() else [*files_of(path)] if path.is_dir() else []
    states = [file.stat() for file in files]
    return str(path.resolve()), sum(s.st_size for s in states), max((s.st_mtime_ns for s in states), default=0)


@lru_cache(maxsize=4)
def _find_once(
    config: TextConfig, stamps: tuple[tuple[str, int, int], ...], copied: tuple[tuple[str, Path], ...]
) -> Material:
    from internalize.kinds.text.network import find_model, settle_sizes

    copies = dict(copied)
    texts, sources = _read_all(config, copies)
    for name, rows in texts.items():  # before a tokenizer is made of their words
        refuse_markers(rows, config.rows.joiner, _where(config, name))
    model = find_model(config.model, config.dropout, config.init_std)
    sources.append(ContentSource(config.model, model.path))
    # the curriculum needs the longest chain, and a mixture's markers are part of the tokenizer
    tokenizer = _tokenizer(config, model, texts, 0)
    cut = _cut_all(config, tokenizer, texts)
    curriculum = _curriculum(config, cut, copies)
    if curriculum.source is not None:
        sources.append(curriculum.source)
    if curriculum.budgets:
        tokenizer = _tokenizer(config, model, texts, len(curriculum.budgets))
        cut = _cut_all(config, tokenizer, texts)
    if config.tokenizer is not None and config.tokenizer not in MADE:
        sources.append(ContentSource(config.tokenizer, Path(config.tokenizer)))
    renderer = _renderer(config, curriculum, tokenizer, [row for rows in cut.values() for row in rows])
    material = Material(
        tuple(cut.pop(TRAIN)),
        {name: tuple(rows) for name, rows in cut.items()},
        {name: tuple(rows) for name, rows in texts.items()},
        tokenizer, curriculum, renderer, model, tuple({source.name: source for source in sources}.values()),
    )  # fmt: skip
    added = tokenizer.size - _own_size(tokenizer)
    settle_sizes(model, tokenizer.size, material.context, added)
    return material


def _of_data(config: TextConfig) -> tuple[str, ...]:
    """The names of the rows that come from --data: those to train on, and those held out of it."""
    return (TRAIN,) if HELD_OUT in config.eval_files() else (TRAIN, HELD_OUT)


def _cut_all(
    config: TextConfig, tokenizer: TextTokenizer, texts: Mapping[str, Sequence[TextRow]]
) -> dict[str, list[CutRow]]:
    joiner, by_token = config.rows.joiner, config.unit == "token"
    return {name: tokenizer.cut(rows, joiner, by_token, _where(config, name)) for name, rows in texts.items()}


def _curriculum(config: TextConfig, cut: Mapping[str, Sequence[CutRow]], copies: Copies) -> TextCurriculum:
    """Its stages are those of the training data alone: another file to measure on changes no training."""
    longest = max(len(row.units) for name in _of_data(config) for row in cut[name])
    return TextCurriculum(config.method, config.unit, config.removal, longest, copies)


def _own_size(tokenizer: TextTokenizer) -> int:
    """Tokens of a folder's tokenizer without the markers."""
    markers = tokenizer.markers
    ids = {markers.chain, markers.answer, markers.end, markers.pause, markers.pad, *markers.budgets}
    return tokenizer.size - len(ids)


def _read_all(config: TextConfig, copies: Copies) -> tuple[dict[str, list[TextRow]], list[Source]]:
    """Training rows and those to measure on, `id` first among the latter."""
    rows, source = read_rows(config.data, config.rows, "data", copies)
    sources, files = [source], config.eval_files()
    evals: dict[str, list[TextRow]] = {}
    if HELD_OUT not in files:
        evals[HELD_OUT], rows = _hold_out(rows, config.held_out)
    for name, file in files.items():
        evals[name], source = read_rows(file, config.rows, f"eval {name}", copies)
        sources.append(source)
    first = {HELD_OUT: evals.pop(HELD_OUT)}
    return {TRAIN: rows, **first, **evals}, sources


def _hold_out(rows: Sequence[TextRow], share: float) -> tuple[list[TextRow], list[TextRow]]:
    """By the question alone: the same for every seed, and two rows with one question stay together."""
    held = [row for row in rows if _fraction(row.question) < share]
    rest = [row for row in rows if _fraction(row.question) >= share]
    few = f"of {len(rows)} rows a share of {share} leaves {len(rest)} to train on and {len(held)} to measure on"
    require(bool(held and rest), "held-out", f"{few}; name a file by --eval id=FILE")
    return held, rest


def _fraction(text: str) -> float:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def _where(config: TextConfig, name: str) -> str:
    """How a user knows the rows of that name."""
    file = config.eval_files().get(name, config.data)
    return f"{'data' if name in _of_data(config) else f'eval {name}'} ({Path(file).name})"


def _tokenizer(
    config: TextConfig, model: ModelSource, texts: Mapping[str, Sequence[TextRow]], budgets: int
) -> TextTokenizer:
    """One that is made knows all pieces of --data: also those of rows that were held out by chance."""
    kind = config.tokenizer
    if kind in MADE:
        assert kind is not None
        rows = [row for name in _of_data(config) for row in texts[name]]
        library = make_tokenizer(kind, rows, config.rows.joiner, budgets)
        if model.has_weights:
            _tell_other_words(model, library, budgets)
        return TextTokenizer.of(kind, library, budgets)
    if kind is None:
        beside = model.path if model.has_weights else None
        asked = "a config.json has none: name one by --tokenizer DIR, characters or words"
        require(beside is not None, "tokenizer", asked)
        kind = str(beside)
    field = "tokenizer" if config.tokenizer is not None else "model"
    return TextTokenizer.of(kind, read_tokenizer(Path(kind), field, budgets), budgets)


def _tell_other_words(model: ModelSource, made: Any, budgets: int) -> None:
    """A made tokenizer numbers its words anew: the folder's model learned other words under these numbers."""
    with suppress(BadInput):  # without a tokenizer of its own nobody can tell
        own = read_tokenizer(model.path, "model", budgets)
        if own.get_vocab() != made.get_vocab():
            said = f"{model.name} was trained with another tokenizer: its tokens get other meanings"
            warnings.warn(f"{said}, unless --tokenizer is left out", RunWarning, stacklevel=2)


def _renderer(
    config: TextConfig, curriculum: TextCurriculum, tokenizer: TextTokenizer, rows: Sequence[CutRow]
) -> TextRenderer:
    kept = config.removal.positions == "kept"
    marked = not kept or config.boundary == "marker"
    require(
        marked, "removal.positions", "cannot be kept without a marker: nothing says where the answer begins"
    )
    answers = sorted({len(row.answer) for row in rows})
    told = config.boundary == "marker" or len(answers) == 1
    have = f"answers have from {answers[0]} to {answers[-1]} tokens, and nothing says where they begin"
    require(told, "boundary", f"must be marker here: {have}")
    return TextRenderer(
        markers=tokenizer.markers,
        longest_chain=max(row.chain for row in rows),
        longest_answer=max(len(row.answer) for row in rows),
        pauses=curriculum.pauses,
        positions=config.removal.positions,
        boundary=config.boundary,
    )


def _require_iterations(config: TextConfig, curriculum: TextCurriculum) -> None:
    stages = curriculum.stages
    enough = config.iterations >= stages
    have = f"must be at least the {stages} stages of {config.method}, got {config.iterations}"
    require(enough, "iterations", have)


def overlap(train: Sequence[TextRow], test: Sequence[TextRow]) -> int:
    """Test rows whose question occurs in training."""
    seen = {row.question for row in train}
    return sum(row.question in seen for row in test)


def joined(row: TextRow, joiner: str) -> str:
    """A row as one text, for whoever wants to see what tokenizing it whole would give."""
    return "".join(texts_of(row, joiner))
