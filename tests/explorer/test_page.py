"""The page in a real browser: it answers, it reacts, it asks for nothing and executes nothing foreign."""

from __future__ import annotations

import base64
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from internalize import EvaluationConfig, Execution, ModelConfig, Run, ScheduleConfig, train
from internalize.cli import main
from internalize.errors import BadInput
from internalize.explorer import bundle as bundles
from internalize.explorer.bundle import thin_out
from internalize.explorer.page import digest, write_explorer
from internalize.explorer.subject import Subject, open_subject, probes_size
from tests.conftest import SMALL
from tests.explorer.browser import Browser
from tests.explorer.conftest import Made
from tests.explorer.renew import renewed
from tests.explorer.test_models import rounded

WIDE, HIGH = 1200, 900


@pytest.fixture
def browser(fresh_browser: Browser, made: Made) -> Browser:
    """The page just opened, on a wide and light screen."""
    fresh_browser.size(WIDE, HIGH)
    fresh_browser.prefer(prefers_color_scheme="light")
    fresh_browser.open(made.path.as_uri())
    return fresh_browser


def stage_of(browser: Browser) -> str:
    return str(browser.run("document.querySelector('.stage-words strong').textContent"))


def tokens_of(browser: Browser) -> list[str]:
    """What the model with the slider writes, without the end."""
    found: list[str] = browser.run(
        "[...document.querySelectorAll('.row.current .token:not(.end)')].map((e) => e.textContent)"
    )
    return found


def drawn(browser: Browser) -> int:
    return int(browser.run("Number(document.documentElement.dataset.drawn)"))


def settle(browser: Browser, before: int) -> None:
    """Wait until something newer than `before` is drawn whole."""
    browser.wait(f"Number(document.documentElement.dataset.drawn) > {before}")


# It answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(4))
def test_the_page_answers_inputs_that_were_never_recorded(browser: Browser, made: Made, number: int) -> None:
    """From the console: tokens and logits as Python's, for every stage and input."""
    subject = made.subjects[number]
    inputs = torch.cartesian_prod(*[torch.arange(2)] * 4)
    for stage in subject.stages:
        predictor = rounded(made, number, stage)
        generated = predictor.generate(inputs)
        lengths = subject.renderer.read(generated).length.tolist()
        calls = f"{json.dumps(inputs.tolist())}.map((x) => internalize.answer(x, {stage}, null, {number}))"
        for row, answer in enumerate(browser.run(calls)):
            assert answer["ids"] == generated[row, : lengths[row]].tolist()
            prompt = subject.renderer.prompt(inputs[row : row + 1], predictor.answer_length)
            with torch.no_grad():
                logits, _ = predictor.model(prompt, first=prompt.shape[1] - 1)
            assert (torch.tensor(answer["logits"][0]) - logits[0, 0]).abs().max() < 1e-3
    assert browser.run("internalize.answer('1101', 4).tokens") == ["1", "end"]
    assert len(browser.run("internalize.answer('1101', 1, 3).tokens")) == 3
    wrong = "(() => { try { internalize.answer('11x1') } catch (e) { return e.message } })()"
    assert "no symbol" in browser.run(wrong)


def test_the_hand_written_model_answers_beside_them(browser: Browser) -> None:
    rows = browser.run("[...document.querySelectorAll('.row.model .row-label')].map((e) => e.textContent)")
    assert len(rows) == 5
    assert "Written by hand" in rows[4]
    assert "right" in rows[4]


# It reacts -----------------------------------------------------------------------------------------------


def test_the_chain_shrinks_with_the_slider_and_the_answer_stays(browser: Browser) -> None:
    truth = browser.run("[...document.querySelectorAll('.token.truth')].map((e) => e.textContent)")
    for stage in (1, 2, 3, 4):
        assert stage_of(browser) == f"Stage {stage} of 4"
        assert tokens_of(browser) == truth[stage:]
        assert "right" in browser.run("document.querySelector('.row.current .row-label').textContent")
        before = drawn(browser)
        if stage < 4:
            browser.run(
                f"(() => {{ const s = document.getElementById('stage'); s.value = {stage};"
                " s.dispatchEvent(new Event('input', {bubbles: true})); })()"
            )
            settle(browser, before)


def test_keys_change_the_stage_and_play_the_film(browser: Browser) -> None:
    browser.press("ArrowRight")
    assert stage_of(browser) == "Stage 2 of 4"
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")  # there is nothing before the first
    assert stage_of(browser) == "Stage 1 of 4"
    browser.press(" ")
    assert browser.run("document.getElementById('play').getAttribute('aria-label')") == "Stop the film"
    browser.wait("document.querySelector('.stage-words strong').textContent === 'Stage 4 of 4'")
    browser.wait("document.getElementById('play').getAttribute('aria-label').startsWith('Play')")
    browser.press("ArrowLeft")
    assert stage_of(browser) == "Stage 3 of 4"


def test_inputs_are_typed_clicked_and_drawn(browser: Browser) -> None:
    browser.run("document.getElementById('typed').select(), document.getElementById('typed').focus()")
    browser.type("0 1 1 0")
    symbols = "[...document.querySelectorAll('.symbol')].map((e) => e.textContent).join('')"
    assert browser.run(symbols) == "0110"
    assert tokens_of(browser) == ["0", "1", "0", "0"]
    browser.type("7")
    assert "no symbol" in browser.run("document.getElementById('typed-help').textContent")
    assert browser.run(symbols) == "0110"
    browser.click(".symbol[data-place='0']")
    assert browser.run(symbols) == "1110"
    assert tokens_of(browser) == ["1", "0", "1", "1"]
    browser.press("ArrowUp")  # the symbol has the focus
    drawn_inputs = set()
    for name in ("random-id", "random-ood"):
        for _ in range(8):
            browser.click(f"#{name}")
            drawn_inputs.add(browser.run(symbols))
            assert re.fullmatch("[01]{4}", browser.run(symbols))
    assert len(drawn_inputs) > 3


def test_changes_of_one_symbol_are_shown_and_can_be_taken(browser: Browser) -> None:
    assert browser.run("document.querySelectorAll('.flip').length") == 4
    before = browser.run("document.getElementById('typed').value")
    browser.click(".flip")
    after = browser.run("document.getElementById('typed').value")
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


def test_all_stages_at_once_are_what_every_stage_answers(browser: Browser, made: Made) -> None:
    """Every line of dots against Python's answer of that stage, on inputs of both distributions; and it leads
    there."""
    subject = made.subjects[0]
    lines = (
        "[...document.querySelectorAll('.stair')].map((line) => [...line.querySelectorAll('.dot')]"
        ".filter((dot) => dot.classList.length > 1).sort((a, b) => a.style.gridColumn - b.style.gridColumn)"
        ".map((dot) => [Number(dot.style.gridColumn) - 1, dot.classList.contains('right')]))"
    )
    for button in ("random-id", "random-ood"):
        before = drawn(browser)
        browser.click(f"#{button}")
        settle(browser, before)
        symbols = [int(s) for s in browser.run("document.getElementById('typed').value")]
        truth = subject.task.trace(torch.tensor([symbols]))[0].tolist()
        expected = []
        for stage in subject.stages:
            said = subject.predictor(stage).generate(torch.tensor([symbols]))
            states = [t - subject.task.symbols for t in said[0].tolist() if t < subject.renderer.vocabulary.eos]
            expected.append(
                [[t, state == truth[t]] for t, state in zip(subject.shown(stage), states, strict=True)]
            )
        assert browser.run(lines) == expected
    before = drawn(browser)
    browser.run("document.querySelectorAll('.stair')[2].click()")
    settle(browser, before)
    assert stage_of(browser) == "Stage 3 of 4"
    assert browser.run("[...document.querySelectorAll('.stair')].findIndex((e) => e.matches('.here'))") == 2


def test_only_what_internalized_is_called_so() -> None:
    assert bundles.label_of("left", 4, {"internalized": True}) == "Internalized"
    assert bundles.label_of("inductive", 4, {"internalized": False}) == "Not internalized (leaps)"
    assert bundles.label_of("left", 4, {}) == "Not finished"
    assert bundles.label_of("cot", 1, {}) == "Chain of thought, not finished"
    assert bundles.label_of("cot", 1, {"internalized": False}) == "Chain of thought"
    twins = [{"label": "End to end", "seed": 1}, {"label": "End to end", "seed": 2}, {"label": "x", "seed": 3}]
    bundles.tell_apart(twins)
    assert [model["label"] for model in twins] == ["End to end, seed 1", "End to end, seed 2", "x"]


def test_curve_and_matrix_lead_to_a_stage(browser: Browser) -> None:
    """A click into the third row and first column of the matrix: stage 3, made to write one state."""
    place = browser.run(
        "(() => { const c = document.querySelector('#matrix canvas'); c.scrollIntoView({block: 'center'});"
        " const b = c.getBoundingClientRect(), d = c.dataset;"
        " return [b.x + Number(d.left) + 0.5 * d.wide, b.y + Number(d.top) + 2.5 * d.high]; })()"
    )
    browser.click_at(*place)
    assert stage_of(browser) == "Stage 3 of 4"
    assert "made to write 1 state" in browser.run("document.querySelector('.stage-words').textContent")
    assert len(tokens_of(browser)) == 1
    before = drawn(browser)
    end = browser.run(
        "(() => { const c = document.querySelector('#curve svg'); c.scrollIntoView({block: 'center'});"
        " const b = c.getBoundingClientRect(); return [b.x + 0.97 * b.width, b.y + b.height / 2]; })()"
    )
    browser.click_at(*end)
    settle(browser, before)
    assert stage_of(browser) == "Stage 4 of 4"


def test_another_model_is_looked_into_and_a_mixture_is_asked_by_budget(browser: Browser) -> None:
    names = "[...document.querySelectorAll('.model-name')].map((e) => e.textContent)"
    assert browser.run(names)[0] == "Internalized"
    for label in ("Mixture of lengths", "Written by hand", "Chain of thought"):
        before = drawn(browser)
        browser.run(
            f"[...document.querySelectorAll('.model-name')].find((e) => e.textContent === '{label}').click()"
        )
        settle(browser, before)
        assert browser.run(names)[0] == label
        if label == "Mixture of lengths":
            browser.run(
                "(() => { const s = document.getElementById('budget'); s.value = 2;"
                " s.dispatchEvent(new Event('input', {bubbles: true})); })()"
            )
            assert browser.run("document.querySelector('.budget output').textContent") == "2 states"
    assert browser.run("document.querySelectorAll('#maps canvas').length") == 2, "one for each layer"


def test_inputs_are_found(browser: Browser) -> None:
    """The untrained E2E model is wrong on half of the inputs; so one where it differs is found at once."""
    buttons = "[...document.querySelectorAll('#find button')]"
    browser.run(f"{buttons}.find((e) => e.textContent.includes('End to end')).click()")
    browser.wait("document.getElementById('found').textContent.startsWith('Input')")
    rows = browser.run("[...document.querySelectorAll('.row.model')].map((e) => e.textContent)")
    assert any("✗" in row for row in rows)


def test_the_answer_comes_quickly(browser: Browser) -> None:
    """A new input is answered by all five models within 50 ms; the best of ten, for the machine may be busy."""
    times = []
    for _ in range(10):
        browser.run("document.getElementById('random-id').click()")
        times.append(float(browser.run("document.documentElement.dataset.answer")))
    assert min(times) < 50


# How it looks --------------------------------------------------------------------------------------------


def test_it_is_dark_where_people_like_it_dark(browser: Browser) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    assert browser.run(ground) == "rgb(255, 255, 255)"
    browser.prefer(prefers_color_scheme="dark")
    red, green, blue = map(int, re.findall(r"\d+", browser.run(ground)))
    assert max(red, green, blue) < 60


def test_a_phone_shows_it_without_scrolling_sideways(browser: Browser, made: Made) -> None:
    browser.size(360, 740)
    browser.open(made.path.as_uri())
    assert browser.run("document.documentElement.scrollWidth") <= 360
    assert browser.run("document.getElementById('board').scrollWidth") <= 360


def test_screen_readers_are_told_what_it_says(browser: Browser) -> None:
    browser.wait("document.getElementById('spoken').textContent.length > 0")
    spoken = browser.run("document.getElementById('spoken').textContent")
    assert spoken.startswith("Stage 1. Internalized writes ")
    nameless = browser.run(
        "[...document.querySelectorAll('button, input, select, canvas, svg[role=img]')].filter((e) => "
        "!(e.textContent.trim() || e.getAttribute('aria-label') || e.closest('label'))).map((e) => e.outerHTML)"
    )
    assert nameless == []


def test_nothing_is_asked_of_the_network_and_nothing_complains(browser: Browser, made: Made) -> None:
    """After the film, a search and a look into every model."""
    for m in range(5):
        before = drawn(browser)
        browser.run(f"document.querySelectorAll('.model-name')[{m}].click()")
        settle(browser, before)
    browser.press(" ")
    assert browser.requests() == [made.path.as_uri()]
    assert browser.complaints() == []


# What it is made of --------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """All elements with their attributes, and the text of scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []

        self.inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        runs = tag == "style" or (tag == "script" and dict(attrs).get("type") is None)
        self.inside = tag if runs else None

    def handle_endtag(self, tag: str) -> None:
        self.inside = None

    def handle_data(self, data: str) -> None:
        if self.inside is not None:
            self.texts.append((self.inside, data))


def parts_of(page: Path) -> Tags:
    tags = Tags()
    tags.feed(page.read_text(encoding="utf-8"))
    return tags


def test_the_page_refers_to_nothing_and_allows_only_its_own_code(made: Made) -> None:
    tags = parts_of(made.path)
    for tag, attributes in tags.found:
        assert not {"src", "href", "srcset", "action", "style"} & set(attributes), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
    policy = next(a["content"] for _, a in tags.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for kind in ("script", "style"):
        text = "".join(text for tag, text in tags.texts if tag == kind)
        assert f"{kind}-src '{digest(text)}'" in policy
    assert "unsafe" not in policy
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", made.path.read_text()
    )


NASTY = "</script><script>window.hacked=1</script>"
TAG = "<img/src=x/onerror=window.hacked=1>"


def test_hostile_names_are_shown_and_never_executed(fresh_browser: Browser, tmp_path: Path) -> None:
    task = tmp_path / "task.json"
    rows = [[0, 1], [1, 0]]
    about = {"name": TAG, "states": [NASTY, "a&amp;b"], "symbols": [TAG, "<!--"], "transitions": rows}
    task.write_text(json.dumps(about))
    config = replace(
        SMALL,
        task=str(task),
        iterations=2,
        model=ModelConfig(depth=1, width=8, heads=2),
        schedule=ScheduleConfig(),
        method="cot",
        evaluation=EvaluationConfig(every=1, samples=20, final_samples=20),
    )
    run = train(config, Execution(out=tmp_path / "runs"))
    hostile = tmp_path / "<img src=x onerror=window.hacked=1>"
    shutil.copytree(run.path, hostile)
    page = tmp_path / "page.html"
    write_explorer([hostile], page)
    fresh_browser.size(WIDE, HIGH)
    fresh_browser.open(page.as_uri())
    fresh_browser.run("document.querySelector('.symbol').click()")
    assert fresh_browser.run("window.hacked") is None
    assert fresh_browser.run("document.images.length") == 0
    assert NASTY in fresh_browser.run(
        "[...document.querySelectorAll('title')].map((e) => e.textContent).join()"
    )
    assert hostile.name in fresh_browser.run("document.getElementById('footer').textContent")
    assert fresh_browser.requests() == [page.as_uri()]
    assert fresh_browser.complaints() == []


@pytest.mark.parametrize(("own", "why"), [(False, "too large to run"), (True, "a network of your own")])
def test_a_model_that_cannot_run_in_the_page_is_recorded(
    own: bool,
    why: str,
    fresh_browser: Browser,
    internalized: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page says why, promises nothing else, and shows what the model said."""
    monkeypatch.setattr(bundles, "LARGEST_LIVE", 100)
    monkeypatch.setattr(Subject, "obstacle", "a network of your own" if own else "")
    monkeypatch.setattr(bundles, "RECORDED", 3)
    page = tmp_path / "page.html"
    made = write_explorer([internalized.path], page)
    about = made.data["models"][0]
    assert about["kind"] == "recorded"
    assert not any(name.startswith("weights-0") for name in made.blocks)
    fresh_browser.open(page.as_uri())
    assert why in fresh_browser.run("document.getElementById('recorded-note').textContent")
    lead = fresh_browser.run("document.getElementById('lead').textContent")
    assert "run in this page" not in lead
    assert ("transformer" in lead) != own
    subject = open_subject(internalized.path)
    symbols = about["recorded"]["inputs"][0]
    told = subject.predictor(1).generate(torch.tensor([symbols]))
    assert fresh_browser.run(f"internalize.answer({symbols}, 1).ids") == told[0].tolist()
    others = [
        s for s in torch.cartesian_prod(*[torch.arange(2)] * 4).tolist() if s not in about["recorded"]["inputs"]
    ]
    assert fresh_browser.run(f"internalize.answer({others[0]}, 1)") is None
    fresh_browser.click("#random-id")
    assert fresh_browser.complaints() == []


# The command ---------------------------------------------------------------------------------------------


def test_the_command_says_how_large_and_how_quick(
    internalized: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], fresh_browser: Browser
) -> None:
    page = tmp_path / "deep" / "page.html"
    assert main(["explore", str(internalized.path), "--out", str(page), "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["bytes"] == page.stat().st_size
    assert told["models"][0]["stages"] == [1, 2, 3, 4]
    assert told["models"][0]["agreement"][0] >= 999
    assert 0 < told["first_answer_ms"] < 60_000


def test_stages_are_left_out_where_all_are_too_many(internalized: Run, made: Made) -> None:
    assert thin_out([1, 2, 3, 4, 5, 6], 3) == [1, 3, 6]
    assert thin_out([1, 2, 3], 9) == [1, 2, 3]
    assert thin_out([1, 2, 3], 1) == [3]
    subject = open_subject(internalized.path)
    three = 3 * bundles.weights_size(subject) / 1e6  # two stages and the untrained model
    allowance = bundles.Allowance([subject], 1.1 * three + bundles.last_probes_size(subject) / 1e6)
    assert allowance.kept(subject) == [1, 4]
    assert not allowance.has_room(10_000, subject, 1), "probes come after weights"
    assert allowance.has_room(10_000, subject, 4), "but those of the last stage are always there"
    assert bundles.Allowance([subject], 5).has_room(10_000, subject, 1)
    text = made.path.read_text(encoding="utf-8")
    (packed,) = re.findall(r'id="probes-0-1">([^<]*)<', text)
    assert len(base64.b64decode(packed)) == probes_size(subject, subject.shown(2)), "as was foreseen"


def test_bad_input_is_one_line(internalized: Run, made: Made, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^page: must be a file that ends in \.html"):
        write_explorer([internalized.path], tmp_path / "page.txt")
    other = train(
        replace(SMALL, task="C3", method="cot", iterations=2, schedule=ScheduleConfig()),
        Execution(out=tmp_path / "runs"),
    )
    with pytest.raises(BadInput, match="one page shows one task"):
        write_explorer([internalized.path, other.path], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_the_page_of_the_documentation_answers(fresh_browser: Browser) -> None:
    """The demo's seed 0, on 205 inputs: out loud and internalized it is right, without any chain at chance."""
    page = Path(__file__).parents[2] / "docs" / "explorer.html"
    assert page.stat().st_size < 3_000_000
    fresh_browser.size(390, 800)
    fresh_browser.open(page.as_uri())
    assert fresh_browser.run("document.documentElement.scrollWidth") == 390, "it fits a phone"
    assert fresh_browser.run("document.getElementById('board').scrollWidth") <= 390
    right = (
        "(model, stage) => { let n = 0; for (let i = 0; i < 205; i++) n += internalize.answer("
        "(i * 209987).toString(3).padStart(16, '0'), stage, null, model).right; return n / 205; }"
    )
    internalized, first, out_loud, answer_only, by_hand = fresh_browser.run(
        f"(() => {{ const f = {right}; return [f(0, 16), f(0, 1), f(1, 1), f(2, 1), f(3, 1)]; }})()"
    )
    assert min(internalized, first, out_loud) > 0.95
    assert 0.2 < answer_only < 0.5
    assert by_hand == 1


def test_the_page_of_the_documentation_has_todays_scripts() -> None:
    """To renew it: python -m tests.explorer.renew docs/explorer.html"""
    page = (Path(__file__).parents[2] / "docs" / "explorer.html").read_text(encoding="utf-8")
    assert renewed(page) == page
