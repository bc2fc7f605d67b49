"""How long a page takes to answer, in a real browser: python -m tests.explorer.timing docs/explorer.html"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from internalize.explorer.page import find_browser
from tests.explorer.browser import Browser

ANSWERS = 20


def answer_times(page: Path, program: str) -> list[float]:
    """Milliseconds from a new input to the answers of all models, as the page itself measures them."""
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, Path(profile))
        try:
            browser.open(page.resolve().as_uri())
            browser.wait("document.documentElement.dataset.answer !== undefined")
            times = []
            for _ in range(ANSWERS):
                browser.run("document.getElementById('random-id').click()")
                times.append(float(browser.run("document.documentElement.dataset.answer")))
            return times
        finally:
            browser.close()


if __name__ == "__main__":
    program = find_browser() or sys.exit("needs Chromium or Chrome")
    times = answer_times(Path(sys.argv[1]), program)
    print(f"median {statistics.median(times):.1f} ms of {ANSWERS}; {min(times):.1f} to {max(times):.1f} ms")
