"""The frame of every HTML page: self-contained, light and dark, readable on a phone and in print."""

from __future__ import annotations

import base64
import html
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from internalize.contract import Row, RunState, Stage
from internalize.display.live import Watched, placed, rows_so_far, step_of
from internalize.display.terminal import Pace, own_target, percent

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #ffffff; --soft: #5f6973; --line: #e2e5e9;
        --card: #f6f7f8; --good: #0072b2; --bad: #b84a00;
        --serif: "Charter", "Iowan Old Style", "Source Serif Pro", "Palatino Linotype", Georgia,
                 "DejaVu Serif", serif; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7eaed; --paper: #15181b; --soft: #9ba5ae; --line: #2d3338; --card: #1c2024;
          --good: #56b4e9; --bad: #ff9550; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
       font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: 1.7rem 1.25rem 3rem; }
.kicker { margin: 0; color: var(--good); font-size: .82rem; letter-spacing: .03em; }
h1 { font: 600 2.15rem/1.15 var(--serif); letter-spacing: -.01em; margin: .15rem 0 .5rem;
     overflow-wrap: anywhere; }
h2 { font: 600 1.25rem/1.25 var(--serif); margin: 2.2rem 0 .6rem; }
p.lead, p.told { font: 1.08rem/1.5 var(--serif); max-width: 46rem; margin-top: 0; text-wrap: pretty; }
p.told strong { color: var(--good); }
a.open { display: inline-block; background: var(--good); color: var(--paper); text-decoration: none;
         border-radius: 7px; padding: .45rem 1rem; margin: .3rem 0 .6rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
th { font-weight: 600; color: var(--soft); font-size: .88rem; }
figure { margin: 1rem 0; padding: .75rem; background: var(--card); border-radius: .5rem; }
figure svg, figure img { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .5rem; }
pre { overflow-x: auto; background: var(--card); border-radius: .5rem; padding: .8rem; font-size: .85rem; }
code { font-size: .92em; }
footer { color: var(--soft); font-size: .85rem; margin-top: 3rem; border-top: 1px solid var(--line);
         padding-top: .8rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
.word { display: inline-block; min-width: 7rem; padding: .1rem .6rem; border-radius: 1rem;
        border: 1px solid var(--line); text-align: center; font-size: .85rem; color: var(--soft); }
.word.good { background: var(--good); border-color: var(--good); color: var(--paper); font-weight: 600; }
.word.bad { background: var(--bad); border-color: var(--bad); border-radius: .25rem; color: var(--paper);
            font-weight: 600; }
.word.good.faint { background: none; color: var(--good); }
.word.bad.faint { background: none; color: var(--bad); }
.word.open { border-style: dashed; color: var(--ink); }
.statement { border-left: .3rem solid var(--line); padding: .1rem 0 .1rem .8rem; margin: .8rem 0; }
.statement p { margin: .15rem 0; }
.statement p.fine { color: var(--soft); font-size: .88rem; overflow-wrap: anywhere; }
.statement.good { border-color: var(--good); color: inherit; } .statement.good strong { color: var(--good); }
.statement.bad { border-color: var(--bad); color: inherit; } .statement.bad strong { color: var(--bad); }
details { margin: .8rem 0; } summary { cursor: pointer; color: var(--soft); }
nav ul { padding-left: 1.2rem; columns: 16rem; } a { color: inherit; }
@media (max-width: 40rem) { main { padding: 1.2rem .8rem 2rem; } h1 { font-size: 1.7rem; }
  th, td { padding: .35rem .3rem; font-size: .84rem; line-height: 1.35; white-space: normal; }
  .word { min-width: 0; padding: .05rem .35rem; font-size: .76rem; } }
@media print { .statement, h2 { break-inside: avoid; break-after: avoid; } nav { display: none; } }
@media print { main { max-width: none; padding: 0; } figure { break-inside: avoid; background: none; } }
"""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a page of ours may do: show its own styles and the images within it. No script runs, nothing is fetched,
whatever text from elsewhere has come into it."""


def page(title: str, lead: str, sections: Sequence[str], footer: str) -> str:
    """A whole document. `sections` are HTML made with the functions below; the other texts are plain."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<p class="kicker">Learning through internalization</p>\n<h1>{html.escape(title)}</h1>\n'
        f'<p class="lead">{html.escape(lead)}</p>\n'
        + "\n".join(sections)
        + f"\n<footer>{html.escape(footer)}</footer>\n</main>\n</body>\n</html>\n"
    )


def heading(text: str, anchor: str | None = None) -> str:
    place = f' id="{html.escape(anchor)}"' if anchor else ""
    return f"<h2{place}>{html.escape(text)}</h2>"


def contents(entries: Mapping[str, str]) -> str:
    """Links within the page: anchor → text."""
    items = (f'<li><a href="#{html.escape(to)}">{html.escape(text)}</a></li>' for to, text in entries.items())
    return f"<nav><ul>{''.join(items)}</ul></nav>"


def statement(word: str, text: str, fine_print: Sequence[str], mood: Literal["good", "bad", ""] = "") -> str:
    """A word that judges, what it judges, and smaller lines below."""
    fine = "".join(f'<p class="fine">{html.escape(line)}</p>' for line in fine_print)
    told = f"<p><strong>{html.escape(word)}</strong>: {html.escape(text)}</p>"
    return f'<div class="statement {mood}">{told}{fine}</div>'


def details(summary: str, content: str) -> str:
    """HTML that is folded away until somebody asks."""
    return f"<details><summary>{html.escape(summary)}</summary>{content}</details>"


def paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def told(word: str, text: str) -> str:
    """A paragraph of a story, with the word that it is about in front."""
    return f'<p class="told"><strong>{html.escape(word)}</strong> {html.escape(text)}</p>'


def link(address: str, text: str) -> str:
    """A way to another page, as a button."""
    return f'<p><a class="open" href="{html.escape(address)}">{html.escape(text)}</a></p>'


def png_image(content: bytes, alt: str) -> str:
    """A picture as an image, within which no browser runs scripts or fetches anything."""
    data = base64.b64encode(content).decode("ascii")
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{data}">'


def figure(picture: str, caption: str) -> str:
    """picture: an <svg> that was drawn in this process, or a `png_image`."""
    return f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], moods: Sequence[str] = ()) -> str:
    """moods: for each row a class for its last cell, which judges: good, bad, open; and faint beside these."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = ""
    for i, row in enumerate(rows):
        cells = [f"<td>{html.escape(cell)}</td>" for cell in row]
        if moods:
            cells[-1] = f'<td><span class="word {html.escape(moods[i])}">{html.escape(row[-1])}</span></td>'
        body += f"<tr>{''.join(cells)}</tr>"
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def preformatted(text: str) -> str:
    return f"<pre><code>{html.escape(text)}</code></pre>"


RENEWED = 3.0
"""Seconds between two versions of the page."""
STYLES = (("#0072B2", ""), ("#D55E00", "6 4"), ("#009E73", "2 3"), ("#CC79A7", "8 3 2 3"))
"""Colour and dashes of the first line, the second, …"""
LOSSES = {"loss": ("mean", "#0072B2", ""), "worst_loss": ("worst answer position", "#D55E00", "6 4")}
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 200, 56, 24

NAME = "live.html"


class LivePage:
    """An observer that writes the page `live.html` into the run's folder, and changes nothing else."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self._folder = Path()
        self._rows: list[Mapping[str, Any]] = []
        self._losses: tuple[tuple[str, float], ...] = ()
        self._said: Sequence[Sequence[str]] = ()
        self._pace = Pace()
        self._written = 0.0
        self._unit = ""

    def begin(self, folder: Path, stage: Stage) -> None:
        self._folder, self._unit = folder, stage.unit
        self._rows += rows_so_far(folder)
        self._ask()
        self._write(stage, "running")

    def stepped(self, stage: Stage) -> None:
        self._pace.mark(stage.step)
        if stage.just_ended:  # by now the stage's weights may be kept
            self._ask()

    def row(self, row: Row, stage: Stage) -> None:
        self._rows.append(placed(row, stage))
        self._losses = stage.losses
        evaluated = row.get("event") == "evaluation"
        if evaluated:
            self._ask()
        if evaluated or time.monotonic() - self._written > RENEWED:
            self._write(stage, "running")

    def end(self, state: RunState, summary: Row) -> None:
        self._ask()
        self._write(None, state)

    def _ask(self) -> None:
        if self.watched.answers is not None:
            self._said = self.watched.answers(self._folder)

    def _write(self, stage: Stage | None, state: str) -> None:
        self._written = time.monotonic()
        text = live_page(
            self.watched, state, stage, self._rows, self._losses, self._said, self._pace, self._unit
        )
        unfinished = self._folder / f".{NAME}.new"
        unfinished.unlink(missing_ok=True)  # a link of this name would lead elsewhere
        with unfinished.open("x", encoding="utf-8") as file:
            file.write(text)
        unfinished.replace(self._folder / NAME)  # a browser never sees half a page


def live_page(
    watched: Watched,
    state: str,
    stage: Stage | None,
    rows: Sequence[Mapping[str, Any]],
    losses: Sequence[tuple[str, float]],
    said: Sequence[Sequence[str]],
    pace: Pace,
    unit: str,
) -> str:
    """The whole document; while the run goes on, it asks to be loaded again. unit: what its steps are."""
    lead = state
    if stage is not None:
        where = f"{stage.step:,} of {stage.steps:,} {stage.unit}"
        lead = f"stage {stage.index} of {stage.total} ({stage.label}), {where}"
        lead += f", {pace.left(stage)}" if pace.rate() else ""
    trained = [row for row in rows if row.get("event") == "train"]
    measured = [row for row in rows if row.get("event") == "evaluation"]
    accuracies = _accuracies(watched)
    sections = []
    if accuracies:
        sections += [
            heading("Right answers"),
            figure(curve(measured, accuracies, 1.0, unit, watched.chance), _told(accuracies, watched.chance)),
        ]
    both = "Mean over the answer, and at its worst position (dashed)."
    told = both if any("worst_loss" in row for row in trained) else "Mean since the row before."
    sections += [heading("Loss"), figure(curve(trained, LOSSES, None, unit), told)]
    if losses:
        sections += [
            heading("Loss by position in the answer"),
            figure(position_bars(losses), _positions(losses)),
        ]
    if measured and accuracies:
        sections += [heading("Stage by stage"), _stages(measured, accuracies, unit)]
    if said:
        judged = [[*row, "right" if row[-2] == row[-1] else "wrong"] for row in said]
        moods = ["good faint" if row[-1] == "right" else "bad faint" for row in judged]
        sections += [heading("What it says"), table(["stage", "input", "answer", "truth", ""], judged, moods)]
    text = page(watched.title, lead, sections, f"{time.strftime('%Y-%m-%d %H:%M:%S')}; {state}")
    if stage is None:
        return text
    return text.replace("<head>", f'<head>\n<meta http-equiv="refresh" content="{RENEWED:.0f}">', 1)


Lines = Mapping[str, tuple[str, str, str]]
"""Entry of a row → the line's name, its colour and its dashes."""


def _accuracies(watched: Watched) -> Lines:
    """The shares of right answers among what the kind wants to be seen."""
    keys = [key for key in watched.headline if key.endswith("accuracy")]
    return {key: (watched.headline[key], *style) for key, style in zip(keys, STYLES, strict=False)}


def _told(accuracies: Lines, chance: float | None) -> str:
    meanings = {"id_accuracy": "as in training (ID)", "ood_accuracy": "unlike it (OOD, dashed)"}
    if set(accuracies) <= set(meanings):
        shares = " " + " and ".join(meanings[key] for key in accuracies)
    else:
        shares = ": " + ", ".join(
            f"{name}{' (dashed)' if dash else ''}" for name, _, dash in accuracies.values()
        )
    across = " A dotted line across: chance, always the commonest answer." if chance is not None else ""
    return f"Share of right answers{shares}. A dotted line up: a stage ends.{across}"


def _stages(measured: Sequence[Mapping[str, Any]], accuracies: Lines, unit: str) -> str:
    """The last measurement of every stage, with its own target where that is not the final answer."""
    last = {row.get("stage", 1): row for row in measured}
    targets = {stage: own_target(row, "id_accuracy") for stage, row in last.items()}
    other = any(target is not None for target in targets.values())
    rows = [
        [
            str(stage),
            f"{step_of(row):,}",
            *(percent(row.get(key)) for key in accuracies),
            *([percent(targets[stage])] if other else []),
        ]
        for stage, row in last.items()
    ]
    names = [name for name, _, _ in accuracies.values()]
    return table(["stage", unit, *names, *(["ID, own target"] if other else [])], rows)


WIDEST = 56.0
"""Of a bar."""


def _positions(losses: Sequence[tuple[str, float]]) -> str:
    """The caption: what the names of the positions mean."""
    text = "Since the last row of metrics. An adaptive schedule waits for the highest bar, in the other colour."
    if any(name == "→" for name, _ in losses):
        return f"{text} Numbers: places in the chain. →: the answer begins. a1: its first token."
    return f"{text} q3 is the third state." if losses[0][0].startswith("q") else text


def position_bars(losses: Sequence[tuple[str, float]]) -> str:
    """One bar for each position as an <svg>; the highest has the colour of what is worst."""
    high = max(*(loss for _, loss in losses), 1e-9)
    step = min((WIDTH - LEFT - 8) / len(losses), WIDEST)
    every = -(-len(losses) * 28 // (WIDTH - LEFT))
    parts = []
    for value in (0.0, high / 2, high):
        y = 8 + (HEIGHT - 8 - BOTTOM) * (1 - value / high)
        parts.append(_line(LEFT, y, WIDTH - 8, y, "currentColor", 'stroke-opacity=".15"'))
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.2g}</text>')
    for i, (name, loss) in enumerate(losses):
        tall = (HEIGHT - 8 - BOTTOM) * loss / high
        colour = LOSSES["worst_loss" if loss == high else "loss"][1]
        x = LEFT + i * step
        told = html.escape(f"{name}: {loss:.3g}")
        parts.append(
            f'<rect x="{x + 0.1 * step:.1f}" y="{HEIGHT - BOTTOM - tall:.1f}" width="{0.8 * step:.1f}" '
            f'height="{tall:.1f}" fill="{colour}"><title>{told}</title></rect>'
        )
        if i % every == 0 or i == len(losses) - 1:
            middle = f'x="{x + step / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle"'
            parts.append(f"<text {middle}>{html.escape(name)}</text>")
    label = html.escape(", ".join(f"{name} {loss:.3g}" for name, loss in losses))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="loss by position: {label}" '
        f'font-size="12" fill="currentColor">{"".join(parts)}</svg>'
    )


def curve(
    rows: Sequence[Mapping[str, Any]],
    lines: Lines,
    top: float | None,
    unit: str,
    chance: float | None = None,
) -> str:
    """Lines over steps as an <svg>; top: the largest value, found if None. chance: where to draw it."""
    known = [row for row in rows if any(isinstance(row.get(key), float) for key in lines)]
    if not known:
        return "<p>Nothing was measured yet.</p>"
    values = [row[key] for row in known for key in lines if isinstance(row.get(key), float)]
    high = top if top is not None else max(*values, 1e-9)
    last = max(map(step_of, known)) or 1

    def x(row: Mapping[str, Any]) -> float:
        return LEFT + (WIDTH - LEFT - 8) * step_of(row) / last

    def y(value: float) -> float:
        return 8 + (HEIGHT - 8 - BOTTOM) * (1 - value / high)

    parts = []
    for value in (0.0, high / 2, high):
        name = percent(value) if top is not None else f"{value:.3g}"
        parts.append(_line(LEFT, y(value), WIDTH - 8, y(value), "currentColor", 'stroke-opacity=".15"'))
        parts.append(
            f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{html.escape(name)}</text>'
        )
    if chance is not None:
        parts.append(_line(LEFT, y(chance), WIDTH - 8, y(chance), "currentColor", 'stroke-dasharray="2 3"'))
    for before, after in pairwise(known):
        if before.get("stage") != after.get("stage"):
            parts.append(
                _line(x(before), 8, x(before), HEIGHT - BOTTOM, "currentColor", 'stroke-dasharray="1 4"')
            )
    for key, (name, colour, dash) in lines.items():
        points = " ".join(f"{x(row):.1f},{y(row[key]):.1f}" for row in known if isinstance(row.get(key), float))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}">'
            f"<title>{html.escape(name)}</title></polyline>"
        )
    parts.append(
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">{last:,} {html.escape(unit)}</text>'
    )
    keys = ", ".join(f"{name}{' (dashed)' if dash else ''}" for name, _, dash in lines.values())
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(keys)} over training" '
        f'font-size="12" fill="currentColor">{"".join(parts)}</svg>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'
