"""Tokenizers: a folder's own, or `characters` and `words` made from the training rows; and the markers.

`characters` and `words` are plain tokenizer.json files of the library tokenizers, so that whoever gets the
model reads them without this package.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from internalize.errors import BadInput, require
from internalize.kinds.text.rendering import CutRow, Markers
from internalize.kinds.text.rows import TextRow

MADE = ("characters", "words")
PAD, CHAIN, ANSWER, END, PAUSE = "<|pad|>", "<|chain|>", "<|answer|>", "<|end|>", "<|pause|>"
MARKERS = (PAD, CHAIN, ANSWER, END, PAUSE)
MARKER = re.compile("|".join([*map(re.escape, MARKERS), r"<\|budget:\d+\|>"]))
"""Any marker inside a text."""
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer.model", "vocab.txt")


def budget_name(budget: int) -> str:
    return f"<|budget:{budget}|>"


def pieces(kind: str, text: str) -> list[str]:
    """How `characters` and `words` cut a text."""
    return list(text) if kind == "characters" else text.split()


def make_tokenizer(kind: str, rows: Sequence[TextRow], joiner: str, budgets: int) -> Any:
    """The tokenizer of all pieces that the training rows have."""
    from transformers import PreTrainedTokenizerFast

    known = {piece for row in rows for text in texts_of(row, joiner) for piece in pieces(kind, text)}
    special = [*MARKERS, *(budget_name(i) for i in range(budgets))]
    content = _tokenizer_json(kind, [*special, *sorted(known)], special)
    from tokenizers import Tokenizer

    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(content)),
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[name for name in special if name not in (PAD, END)],
        clean_up_tokenization_spaces=False,
    )


def _tokenizer_json(kind: str, tokens: Sequence[str], special: Sequence[str]) -> dict[str, Any]:
    """UNK is none of the tokens, so that an unknown piece is an error."""
    as_added = [
        {"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, name in enumerate(special)
    ]  # fmt: skip
    each = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": as_added,
        "normalizer": None,
        "pre_tokenizer": each if kind == "characters" else {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": {"type": "Fuse"} if kind == "characters" else None,
        "model": {
            "type": "WordLevel",
            "vocab": {token: i for i, token in enumerate(tokens)},
            "unk_token": "UNK",
        },
    }


def texts_of(row: TextRow, joiner: str) -> list[str]:
    """Question, steps (each but the last with the joiner after it) and answer."""
    inner = [f"{step}{joiner}" for step in row.steps[:-1]]
    return [row.question, *inner, *row.steps[-1:], row.answer]


def refuse_markers(rows: Sequence[TextRow], joiner: str, where: str) -> None:
    """A marker inside a text would end an answer, or begin one, in the middle of it."""
    for row in rows:
        for text in texts_of(row, joiner):
            found = MARKER.search(text)
            if found is not None:
                raise BadInput(_place(where, row), f"has {found.group()!r}, which is a marker here")


def _place(where: str, row: TextRow) -> str:
    """Rows of a file have a line, a question from somebody who asks has none."""
    return f"{where}, line {row.line}" if row.line else where


def read_tokenizer(folder: Path, field: str, budgets: int) -> Any:
    """The tokenizer in a folder, with the markers that it lacks added."""
    inside = f"{folder} is a file: name the folder that it is in, {folder.parent}"
    require(not folder.is_file(), field, inside)
    there = folder.is_dir() and any((folder / name).is_file() for name in TOKENIZER_FILES)
    lacks = f"{folder} has no tokenizer (none of {', '.join(TOKENIZER_FILES[:3])})"
    require(there, field, f"{lacks}; name one by --tokenizer DIR, characters or words")
    require_plain_files(folder, field)
    from transformers import AutoTokenizer

    from internalize.kinds.text.network import quietly

    with _naming_the_tokenizer(str(folder), field), quietly():
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        vocabulary = tokenizer.get_vocab()
        _refuse_others_markers(vocabulary, folder, field)
        wanted = [*MARKERS, *(budget_name(i) for i in range(budgets))]
        missing = [name for name in wanted if name not in vocabulary]
        if missing:
            tokenizer.add_tokens(missing, special_tokens=True)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:  # a folder may carry somebody's settings of padding and truncation
        backend.no_truncation()
        backend.no_padding()
    return tokenizer


def _refuse_others_markers(vocabulary: Mapping[str, int], folder: Path, field: str) -> None:
    """All of them: a folder that this package wrote. Some of them: they mean something else there."""
    owned = [name for name in MARKERS if name in vocabulary]
    free = len(owned) in (0, len(MARKERS))
    taken = f"the tokenizer in {folder} has a token {', '.join(owned)} of its own, which is a marker here"
    require(free, field, taken)


@contextmanager
def _naming_the_tokenizer(folder: str, field: str) -> Iterator[None]:
    """The library says in many ways that it cannot read a folder, or does not know a word of a text."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise BadInput(field, f"the tokenizer in {folder} cannot be used: {said}") from None


def require_plain_files(folder: Path, field: str) -> None:
    """Whatever is in a folder, the library may open it: a FIFO would be waited for, a device read forever."""
    for path in folder.iterdir():
        plain = path.is_file() or path.is_dir() or not path.exists()
        require(plain, field, f"{path} must be a plain file")


@dataclass(frozen=True, eq=False)
class TextTokenizer:
    """Texts to ids and back, and the ids of the markers."""

    kind: str
    """characters, words, or where it was read from."""
    library: Any
    """The tokenizer of transformers."""
    markers: Markers
    prefix: tuple[int, ...]
    """What the tokenizer puts before every text by itself: a BOS, mostly nothing."""

    @classmethod
    def of(cls, kind: str, library: Any, budgets: int) -> TextTokenizer:
        def find(name: str) -> int:
            return int(library.convert_tokens_to_ids(name))

        asked = tuple(find(budget_name(i)) for i in range(budgets))
        markers = Markers(find(CHAIN), find(ANSWER), find(END), find(PAUSE), find(PAD), asked)
        prefix: tuple[int, ...] = ()
        if kind not in MADE and library.bos_token_id is not None:
            with _naming_the_tokenizer(kind, "tokenizer"):
                begun = library("1")["input_ids"]
            prefix = (library.bos_token_id,) if begun[:1] == [library.bos_token_id] else ()
        return cls(kind, library, markers, prefix)

    @property
    def size(self) -> int:
        """Ids that the model must know."""
        return len(self.library)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        with _naming_the_tokenizer(self.kind, "tokenizer"):
            found = self.library(list(texts), add_special_tokens=False, return_attention_mask=False)
        ids: list[list[int]] = found["input_ids"]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """As text, with the markers among them: who writes one where none belongs has written something."""
        text: str = self.library.decode(list(ids))
        return text.strip()

    def show(self, ids: Iterable[int]) -> str:
        """All tokens with the markers, a dot between neighbours and ⏎ for a new line: how a text was cut."""
        return "·".join(self.library.decode([i]).replace("\n", "⏎") for i in ids)

    def cut(self, rows: Sequence[TextRow], joiner: str, by_token: bool, where: str) -> list[CutRow]:
        """Question, steps and answer of every row, tokenized apart."""
        refuse_markers(rows, joiner, where)
        self._refuse_unknown(rows, joiner, where)
        texts = [texts_of(row, joiner) for row in rows]
        ids = iter(self.encode([text for parts in texts for text in parts]))
        found = []
        for row, parts in zip(rows, texts, strict=True):
            question, *steps, answer = (tuple(next(ids)) for _ in parts)
            require(bool(question and answer), f"{where}, line {row.line}", "has a part without any token")
            units = tuple((token,) for step in steps for token in step) if by_token else tuple(steps)
            found.append(CutRow((*self.prefix, *question), units, answer))
        return found

    def question(self, text: str, field: str = "question") -> CutRow:
        """A question alone, from somebody who asks."""
        asked = [TextRow(text, (), "", 0)]
        refuse_markers(asked, "", field)
        self._refuse_unknown(asked, "", field)
        return CutRow((*self.prefix, *self.encode([text])[0]), (), ())

    def _refuse_unknown(self, rows: Sequence[TextRow], joiner: str, where: str) -> None:
        """Only the made ones can lack a piece; others have bytes or UNK for everything."""
        if self.kind not in MADE:
            return
        known = self.library.get_vocab()
        for row in rows:
            for text in texts_of(row, joiner):
                for piece in pieces(self.kind, text):
                    if piece not in known:
                        raise BadInput(_place(where, row), f"has {piece!r}, which no training row has")

    def files(self) -> dict[str, str]:
        """Its files in Hugging Face's layout, name → content."""
        if self.kind in MADE:
            return self._made_files()
        with tempfile.TemporaryDirectory() as folder:
            self.library.save_pretrained(folder)
            found = {}
            for path in sorted(Path(folder).iterdir()):
                try:
                    found[path.name] = path.read_text(encoding="utf-8")
                except UnicodeDecodeError:  # sentencepiece's own file, beside tokenizer.json
                    continue
            return found

    def _made_files(self) -> dict[str, str]:
        """Written here: older versions of transformers do not know the class that newer ones would name."""
        others = [name for name in self.library.all_special_tokens if name not in (PAD, END)]
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": PAD,
            "additional_special_tokens": others,
            "clean_up_tokenization_spaces": False,
        }
        plain = json.loads(self.library.backend_tokenizer.to_str())
        content = {"tokenizer.json": plain, "tokenizer_config.json": settings}
        return {name: json.dumps(value, indent=2, ensure_ascii=False) + "\n" for name, value in content.items()}
