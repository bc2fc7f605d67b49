"""The report: complete, self-contained, and without errors in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from internalize.cli import main
from internalize.figures.claim_tables import with_indices
from internalize.figures.claims import judge
from internalize.figures.figure import DrawingMaterial
from internalize.figures.paper import find_figure
from internalize.figures.results import Made, write
from tests.figures.planting import AS_CLAIMED, plant

PLANTED = ("methods", "heads")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two figures with planted outcomes, one that needs no runs, one of the smoke tier; and the page of all."""
    results = tmp_path_factory.mktemp("results")
    for name in PLANTED:
        figure = find_figure(name)
        rows = plant(figure, "laptop", AS_CLAIMED[name])
        judged = judge(figure.claims, rows)
        material = DrawingMaterial("laptop", rows, results / "no-runs")
        write(
            Made(figure, "laptop", figure.sweep("laptop"), material, ["C2 <b>: not begun"], judged),
            results / name,
        )
    for tier in ("laptop", "smoke"):
        assert main(["figure", "construction-size", "--tier", tier, "--results", str(results), "--quiet"]) == 0
    assert main(["report", "--results", str(results), "--json"]) == 0
    return results / "report.html"


def test_the_report_holds_every_figure_and_claim(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    assert text.count("<figure>") == text.count('<img alt="') == 4
    for name in PLANTED:
        for claim in find_figure(name).claims:
            assert with_indices(claim.sentence).replace("'", "&#x27;") in text
    assert "Differs from the paper: " in text
    assert "C2 &lt;b&gt;: not begun" in text
    record = json.loads((report.parent / "heads" / "verdict.json").read_text())
    assert {claim["verdict"] for claim in record["claims"]} == {"confirmed"}
    assert {claim["scale"] for claim in record["claims"]} == {"the paper's own"}
    assert record["provenance"]["processor"] in text


@pytest.mark.filterwarnings("default::internalize.errors.RunWarning")
def test_studies_stand_on_the_page_after_the_figures(
    report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What lies one folder deeper is told apart, and not counted among the figures' claims."""
    for place in ("heads", "readings/again"):
        shutil.copytree(report.parent / "heads", tmp_path / place)
    verdict = tmp_path / "readings" / "again" / "verdict.json"
    verdict.write_text(json.dumps(json.loads(verdict.read_text()) | {"figure": "again"}))
    assert main(["report", "--results", str(tmp_path), "--json"]) == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.count('id="heads"') == text.count('id="readings/again"') == 1
    assert 'href="#readings/again"' in text
    count = len(find_figure("heads").claims)
    assert f"Claims of the paper: {count} confirmed." in text
    sentence = with_indices(find_figure("heads").claims[0].sentence).replace("'", "&#x27;")
    verdict.write_text("{}")
    assert main(["report", "--results", str(tmp_path), "--json"]) == 0
    assert f"damaged: {verdict}" in capsys.readouterr().err
    assert "readings/again" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.count(f"heads: {sentence}") == text.count(f"again: {sentence}") == 1


def test_names_of_tasks_are_written_with_indices() -> None:
    assert (
        with_indices("C_2×C_8 before C_16, S3; the file C2xC8.csv")
        == "C₂×C₈ before C₁₆, S₃; the file C2xC8.csv"
    )


def test_verdicts_on_toys_are_counted_apart(report: Path, tmp_path: Path) -> None:
    for name, tier in (("heads", "laptop"), ("heads-toy", "toy")):
        shutil.copytree(report.parent / "heads", tmp_path / name)
        verdict = tmp_path / name / "verdict.json"
        verdict.write_text(json.dumps(json.loads(verdict.read_text()) | {"tier": tier}))
    assert main(["report", "--results", str(tmp_path), "--json"]) == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    number = len(find_figure("heads").claims)
    assert f"Claims of the paper: {number} confirmed, {number} at toy sizes." in text
    assert (
        text.index("All claims")
        < text.index("At toy sizes, which support no claim")
        < text.index("heads (toy tier): ")
    )


def test_a_drawing_from_elsewhere_cannot_act_in_the_page(report: Path, tmp_path: Path) -> None:
    """Pictures are images, the policy allows no script, and what is no picture is left out."""
    shutil.copytree(report.parent / "heads", tmp_path / "heads")
    evil = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script></svg>'
    for kind in ("svg", "png"):
        (tmp_path / "heads" / f"heads.{kind}").write_text(evil)
    assert main(["report", "--results", str(tmp_path), "--json"]) == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "alert" not in text
    assert "<figure>" not in text
    for page in (text, report.read_text(encoding="utf-8")):
        head = page[: page.index("</head>")]
        assert 'http-equiv="Content-Security-Policy" content="default-src \'none\';' in head
        assert "script-src" not in head


class References(HTMLParser):
    """Whatever a browser would fetch, and the anchors there are."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.anchors: set[str] = set()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name.rpartition(":")[2] in ("src", "href", "srcset", "data", "action", "poster") and value:
                self.found.append(value)
            if name == "id" and value:
                self.anchors.add(value)


def test_the_report_refers_to_nothing_outside_itself(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    references = References()
    references.feed(text)
    inside = {found.removeprefix("#") for found in references.found if found.startswith("#")}
    assert inside <= references.anchors
    others = [found for found in references.found if not found.startswith(("#", "data:image/png;base64,"))]
    assert others == []
    assert not {"script", "link", "iframe", "object", "embed", "base"} & set(references.tags)
    assert "@import" not in text
    assert set(re.findall(r"url\(\s*['\"]?(.)", text)) <= {"#"}
    hosts = set(re.findall(r"https?://[^\s\"'<>]+", text))
    assert hosts <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names of XML, not fetched


def test_the_report_opens_without_errors(report: Path, tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser here: none of {', '.join(BROWSERS)}")
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    words += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    words += ["--enable-logging=stderr", "--v=0", f"--user-data-dir={tmp_path}", "--dump-dom"]
    opened = subprocess.run(
        [browser, *words, report.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    assert "All claims" in opened.stdout
    assert "CONSOLE" not in opened.stderr
