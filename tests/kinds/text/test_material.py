"""What is read before a training: names of files, stages from the training rows, vocabulary, markers."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from internalize import BadInput, Execution, train
from internalize.errors import RunWarning
from internalize.kinds.text.config import (
    FILE_COLUMNS,
    OWN_COLUMNS,
    LoraFields,
    TextConfig,
    TextOptimizerConfig,
    columns_of,
)
from internalize.kinds.text.evaluation import WrittenAnswer, read_written
from internalize.kinds.text.material import find_material
from internalize.kinds.text.rendering import RemovalConfig
from internalize.kinds.text.rows import write_rows
from tests.kinds.text.toys import parity_rows, shape_file


def config_of(folder: Path, **fields: Any) -> TextConfig:
    rows = parity_rows(folder)
    base = TextConfig(
        data=rows, eval=(f"id={rows}",), model=shape_file(folder, "gpt2"), tokenizer="words", iterations=9
    )
    return replace(base, **fields)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["train"], "'train' is the name of the training rows"),
        (["chain"], "'chain' cannot be used, its result 'chain_accuracy' would also be one of the run itself"),
        (["token"], "'token_accuracy' would also be one of the run itself"),
        (["id_target"], "'id_target_accuracy' would also be one of 'id'"),
        (["chain_id"], "'chain_id_accuracy' would also be one of 'id'"),
        (["far_chain", "far"], "the name 'far' cannot be used, .* one of 'far_chain'"),
    ],
)
def test_names_of_files_whose_results_would_clash(names: list[str], said: str) -> None:
    with pytest.raises(BadInput, match=f"eval: .*{said}"):
        TextConfig(eval=tuple(f"{name}=a.jsonl" for name in names))


def test_another_tokenizer_than_the_folders_own(tmp_path: Path) -> None:
    roomy = shape_file(tmp_path, "gpt2", "roomy", n_positions=64, vocab_size=64)
    made = train(config_of(tmp_path, model=roomy), Execution(out=tmp_path / "out", quiet=True)).path / "model"
    with pytest.warns(RunWarning, match="was trained with another tokenizer: its tokens get other meanings"):
        find_material(config_of(tmp_path, model=str(made), tokenizer="characters"), {})
    for same in ("words", None):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RunWarning)
            find_material(config_of(tmp_path, model=str(made), tokenizer=same), {})


def test_all_columns_that_could_clash_are_known(tmp_path: Path) -> None:
    """A mixture has all columns that there are: each is a file's, or one that no file can be named for."""
    config = config_of(
        tmp_path, method="mixture", eval=(*config_of(tmp_path).eval, "ood=" + parity_rows(tmp_path))
    )
    run = train(config, Execution(out=tmp_path / "out"))
    found = {*run.summary(), *(name for row in run.metrics().rows for name in row)}
    of_files = columns_of("id") | columns_of("ood")
    shaped = {name for name in found if name.endswith(tuple(f"_{column}" for column in FILE_COLUMNS))}
    assert shaped - of_files <= OWN_COLUMNS | {"response_length"}
    assert {"chain_id_accuracy", "id_target_accuracy", "chain_chain_accuracy", "token_accuracy"} <= shaped


@pytest.mark.parametrize("alpha", [-3.0, 0.0, float("inf"), float("nan")])
def test_a_scale_of_adapters_is_more_than_nothing(alpha: float) -> None:
    with pytest.raises(BadInput, match=r"lora.alpha: must be more than 0 and finite"):
        LoraFields(rank=2, alpha=alpha)


# Stages ----------------------------------------------------------------------------------------------------


def chains(folder: Path, name: str, *lengths: int) -> str:
    """Two rows for each length of the chain."""
    rows = [
        {"question": f"x{i}", "steps": ["q0"] * length, "answer": "q1"}
        for length in lengths
        for i in range(2)
    ]  # fmt: skip
    return write_rows(rows, folder / f"{name}.jsonl")


def test_a_file_to_measure_on_changes_no_training(tmp_path: Path) -> None:
    """Stages, budgets and all that is trained are the same with it; only places for its rows are added."""
    short, long = chains(tmp_path, "short", 2, 3), chains(tmp_path, "long", 7)
    pace = RemovalConfig(per_stage=1)
    for method, stages, budgets in (("left", 4, ()), ("geometric", 3, ()), ("mixture", 1, (0, 1, 2, 3))):
        plain = config_of(tmp_path, data=short, eval=(f"id={short}",), method=method)
        plain = plain if method == "geometric" else replace(plain, removal=pace)
        alone, beside = (
            find_material(plain, {}),
            find_material(replace(plain, eval=(*plain.eval, f"ood={long}")), {}),
        )
        for material in (alone, beside):
            assert (material.curriculum.stages, material.curriculum.budgets) == (stages, budgets)
        assert (alone.renderer.longest_chain, beside.renderer.longest_chain) == (3, 7)
        assert (alone.limit, beside.limit) == (7, 11)
        last = beside.evals["ood"][0]
        if method == "left":  # what a stage takes away is taken away, and nothing is left at the last one
            kept = [beside.curriculum.kept(len(last.units), stage) for stage in range(1, stages + 1)]
            assert kept == [tuple(range(7)), tuple(range(1, 7)), tuple(range(2, 7)), ()]
        elif method == "geometric":
            assert beside.curriculum.kept(7, 3) == ()
            assert beside.curriculum.kept(7, 2) == tuple(range(1, 7))
        else:
            assert [len(beside.curriculum.kept_within(7, budget)) for budget in budgets] == [0, 1, 2, 3]


def test_rows_held_out_of_the_data_count_for_its_stages(tmp_path: Path) -> None:
    """Whichever rows are held out, the stages are those of the file."""
    rows = [{"question": f"x{i}", "steps": ["q0"] * (1 + i), "answer": "q1"} for i in range(40)]
    data = write_rows(rows, tmp_path / "rows.jsonl")
    for share in (0.1, 0.5, 0.9):
        config = config_of(tmp_path, data=data, eval=(), held_out=share, method="left", iterations=99)
        assert find_material(config, {}).curriculum.longest == 40


def test_longer_rows_are_measured_at_every_stage(tmp_path: Path) -> None:
    short, long = chains(tmp_path, "short", 2), chains(tmp_path, "long", 5)
    config = config_of(
        tmp_path, data=short, eval=(f"id={short}", f"ood={long}"), removal=RemovalConfig(per_stage=1),
        iterations=150, batch=4, optimizer=TextOptimizerConfig(lr=1e-2),
    )  # fmt: skip
    run = train(config, Execution(out=tmp_path / "out"))
    rows = run.metrics("evaluation").rows
    assert [row["stage"] for row in rows] == [1, 2, 3]
    assert run.summary()["id_accuracy"] == run.summary()["ood_accuracy"] == 1.0  # nothing of a chain is left
    assert rows[-1]["ood_chain_accuracy"] == 1.0
    assert run.summary()["stages"] == 3


# Vocabulary ------------------------------------------------------------------------------------------------


def test_words_of_rows_that_were_held_out_are_known(tmp_path: Path) -> None:
    """As of ordinary text, where every row has a word that no other has."""
    rows = [{"question": f"how far is town{i}", "steps": ["far"], "answer": "far"} for i in range(60)]
    data = write_rows(rows, tmp_path / "towns.jsonl")
    config = config_of(tmp_path, data=data, eval=())
    material = find_material(config, {})
    assert len(material.train) + len(material.evals["id"]) == 60
    assert "town59" in material.tokenizer.library.get_vocab()
    strange = write_rows([{**rows[0], "question": "how far is home"}], tmp_path / "home.jsonl")
    with pytest.raises(BadInput, match=r"eval ood \(home.jsonl\), line 1: has 'home', which no training row"):
        find_material(replace(config, eval=(f"ood={strange}",)), {})


def own_tokenizer(folder: Path, *owned: str) -> str:
    """A tokenizer of bytes as somebody else has one, with tokens of its own."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.add_special_tokens(list(owned))
    PreTrainedTokenizerFast(tokenizer_object=library).save_pretrained(folder / "bytes")
    return str(folder / "bytes")


@pytest.mark.parametrize("tokenizer", ["words", "characters", "bytes"])
@pytest.mark.parametrize("text", ["c <|end|> d", "x<|end|>b", "<|budget:0|>", "<|pad|>"])
def test_a_marker_in_a_text_is_refused_by_its_line(text: str, tokenizer: str, tmp_path: Path) -> None:
    kind = own_tokenizer(tmp_path) if tokenizer == "bytes" else tokenizer
    plain = {"question": "a", "steps": ["b"], "answer": "c"}
    good = write_rows([plain] * 2, tmp_path / "good.jsonl")
    for part in plain:
        bad = write_rows([plain, {**plain, part: [text] if part == "steps" else text}], tmp_path / "bad.jsonl")
        for method in ("left", "mixture"):
            config = config_of(tmp_path, data=bad, eval=(f"id={good}",), tokenizer=kind, method=method)
            with pytest.raises(
                BadInput, match=r"^data \(bad.jsonl\), line 2: has '<\|\w+(:0)?\|>', which is a marker"
            ):
                find_material(config, {})
            config = replace(config, data=good, eval=(f"id={bad}",))
            with pytest.raises(BadInput, match=r"^eval id \(bad.jsonl\), line 2: has '<\|"):
                find_material(config, {})
    material = find_material(config_of(tmp_path, data=good, eval=(f"id={good}",), tokenizer=kind), {})
    with pytest.raises(BadInput, match=r"^question: has"):
        material.tokenizer.question(text)


def test_a_folders_own_token_is_no_marker(tmp_path: Path) -> None:
    """Some models end every turn by <|end|>: a boundary must be a token that means nothing else."""
    folder = own_tokenizer(tmp_path, "<|end|>")
    with pytest.raises(
        BadInput, match=r"tokenizer: .* has a token <\|end\|> of its own, which is a marker here"
    ):
        find_material(config_of(tmp_path, tokenizer=folder), {})


# Boundary --------------------------------------------------------------------------------------------------


def test_without_a_marker_all_answers_have_one_length(tmp_path: Path) -> None:
    """Else "1 2" would be right where "2" is, since nothing says where the answer begins."""
    rows = [
        {"question": "a", "steps": ["b"], "answer": "1 2"},
        {"question": "a b", "steps": ["b"], "answer": "2"},
    ]
    both, one = write_rows(rows, tmp_path / "both.jsonl"), write_rows(rows[:1], tmp_path / "one.jsonl")
    bare = config_of(tmp_path, data=both, eval=(f"id={one}",), boundary="none")
    with pytest.raises(BadInput, match="boundary: must be marker here: answers have from 1 to 2 tokens"):
        find_material(bare, {})
    with pytest.raises(BadInput, match="boundary: must be marker here"):
        find_material(replace(bare, data=one, eval=(f"id={both}",)), {})
    renderer = find_material(replace(bare, data=one), {}).renderer
    end = renderer.markers.end
    assert read_written([7, 8, 9, end], renderer) == WrittenAnswer((7,), (8, 9), 4)
    assert read_written([9, end], renderer) == WrittenAnswer((), (9,), 2)


def test_nothing_but_the_named_files_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tokenizer the name of none must not stand for the folder in which the user is."""
    looked: list[Path] = []

    def files_of(path: Path) -> list[Path]:
        looked.append(path)
        return []

    monkeypatch.setattr("internalize.kinds.text.material.files_of", files_of)
    with pytest.raises(BadInput):  # a shape alone has no tokenizer
        find_material(config_of(tmp_path, tokenizer=None), {})
    assert looked == []
