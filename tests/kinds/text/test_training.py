"""Runs on text: small models learn a toy and internalize it, are opened elsewhere, and go on from there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from internalize import BadInput, Execution, Run, ScheduleConfig, train
from internalize.kinds import prepare
from internalize.kinds.entrance import load_experiment
from internalize.kinds.text.config import LoraFields, TextConfig, TextEvaluationConfig, TextOptimizerConfig
from internalize.kinds.text.experiment import TextExperiment
from internalize.kinds.text.rendering import RemovalConfig
from internalize.kinds.text.state import TextStep
from internalize.runtime.kind import Streams
from tests.kinds.text.toys import parity_rows, shape_file

CPU = torch.device("cpu")


def toy(folder: Path, shape: str = "gpt2", **fields: Any) -> TextConfig:
    """Every string of three bits is trained and measured on: internalizing it takes some seconds."""
    rows = parity_rows(folder)
    base = TextConfig(
        data=rows,
        eval=(f"id={rows}",),
        model=shape_file(folder, shape),
        tokenizer="words",
        iterations=1_500,
        batch=16,
        removal=RemovalConfig(per_stage=1),
        schedule=ScheduleConfig(kind="adaptive", shortest=20, memory=10, threshold=0.1, stop_early=True),
        optimizer=TextOptimizerConfig(lr=1e-2),
    )
    return replace(base, **fields)


def experiment_of(config: TextConfig) -> TextExperiment:
    found = prepare(config).build(CPU)
    assert isinstance(found, TextExperiment)
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """One finished run for each of three architectures."""
    folder = tmp_path_factory.mktemp("runs")
    shapes = ("gpt2", "llama", "gpt_neox")
    return {name: train(toy(folder, name), Execution(out=folder / "out")) for name in shapes}


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox"])
def test_a_toy_is_internalized_and_opens_in_transformers(name: str, runs: dict[str, Run]) -> None:
    run = runs[name]
    summary = run.summary()
    assert summary["internalized"]
    assert summary["id_accuracy"] == 1.0
    assert summary["response_length"] == 3  # the marker, the answer, the end
    assert run.stages() == [1, 2, 3]
    first = run.metrics("evaluation").rows[0]
    assert (first["stage"], first["id_response_length"]) == (1, 5)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(run.path / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(run.path / "model")
    ids = tokenizer("x1 x0 x0 <|chain|>", return_tensors="pt")["input_ids"]
    written = model.generate(ids, max_new_tokens=8, attention_mask=torch.ones_like(ids))[0, ids.shape[1] :]
    assert tokenizer.decode(written).split() == ["<|answer|>", "q1", "<|end|>"]
    assert tokenizer.decode(ids[0]) == "x1 x0 x0 <|chain|>"


def test_a_trained_folder_is_where_another_training_begins(runs: dict[str, Run], tmp_path: Path) -> None:
    """The pretrained path: weights and tokenizer of a folder, and nothing forgotten before the first step."""
    folder = str(runs["llama"].path / "model")
    config = toy(tmp_path, model=folder, tokenizer=None, method="e2e", removal=RemovalConfig(), iterations=1)
    experiment = experiment_of(replace(config, schedule=ScheduleConfig()))
    row = experiment.evaluate(experiment.init(Streams(0)), Streams(0))
    assert row["id_accuracy"] == 1.0
    # a mixture needs markers that the folder's tokenizer lacks: the embedding grows, the rest stays
    mixed = experiment_of(replace(config, method="mixture", schedule=ScheduleConfig()))
    state = mixed.init(Streams(0))
    old = runs["llama"].weights()["model.embed_tokens.weight"]
    new = state.weights()["model.embed_tokens.weight"]
    assert len(new) == len(old) + 2
    assert torch.equal(new[: len(old)], old)
    assert not torch.equal(new[-1], new[-2])


def test_model_and_rows_are_part_of_the_identity_and_not_of_the_folder(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    run = runs["gpt2"]
    assert not (run.path / "sources").exists()
    config = toy(tmp_path)
    before = prepare(config).identity
    assert set(before.sources) == {config.data, config.model}
    rows = Path(config.data)
    rows.write_text(rows.read_text().replace("x0 x0 x0", "x0 x0  x0"))
    assert prepare(config).identity.digest() != before.digest()


def test_a_run_whose_rows_changed_does_not_go_on(tmp_path: Path) -> None:
    config = toy(tmp_path, iterations=3, schedule=ScheduleConfig())
    run = train(config, Execution(out=tmp_path / "out"))
    load_experiment(run, "cpu")
    rows = Path(config.data)
    rows.write_text(rows.read_text() + rows.read_text().splitlines()[0] + "\n")
    with pytest.raises(BadInput, match=r"parity3.jsonl has changed since .* was made from it"):
        load_experiment(run, "cpu")


# Steps -----------------------------------------------------------------------------------------------------


def gradient_after(config: TextConfig, steps: int = 1) -> torch.Tensor:
    experiment = experiment_of(config)
    streams = Streams(config.seed)
    state = experiment.init(streams)
    for _ in range(steps):
        experiment.advance(state, streams)
    return state.optimizer.gradient.clone()


def test_the_gradient_is_that_of_a_plain_loop_over_rows(tmp_path: Path) -> None:
    """Against Hugging Face's own loss with labels, row by row: the mean over all scored tokens."""
    config = toy(tmp_path, "llama", method="left")
    experiment = experiment_of(config)
    streams = Streams(0)
    state = experiment.init(streams)
    rendered = experiment.rendered_at(state.progress, streams)
    found = gradient_after(config)
    state.optimizer.gradient.zero_()
    total = sum(len(row.slots) for row in rendered)
    for row in rendered:
        labels = [-100] * row.prompt + row.block
        loss = state.model(input_ids=torch.tensor([row.tokens]), labels=torch.tensor([labels])).loss
        (loss * len(row.slots) / total).backward()
    torch.testing.assert_close(found, state.optimizer.gradient, rtol=1e-4, atol=1e-6)


def not_called(*_: Any) -> None:
    raise AssertionError("the library's model computed a step")


@pytest.mark.parametrize("positions", ["closed", "kept"])
def test_gpt2s_fast_path_gives_the_gradient_and_sums_of_the_librarys(
    positions: Literal["closed", "kept"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By this package's engine where all rows have one form; answering stays with the library's model."""
    from internalize.kinds.text.generation import FastTextStep

    found: dict[str, Any] = {}
    for kernel in ("auto", "plain"):
        removal = RemovalConfig(per_stage=1, positions=positions)
        still = TextOptimizerConfig(lr=1e-6)  # so that a later stage has the gradients of equal weights
        config = toy(tmp_path, kernel=kernel, removal=removal, iterations=6, optimizer=still)
        experiment = experiment_of(replace(config, schedule=ScheduleConfig()))
        streams = Streams(0)
        state = experiment.init(streams)
        assert isinstance(state.step, FastTextStep) == (kernel == "auto")
        with monkeypatch.context() as patch:
            if kernel == "auto":
                patch.setattr(TextStep, "__call__", not_called)
            while not experiment.done(state):  # the last stages have no chain, and a gap in kept positions
                experiment.advance(state, streams)
        gradients = {name: parameter.grad for name, parameter in state.model.named_parameters()}
        row = experiment.evaluate(state, streams)
        found[kernel] = gradients, state.averages.window.clone(), row
    for name, tensor in found["plain"][0].items():
        torch.testing.assert_close(found["auto"][0][name], tensor, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(found["auto"][1], found["plain"][1], rtol=1e-3, atol=1e-3)
    assert found["auto"][2].keys() == found["plain"][2].keys()


def test_parts_checkpointing_and_bf16_change_little(tmp_path: Path) -> None:
    whole = gradient_after(toy(tmp_path, kernel="plain"))
    assert torch.allclose(gradient_after(toy(tmp_path, accumulate=5)), whole, rtol=1e-4, atol=1e-6)
    assert torch.allclose(gradient_after(toy(tmp_path, checkpointing=True)), whole, rtol=1e-4, atol=1e-6)
    rough = gradient_after(toy(tmp_path, kernel="plain", precision="bf16"))
    assert not torch.equal(rough, whole)
    assert torch.nn.functional.cosine_similarity(rough, whole, dim=0) > 0.99
    clipped = gradient_after(toy(tmp_path, kernel="plain", optimizer=TextOptimizerConfig(lr=1e-2, clip=0.1)))
    assert float(clipped.norm()) == pytest.approx(0.1, rel=1e-3)


def test_the_learning_rate_warms_up_again_after_every_reset_and_cools_down_at_the_end(tmp_path: Path) -> None:
    schedule = ScheduleConfig()
    for reset, cooldown, wanted in (
        (True, None, [1, 2, 3, 3, 1, 2, 3, 3, 1, 2, 3, 3]),
        (False, None, [1, 2, *[3] * 10]),
        (False, 3, [1, 2, *[3] * 8, 2, 1]),
    ):
        optimizer = TextOptimizerConfig(lr=3e-3, warmup=3, reset=reset, cooldown=cooldown)
        experiment = experiment_of(toy(tmp_path, iterations=12, schedule=schedule, optimizer=optimizer))
        streams, rates = Streams(0), []
        state = experiment.init(streams)
        while not experiment.done(state):
            experiment.advance(state, streams)
            rates.append(round(state.optimizer.lr / 1e-3))
        assert rates == wanted


def test_dropout_is_a_field_and_a_stream(tmp_path: Path) -> None:
    """GPT-2's own default of 0.1 does not creep in; a rate that is asked for draws from a stream alone."""
    none, some = toy(tmp_path), toy(tmp_path, dropout=0.3)
    torch.manual_seed(1)
    first = gradient_after(none), gradient_after(some)
    before = torch.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(gradient_after(none), first[0])
    assert torch.equal(gradient_after(some), first[1])
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), before)  # nothing was drawn from the global generator
    assert not torch.equal(first[0], first[1])
    model = experiment_of(some).new_model()
    rates = [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    assert set(rates) == {0.3}


def test_the_cost_is_counted_for_every_stage_and_until_it_is_internalized(runs: dict[str, Run]) -> None:
    """By hand: a row is three symbols and a marker, then 5, 4 or 3 tokens; reading is twice the weights and the
    attention to what came before, writing the unembedding, and training three times all that."""
    run = runs["gpt2"]
    summary, costs = run.summary(), experiment_of(toy(run.path.parent.parent)).costs
    ends = summary["iterations_to_stages"]
    begun, total, by_hand = 0, 0, []
    for end, answer in zip(ends, (5, 4, 3), strict=True):
        tokens = 4 + answer - 1
        attention = 4 * costs.layers * costs.width * tokens * (tokens + 1) // 2
        row = 3 * (2 * costs.products * tokens + attention + 2 * answer * costs.unembedding)
        total += (end - begun) * 16 * row
        by_hand.append(total)
        begun = end
    assert summary["operations_to_stages"] == by_hand
    assert summary["operations"] == by_hand[-1]
    assert summary["iterations_to_internalize"] == ends[-1]  # measured at the ends of stages alone
    assert summary["samples_to_internalize"] == ends[-1] * 16
    assert summary["operations_to_internalize"] == by_hand[-1]
    assert run.metrics("train").rows[-1]["operations"] == by_hand[-1]


def test_every_epoch_shows_every_row_once(tmp_path: Path) -> None:
    from internalize.kinds.text.state import rows_at

    seen = [row for iteration in range(7) for row in rows_at(iteration, 3, 7, Streams(5))]
    assert sorted(seen[:7]) == sorted(seen[7:14]) == sorted(seen[14:]) == list(range(7))
    assert seen[:7] != seen[7:14]


@pytest.mark.parametrize("method", ["mixture", "filler:left", "right", "even"])
def test_every_method_trains_and_is_measured(method: str, tmp_path: Path) -> None:
    config = toy(tmp_path, method=method, iterations=12, schedule=ScheduleConfig())
    if method == "right":
        config = replace(config, removal=RemovalConfig(per_stage=1, smoothing=1.0, positions="kept"))
    summary = train(config, Execution(out=tmp_path / "out")).summary()
    assert summary["iterations"] == 12
    assert ("chain_id_accuracy" in summary) == (method == "mixture")
    assert not summary["internalized"]


def test_adapters_train_beside_frozen_weights(runs: dict[str, Run], tmp_path: Path) -> None:
    pytest.importorskip("peft")
    folder = str(runs["llama"].path / "model")
    config = toy(
        tmp_path, model=folder, tokenizer=None, lora=LoraFields(rank=2), iterations=6, schedule=ScheduleConfig()
    )
    run = train(config, Execution(out=tmp_path / "out"))
    kept = run.weights(1)
    assert kept
    assert all("lora_" in name or "trainable_tokens" in name for name in kept)
    from transformers import AutoModelForCausalLM

    merged = AutoModelForCausalLM.from_pretrained(run.path / "model").eval()
    _, experiment = load_experiment(run, "cpu")
    assert isinstance(experiment, TextExperiment)
    model: Any = experiment.load_model(run.weights(3))
    ids = torch.tensor([[5, 6, 5, 1, 2]])
    with torch.no_grad():
        torch.testing.assert_close(merged(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-5)
        begun = AutoModelForCausalLM.from_pretrained(folder).eval()
        assert not torch.equal(begun(ids).logits, merged(ids).logits)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_others_who_follow_the_task_file_find_our_accuracy(runs: dict[str, Run], name: str) -> None:
    """As lm-evaluation-harness does it with these settings: generate, cut after the marker, compare texts."""
    import re

    import yaml
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = runs[name].path / "model"
    text = (folder / "lm_eval_task.yaml").read_text()
    task = yaml.safe_load(text)
    marker = int(re.findall(r"think_end_token=(\d+)", text)[0])
    asked = task["generation_kwargs"]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    file = folder / task["dataset_kwargs"]["data_files"]["test"]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    right = 0
    for row in rows:
        ids = tokenizer(row["prompt"], return_tensors="pt")
        said = model.generate(
            **ids, max_new_tokens=asked["max_gen_toks"], do_sample=False, pad_token_id=tokenizer.pad_token_id
        )[0, ids["input_ids"].shape[1] :].tolist()
        answer = said[len(said) - said[::-1].index(marker) :] if marker in said else said
        right += tokenizer.decode(answer, skip_special_tokens=True).strip() == row["answer"]
    assert right / len(rows) == runs[name].summary()["id_accuracy"]
    assert task["doc_to_text"] == "{{prompt}}"
    assert asked["until"] == ["<|end|>"]


def test_evaluation_settings_measure_the_same_rows_always(tmp_path: Path) -> None:
    config = toy(tmp_path, evaluation=TextEvaluationConfig(every=4, rows=5, batch=2), iterations=8)
    run = train(replace(config, schedule=ScheduleConfig()), Execution(out=tmp_path / "out"))
    rows = run.metrics("evaluation").rows
    assert [row["iteration"] for row in rows] == [2, 4, 8]
    assert all(row["id_accuracy"] * 5 == pytest.approx(round(row["id_accuracy"] * 5)) for row in rows)


def test_commands_on_runs_answer_for_text(runs: dict[str, Run], capsys: pytest.CaptureFixture[str]) -> None:
    from internalize.cli import main

    path = str(runs["gpt2"].path)

    def ask(*words: str) -> Any:
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert ask("evaluate", path)["accuracy"] == 1.0
    early = ask("evaluate", path, "--stage", "1", "--samples", "4")
    assert (early["response_length"], early["samples"]) == (5, 4)
    shown = ask("show", path, "--examples", "8")
    assert all(row["right"] and row["chain"] == "" for row in shown)
    assert {row["true_chain"] for row in shown if row["question"] == "x1 x1 x0"} == {"q1 q0"}
    cells = {(c["stage"], c["budget"]): c["accuracy"] for c in ask("matrix", path)["cells"]}
    assert cells[1, 2] == cells[3, 0] == 1.0
    assert set(cells) == {(stage, budget) for stage in (1, 2, 3) for budget in (0, 1, 2)}
    found = ask("diagnose", path)
    assert (found["verdict"], [s["stage"] for s in found["stages"]]) == ("internalized", [1, 2, 3])
    strict = ask("check", path, "--against", f"{path}@1")
    assert strict["failed"] == []
    assert strict["slow_cost"]["forward_passes"] == 5
    assert main(["check", f"{path}:2", "--against", f"{path}@1", "--json"]) == 1  # no faster when it must write
    assert json.loads(capsys.readouterr().out)["failed"][-1] == "faster"
    assert main(["runs", "--out", str(runs["gpt2"].path.parent), "--json"]) == 0
    assert "parity3.jsonl" in capsys.readouterr().out
    assert (runs["gpt2"].path / "analysis" / "matrix.png").is_file()


def test_a_text_run_opens_like_a_run_of_chains(
    runs: dict[str, Run], capsys: pytest.CaptureFixture[str]
) -> None:
    from internalize import open_run
    from internalize.cli import main
    from internalize.kinds.text.open_text import OpenText

    opened = open_run(runs["gpt2"].path)
    assert isinstance(opened, OpenText)
    assert opened.stages == [1, 2, 3]
    assert opened.config.method == "left"
    assert opened.metrics.where(event="evaluation")[-1]["id_accuracy"] == 1.0
    first, last = opened.answer("x1 x1 x0", stage=1), opened.answer("x1 x1 x0")
    assert (first.chain, first.answer, first.tokens) == ("q1 q0", "q0", 5)
    assert (last.chain, last.answer, last.truth, last.right) == ("", "q0", "q0", True)
    assert str(last) == "q0 (right; it wrote nothing before it; stage 3 of 3)"
    with torch.no_grad():  # the model itself, asked as a library's user would
        said = opened.model()(torch.tensor([[*opened.read_question("x1 x1 x0")[0].question, 1]])).logits
    assert int(said[0, -1].argmax()) == opened.experiment.material.renderer.markers.answer
    unknown = opened.answer("x1")
    assert (unknown.truth, unknown.right) == (None, None)
    for question, why in (("", "empty"), ("x1 x1 x0 x1", "at most 3"), ("x7", "'x7'")):
        with pytest.raises(BadInput, match=why):
            opened.answer(question)
    for command, instead in (("profile", "evaluate RUN"), ("probe", "open_run"), ("audit", "matrix RUN")):
        assert main([command, str(opened.path)]) == 2
        assert instead in capsys.readouterr().err


def test_schedules_that_text_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"schedule.kind: must be fixed or adaptive"):
        toy(tmp_path, schedule=ScheduleConfig(kind="controller"))
