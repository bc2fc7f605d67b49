"""One self-contained HTML file out of the bundle: no server, no request, nothing but its own code may run."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from internalize.configs.outputs import make_folder, write_output
from internalize.errors import BadInput, require
from internalize.explorer.bundle import Bundle, Progress, make_bundle
from internalize.explorer.subject import open_subject

SCRIPTS = ("model.js", "construction.js", "drawing.js", "board.js", "panels.js", "view.js")


def asset(name: str) -> str:
    return (files("internalize.explorer") / "assets" / name).read_text(encoding="utf-8")


def explorer_page(bundle: Bundle) -> str:
    """The page. Whatever comes from a run stands in it as data: text that is shown and never executed."""
    script = "\n".join(asset(name) for name in SCRIPTS)
    style = asset("style.css")
    title = f"{bundle.data['task']['name']}, T = {bundle.data['task']['horizon']}: the explorer"
    parts = {
        "POLICY": policy(script, style),
        "TITLE": html.escape(title),
        "STYLE": style,
        "DATA": "\n".join([data_block(bundle.data), *(bytes_block(*block) for block in bundle.blocks.items())]),
        "SCRIPT": script,
    }
    page = asset("page.html")
    pieces = []
    for name, content in parts.items():  # in their order in the page, so that no content is searched again
        before, _, page = page.partition(f"<!--{name}-->")
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
    require(out.suffix in (".html", ".htm"), "out", f"must be a file that ends in .html, got {out}")
    bundle = make_bundle([open_subject(run) for run in runs], megabytes, progress)
    make_folder(out.parent)
    try:
        write_output(out, explorer_page(bundle))
    except OSError as error:
        raise BadInput("out", f"cannot write {out}: {error.strerror}") from None
    return bundle
