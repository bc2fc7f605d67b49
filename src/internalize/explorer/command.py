"""`internalize explore`: one page in which trained models answer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from internalize.configs.trust import TrustOption
from internalize.display.terminal import errors_console
from internalize.errors import require
from internalize.explorer.page import write_explorer
from internalize.explorer.subject import last_run, open_subject

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET_BROWSER = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@dataclass(frozen=True)
class ExploreArguments(TrustOption):
    """Write one HTML file in which the models of runs answer, stage by stage. It opens from disk, needs no
    server and makes no request. Several runs of the same task are shown side by side."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Run folders or the beginnings of their hashes; the last finished run if none is given."""
    out: Path | None = None
    """The file to write; explorer.html in the first run's folder if not given."""
    megabytes: float = 4.0
    """About how large the weights in the page may be. Where all stages need more, some are left out evenly."""
    json: bool = False
    """Print one JSON object: the page's size, and the milliseconds to the first answer in a browser."""

    def __post_init__(self) -> None:
        require(self.megabytes > 0, "megabytes", f"must be more than 0, got {self.megabytes}")


def explore_command(arguments: ExploreArguments) -> None:
    runs = arguments.runs or (last_run(),)
    out = open_subject(runs[0]).path / "explorer.html" if arguments.out is None else arguments.out
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
    print(f"{out.resolve()}\n{describe(out.stat().st_size, models)}")


def describe(size: int, models: list[dict[str, object]]) -> str:
    live = sum(model["kind"] != "recorded" for model in models)
    recorded = len(models) - live
    models_answer = "1 model answers" if live == 1 else f"{live} models answer"
    text = f"{size / 1e6:.1f} MB; {models_answer} in the page"
    return text + (f", {recorded} too large for it, with recorded answers" if recorded else "")


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
