"""The frame of every HTML page: self-contained, light and dark, readable on a phone and in print."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from typing import Literal

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2126; --paper: #ffffff; --soft: #5b6470; --line: #d9dde3;
        --card: #f6f7f9; --good: #00704f; --bad: #b04a00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --paper: #16191d; --soft: #9aa3ae; --line: #343a42; --card: #1f2329;
          --good: #4cc9a0; --bad: #ff9d5c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
p.lead { color: var(--soft); font-size: 1.05rem; margin-top: 0; }
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
.statement { border-left: .3rem solid var(--line); padding: .1rem 0 .1rem .8rem; margin: .8rem 0; }
.statement p { margin: .15rem 0; }
.statement p.fine { color: var(--soft); font-size: .88rem; overflow-wrap: anywhere; }
.statement.good { border-color: var(--good); color: inherit; } .statement.good strong { color: var(--good); }
.statement.bad { border-color: var(--bad); color: inherit; } .statement.bad strong { color: var(--bad); }
details { margin: .8rem 0; } summary { cursor: pointer; color: var(--soft); }
nav ul { padding-left: 1.2rem; columns: 16rem; } a { color: inherit; }
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
        f'<h1>{html.escape(title)}</h1>\n<p class="lead">{html.escape(lead)}</p>\n'
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


def png_image(content: bytes, alt: str) -> str:
    """A picture as an image, within which no browser runs scripts or fetches anything."""
    data = base64.b64encode(content).decode("ascii")
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{data}">'


def figure(picture: str, caption: str) -> str:
    """picture: an <svg> that was drawn in this process, or a `png_image`."""
    return f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def preformatted(text: str) -> str:
    return f"<pre><code>{html.escape(text)}</code></pre>"
