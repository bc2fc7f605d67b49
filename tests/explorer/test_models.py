"""The page's forward pass under Node against Python's: logits, answers, costs, insides."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import internalize.explorer
from internalize import Execution, ScheduleConfig, train
from internalize.explorer.bundle import describe_task
from internalize.explorer.page import write_explorer
from internalize.explorer.subject import open_subject, probe_targets, round_weights
from internalize.measure.predictor import TransformerPredictor
from internalize.models.gpt2 import GPT2, run_with_attention
from tests.conftest import SMALL
from tests.explorer.conftest import Made

ASSETS = Path(internalize.explorer.__file__).parent / "assets"
HERE = Path(__file__).parent
CONSTRUCTED = 4
"""The number of the hand-written model in the page: after the four runs."""

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask(made: Made, node: str) -> Ask:
    def ask(*questions: dict[str, Any]) -> Any:
        command = [node, str(HERE / "answer.js"), str(ASSETS), str(made.path)]
        done = subprocess.run(command, input=json.dumps(questions), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


def rounded(made: Made, number: int, stage: int, budget: int | None = None) -> TransformerPredictor:
    """Python's model with the very weights that the page has."""
    subject = made.subjects[number]
    weights = round_weights(subject.weights(stage), made.data["models"][number]["precision"])
    predictor = subject.predictor_of(stage, weights)
    return TransformerPredictor(predictor.model, predictor.renderer, budget)


def all_inputs(horizon: int, symbols: int) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(symbols)] * horizon)


@pytest.mark.parametrize("number", range(4), ids=["trained", "rotary", "no positions", "mixture"])
def test_logits_are_pythons(made: Made, ask: Ask, number: int) -> None:
    """At every token of every answer, for every input; and the tokens, and what they cost."""
    subject = made.subjects[number]
    inputs = all_inputs(4, 2)
    for budget in (None, 3):
        stage = subject.stages[-1]
        predictor = rounded(made, number, stage, budget)
        index = len(subject.stages) - 1
        (found,) = ask(
            {"model": number, "stage": index, "budget": budget, "inputs": inputs.tolist(), "want": "logits"}
        )
        generated = predictor.generate(inputs)
        answers = subject.renderer.read(generated)
        prompt = subject.renderer.prompt(inputs, predictor.answer_length)
        with torch.no_grad():
            whole = torch.cat([prompt, generated], dim=1)
            logits, _ = predictor.model(whole[:, :-1], first=prompt.shape[1] - 1)
        for row, answer in enumerate(found):
            length = int(answers.length[row])
            assert answer["tokens"] == generated[row, :length].tolist()
            told = torch.tensor(answer["logits"])
            assert told.shape == (length, subject.renderer.vocabulary.size)
            assert (told - logits[row, :length]).abs().max() < 1e-3
            assert answer["state"] == int(answers.final_state[row])
            assert (answer["passes"], answer["operations"]) == (length, predictor.flops(length))


def test_every_stage_answers_as_the_model_with_all_its_bits(made: Made, ask: Ask) -> None:
    """On 1,000 inputs, though the page has 16-bit weights; also where it is made to write more."""
    subject = made.subjects[0]
    inputs = torch.randint(2, (1_000, 4), generator=torch.Generator().manual_seed(5))
    cases = [(i, budget) for i in range(len(subject.stages)) for budget in (None, 5)]
    told = ask(*({"model": 0, "stage": i, "budget": budget, "inputs": inputs.tolist()} for i, budget in cases))
    for (i, budget), answers in zip(cases, told, strict=True):
        exact = subject.chain.predictor(budget, subject.stages[i])
        true = subject.renderer.read(exact.generate(inputs)).final_state
        agree = sum(answer["state"] == state for answer, state in zip(answers, true.tolist(), strict=True))
        assert agree >= 999, f"stage {subject.stages[i]}, budget {budget}"
    last = told[-2]
    assert sum(answer["right"] for answer in last) > 950, "the trained model is right, and the page says so"


def test_a_stage_that_is_told_its_length_is_asked_for_its_own(node: str, tmp_path: Path) -> None:
    """Left with a length token: stage 1 was trained on LEN_5, stage 4 on LEN_2."""
    config = replace(SMALL, length_token=True, iterations=200, schedule=ScheduleConfig())
    subject = open_subject(train(config, Execution(out=tmp_path, quiet=True)).path)
    page = tmp_path / "page.html"
    bundle = write_explorer([subject.chain.run.path], page)
    assert [stage["budget"] for stage in bundle.data["models"][0]["stages"]] == [5, 4, 3, 2]
    symbols = all_inputs(4, 2)
    questions = [{"model": 0, "stage": i, "budget": None, "inputs": symbols.tolist()} for i in range(4)]
    command = [node, str(HERE / "answer.js"), str(ASSETS), str(page)]
    done = subprocess.run(command, input=json.dumps(questions), capture_output=True, text=True, check=True)
    for stage, answers in enumerate(json.loads(done.stdout), start=1):
        weights = round_weights(subject.weights(stage), bundle.data["models"][0]["precision"])
        predictor = subject.predictor_of(stage, weights)
        written = predictor.generate(symbols)
        lengths = predictor.renderer.read(written).length.tolist()
        expected = [row[:n] for row, n in zip(written.tolist(), lengths, strict=True)]
        assert [answer["tokens"] for answer in answers] == expected


def test_the_accuracies_of_a_finished_run_are_its_results(made: Made) -> None:
    for described, subject in zip(made.data["models"], made.subjects, strict=False):
        results, last = subject.summary(), described["stages"][-1]["measured"]
        assert last["id"]["accuracy"] == results["id_accuracy"]
        assert last["ood"]["interval"] == results["ood_interval"]


def test_changing_one_symbol_is_asking_anew(made: Made, ask: Ask) -> None:
    """What was read before a changed symbol is read once: the answers are those of fresh questions."""
    symbols = [1, 0, 1, 1]
    for number in (0, 1, 3, CONSTRUCTED):
        (changes,) = ask({"model": number, "stage": 0, "inputs": [symbols], "want": "counterfactuals"})
        assert sorted(c[:2] for c in changes) == [[place, 1 - symbols[place]] for place in range(4)]
        inputs = [[*symbols[:place], symbol, *symbols[place + 1 :]] for place, symbol, _ in changes]
        (fresh,) = ask({"model": number, "stage": 0, "inputs": inputs})
        assert [c[2] for c in changes] == [answer["tokens"] for answer in fresh]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_the_inside_is_pythons(made: Made, ask: Ask, number: int) -> None:
    """Attention of every layer and head, and the residual stream before and after every layer."""
    subject = made.subjects[number]
    (seen,) = ask({"model": number, "stage": 0, "inputs": [[1, 0, 0, 1]], "want": "inspect"})
    model = rounded(made, number, subject.stages[0]).model
    assert isinstance(model, GPT2)
    with torch.no_grad():
        patterns, stream, _ = run_with_attention(model, torch.tensor([seen["tokens"]]))
    length = len(seen["tokens"])
    for layer, heads in enumerate(seen["attention"]):
        for head, rows in enumerate(heads):
            padded = torch.tensor([row + [0.0] * (length - len(row)) for row in rows])
            assert (padded - patterns[layer][head]).abs().max() < 1e-4
    assert (torch.tensor(seen["stream"]) - torch.stack(stream, dim=2)[0]).abs().max() < 1e-3


def test_probes_read_in_the_page_what_they_read_in_python(made: Made, ask: Ask) -> None:
    """Also with 8-bit weights, on inputs that they were not fitted to."""
    subject, stage = made.subjects[0], made.subjects[0].stages[1]
    shown = subject.shown(stage)
    targets = probe_targets(1, subject.renderer.prompt_length(len(shown) + 1), 4, shown)
    weights = round_weights(subject.weights(stage), "float16")
    probes, accuracy, _ = subject.probes(weights, shown, 900)
    inputs = all_inputs(4, 2)
    states = subject.task.trace(inputs)
    tokens = subject.renderer.sequence(inputs, states, shown)[:, :-1]
    model = rounded(made, 0, stage).model
    assert isinstance(model, GPT2)
    with torch.no_grad():
        _, stream, _ = run_with_attention(model, tokens)
    asked = [
        {"model": 0, "stage": 1, "want": "probes", "targets": targets, "tokens": row} for row in tokens.tolist()
    ]
    same = right = 0
    for row, readings in enumerate(ask(*asked)):
        for (layer, place, t), state in zip(targets, readings, strict=True):
            x = torch.cat([stream[layer][row, place].double(), torch.ones(1, dtype=torch.float64)])
            same += state == int((x @ probes[layer][place])[(t - 1) * 2 : t * 2].argmax())
            right += state == int(states[row, t])
    count = len(inputs) * len(targets)
    assert same >= 0.98 * count
    mean = sum(float(accuracy[layer, place, t - 1]) for layer, place, t in targets) / len(targets)
    assert abs(right / count - mean) < 0.05, "as good as the page says that they are"


def test_the_hand_written_model_is_exact(made: Made, ask: Ask) -> None:
    subject = made.subjects[0]
    construction = subject.construction()
    assert construction is not None
    inputs = all_inputs(4, 2)
    (answers,) = ask({"model": CONSTRUCTED, "stage": 0, "inputs": inputs.tolist()})
    assert [answer["state"] for answer in answers] == (inputs.sum(1) % 2).tolist()
    assert {(answer["passes"], answer["operations"]) for answer in answers} == {(1, construction.shape.flops)}
    (seen,) = ask({"model": CONSTRUCTED, "stage": 0, "inputs": [[1, 1, 0, 1]], "want": "inspect"})
    symbols = torch.tensor([[1, 1, 0, 1]])
    for layer in range(construction.shape.depth + 1):
        held = torch.tensor(seen["stream"])[:, layer, : len(construction.moduli)]
        if layer:
            assert torch.equal(held.round().long() % 2, construction.held(symbols, layer)[0] % 2)
    records = construction.network.record(construction.tokens(symbols))
    for layer, record in enumerate(records):
        for head in range(2):
            rows = seen["attention"][layer][head]
            last = record.weights[0, head, -1]
            assert torch.allclose(torch.tensor(rows[-1], dtype=torch.float64), last.detach(), atol=1e-6)


@pytest.mark.parametrize("name", ["C3", "regex:(0|1)*11"])
def test_the_truth_is_pythons(node: str, tmp_path: Path, name: str) -> None:
    """On all inputs; also where an output is said in place of the last state."""
    config = replace(SMALL, task=name, method="cot", iterations=1, schedule=ScheduleConfig())
    subject = open_subject(train(config, Execution(out=tmp_path)).path)
    inputs = all_inputs(4, subject.task.symbols)
    program = (
        f"const {{ trace }} = require({json.dumps(str(ASSETS / 'model.js'))}), [task, inputs] = JSON.parse("
    )
    program += "require('fs').readFileSync(0)); console.log(JSON.stringify(inputs.map((s) => trace(task, s))))"
    question = json.dumps([describe_task(subject), inputs.tolist()])
    done = subprocess.run([node, "-e", program], input=question, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == subject.task.trace(inputs).tolist()
