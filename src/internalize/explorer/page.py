"""One self-contained HTML file out of the bundle: no server, no request, nothing but its own code may run."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import tyro

from internalize.configs.files import make_folder, write_output
from internalize.configs.named import TrustOption
from internalize.contract import Row, RunState, still_speaking
from internalize.display.terminal import errors_console, plain
from internalize.errors import BadInput, require
from internalize.runs.commands import Selection
from internalize.runs.folder import Run
from internalize.runs.index import Entry, Store
from internalize.runs.listing import last_measurements
from internalize.runs.location import find_folders, runs_folder
from internalize.runs.storage import read_rows

if TYPE_CHECKING:
    from internalize.explorer.bundle import Bundle, Progress

SCRIPTS = ("model.js", "construction.js", "drawing.js", "board.js", "panels.js", "view.js")
TEXT_SCRIPTS = ("drawing.js", "text.js")


def asset(name: str) -> str:
    return (files("internalize.explorer") / "assets" / name).read_text(encoding="utf-8")


def explorer_page(bundle: Bundle) -> str:
    """The page. Whatever comes from a run stands in it as data: text that is shown and never executed."""
    if "rows" in bundle.data:
        return fill("text.html", f"{bundle.data['data']}: the explorer", TEXT_SCRIPTS, data_block(bundle.data))
    title = f"{bundle.data['task']['name']}, T = {bundle.data['task']['horizon']}: the explorer"
    blocks = [data_block(bundle.data), *(bytes_block(*block) for block in bundle.blocks.items())]
    return fill("page.html", title, SCRIPTS, "\n".join(blocks))


def fill(name: str, title: str, scripts: Sequence[str], data: str) -> str:
    """The frame of that name with its title, style, data and scripts."""
    script, style = "\n".join(asset(part) for part in scripts), asset("style.css")
    parts = {
        "POLICY": policy(script, style),
        "TITLE": html.escape(title),
        "STYLE": style,
        "DATA": data,
        "SCRIPT": script,
    }
    page, pieces = asset(name), []
    for mark, content in parts.items():  # in their order in the page, so that no content is searched again
        before, _, page = page.partition(f"<!--{mark}-->")
        pieces += [before, content]
    return "".join([*pieces, page])


def policy(script: str, style: str) -> str:
    """Only this very script and style, known by their hashes; no requests, no frames, no forms."""
    return (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def data_block(data: object) -> str:
    """JSON in which no text can end its element or begin another one."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return f'<script type="application/json" id="data">{text}</script>'


def bytes_block(name: str, content: str) -> str:
    return f'<script type="text/plain" id="{name}">{content}</script>'


def write_explorer(
    runs: Sequence[Path | str], out: Path, megabytes: float = 4.0, progress: Progress = lambda _: None
) -> Bundle:
    """Write the page in which these runs answer; the first is the one that is looked at first."""
    require(out.suffix in (".html", ".htm"), "page", f"must be a file that ends in .html, got {out}")
    bundle = bundle_of(runs, megabytes, progress)
    make_folder(out.parent)
    try:
        write_output(out, explorer_page(bundle))
    except OSError as error:
        raise BadInput("page", f"cannot write {out}: {error.strerror}") from None
    return bundle


def bundle_of(runs: Sequence[Path | str], megabytes: float, progress: Progress) -> Bundle:
    """Of chains the models themselves, of text what they answered; one page shows one kind."""
    from internalize.analysis.open_run import open_run
    from internalize.explorer.bundle import make_bundle
    from internalize.explorer.subject import open_subject
    from internalize.explorer.text import make_text_bundle
    from internalize.kinds.text.open_text import OpenText

    opened = [open_run(run, "cpu") for run in runs]
    texts = [run for run in opened if isinstance(run, OpenText)]
    if not texts:
        return make_bundle([open_subject(run) for run in runs], megabytes, progress)
    strangers = [run.title for run in opened if not isinstance(run, OpenText)]
    require(not strangers, "run", f"one page shows one kind: {', '.join(strangers)} is no run of text")
    return make_text_bundle(texts, progress)


POINTS = 40
"""Of a curve: more cannot be told apart in a small picture."""
CURVES = (
    ("id_target_accuracy", "id_accuracy", "accuracy", "raw_accuracy"),
    ("ood_target_accuracy", "ood_accuracy"),
)
"""Which entries of an evaluation are shown: the first of each group that is there."""

Json = dict[str, Any]


@dataclass(frozen=True)
class RunsPageArguments(TrustOption):
    """Write one page with all runs: filter and sort them, point at one to see its curve, open its explorer."""

    which: Annotated[Selection, tyro.conf.arg(name="")] = field(default_factory=Selection)
    page: Path | None = None
    """The file to write; index.html in the folder of the runs if not given."""
    explorers: bool = False
    """Write an explorer first for each finished run that has none; this takes some seconds for each."""


def runs_page_command(arguments: RunsPageArguments) -> None:
    out = arguments.which.out
    page = out / "index.html" if arguments.page is None else arguments.page
    require(page.suffix in (".html", ".htm"), "page", f"must be a file that ends in .html, got {page}")
    entries = arguments.which.entries()
    make_folder(page.parent, "page")
    if arguments.explorers:
        write_missing_explorers(entries, out)
    try:
        write_output(page, runs_page(entries, out, page.parent))
    except OSError as error:
        raise BadInput("page", f"cannot write {page}: {error.strerror}") from None
    print(f"{len(entries):,} run{'' if len(entries) == 1 else 's'}: {page.resolve()}")


def write_missing_explorers(entries: list[Entry], out: Path) -> None:
    """The explorer of every finished run that has none. What cannot be explored is named and left out."""
    console = errors_console()
    for entry in entries:
        page = out / entry.path / "explorer.html"
        if entry.state != "done" or page.exists():
            continue
        try:
            with console.status(f"explore {entry.path}") as status:
                write_explorer([out / entry.path], page, progress=status.update)
        except BadInput as error:
            console.print(f"{entry.path}: no explorer ({error})", markup=False, highlight=False)


def runs_page(entries: list[Entry], out: Path, beside: Path) -> str:
    """The page; `beside` is the folder that it will stand in, for the links to the explorers."""
    so_far = last_measurements(entries, out)
    rows = [describe(entry, out, beside, so_far.get(entry.path, {})) for entry in entries]
    data = data_block({"runs": rows, "folder": out.name})
    return fill("index.html", f"{len(entries):,} runs", ("drawing.js", "index.js"), data)


def describe(entry: Entry, out: Path, beside: Path, so_far: Row) -> Json:
    """One run as the table shows it, with its curve. so_far: what was measured last, if it is not finished."""
    folder = out / entry.path
    first, second = (_first_number(so_far, names) for names in CURVES)
    tokens = _first_number(so_far | entry.summary, ("response_length", "id_response_length"))
    return {
        "run": entry.path,
        "kind": entry.kind,
        "task": entry.task,
        "T": entry.horizon,
        "method": entry.method,
        "seed": entry.seed,
        "state": entry.state,
        "id": first if so_far else entry.accuracy,
        "ood": second if so_far else entry.ood_accuracy,
        "stage": so_far.get("stage"),
        "tokens": tokens,
        "speaks": bool(still_speaking(entry.summary)),
        "seconds": entry.seconds,
        "message": entry.message,
        "internalized": entry.summary.get("internalized"),
        "curve": curve_of(folder),
        "explorer": link_to(folder / "explorer.html", beside),
    }


def curve_of(folder: Path) -> list[list[float | None]]:
    """[iteration or other step, first accuracy, second accuracy] of at most `POINTS` evaluations."""
    try:
        rows = [row for row in read_rows(folder / "metrics.jsonl") if row.get("event") == "evaluation"]
    except (OSError, ValueError):
        return []
    keep = {round(i * (len(rows) - 1) / (POINTS - 1)) for i in range(POINTS)} if len(rows) > POINTS else None
    points = []
    for place, row in enumerate(rows):
        if keep is None or place in keep:
            values = [_first_number(row, names) for names in CURVES]
            points.append([row.get("iteration", row.get("step", place)), *values])
    return points


def _first_number(row: Row, names: Sequence[str]) -> float | None:
    return next((value for name in names if isinstance(value := row.get(name), float)), None)


def link_to(page: Path, beside: Path) -> str | None:
    """A relative address, where the page is there and below the folder of the index."""
    if not page.is_file():
        return None
    try:
        return quote(page.resolve().relative_to(beside.resolve()).as_posix())
    except ValueError:
        return page.resolve().as_uri()


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET_BROWSER = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@dataclass(frozen=True)
class ExploreArguments(TrustOption):
    """Write one HTML file in which the models of runs answer, stage by stage. It opens from disk, needs no
    server and makes no request. Several runs of the same task are shown side by side."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN [RUN ...]]")] = ()
    """The runs: folders, unique parts of their names, beginnings of their hashes, patterns such as 'C7-*', or
    latest. The last finished run if none is given."""
    page: Annotated[Path | None, tyro.conf.arg(aliases=("--out",), metavar="FILE")] = None
    """The page to write; explorer.html in the first run's folder if not given."""
    megabytes: float = 4.0
    """About how large the weights in the page may be. Where all stages need more, some are left out evenly."""
    json: bool = False
    """Print one JSON object: the page's size, and the milliseconds to the first answer in a browser."""

    def __post_init__(self) -> None:
        require(self.megabytes > 0, "megabytes", f"must be more than 0, got {self.megabytes}")


def explore_command(arguments: ExploreArguments) -> None:
    runs = find_folders(arguments.runs, "runs") or (last_run(),)
    out = Run.open(runs[0]).path / "explorer.html" if arguments.page is None else arguments.page
    with errors_console().status("explore") as status:
        bundle = write_explorer(runs, out, arguments.megabytes, status.update)
    models = bundle.data["models"]
    if arguments.json:
        browser = find_browser()
        found = {
            "page": str(out),
            "bytes": out.stat().st_size,
            "models": [
                {"run": m["title"], "kind": m["kind"], "stages": [s["stage"] for s in m["stages"]]}
                | {"precision": m.get("precision"), "agreement": m.get("agreement")}
                for m in models
            ],
            "first_answer_ms": None if browser is None else time_to_first_answer(out, browser),
        }
        print(json.dumps(found))
        return
    titles = plain(", ".join(str(model["title"]) for model in models))
    print(f"{out.resolve()}\n{size_and_models(out.stat().st_size, models)}: {titles}")


def last_run(out: Path | None = None) -> Path:
    """The run of chains or of text below `out` that was begun last and has a model."""
    out = runs_folder() if out is None else out
    require(out.is_dir(), "run", f"name a run: there is no folder {out} in which to look for the last one")
    kinds = ("chain", "text")
    runs = [entry for entry in Store(out).entries() if entry.kind in kinds and entry.state == RunState.DONE]
    require(bool(runs), "run", f"name a run: {out} holds no finished run of the kind `chain` or `text`")
    return out / max(runs, key=lambda entry: entry.created or "").path


def size_and_models(size: int, models: list[dict[str, object]]) -> str:
    live = sum(model["kind"] != "recorded" for model in models)
    recorded = len(models) - live
    models_answer = "1 model answers" if live == 1 else f"{live} models answer"
    said = [f"{models_answer} in the page"] if live else []
    said += [f"{recorded} with recorded answers"] if recorded else []
    return f"{size / 1e6:.1f} MB; {', '.join(said)}"


def find_browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def time_to_first_answer(page: Path, browser: str) -> float | None:
    """Milliseconds from opening the page to its first answer, as the page itself measures them."""
    with tempfile.TemporaryDirectory() as profile:
        flags = [*QUIET_BROWSER, f"--user-data-dir={profile}", "--dump-dom", page.resolve().as_uri()]
        try:
            done = subprocess.run([browser, *flags], capture_output=True, text=True, timeout=120, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
    found = re.search(r'data-first-answer="([\d.]+)"', done.stdout)
    return float(found[1]) if found else None
