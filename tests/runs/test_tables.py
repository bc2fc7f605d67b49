"""Tables for documents, against what they should look like."""

from __future__ import annotations

from internalize.runs.table import latex_table, markdown_table

HEADINGS = ["task", "runs", "succeeded_rate"]
ROWS = [["C_2|x", "3", "93.3 % [70.2, 98.8]"], ["S3 & more", "10", "–"]]


def test_markdown() -> None:
    assert markdown_table(HEADINGS, ROWS).splitlines() == [
        "| task | runs | succeeded_rate |",
        "| --- | ---: | ---: |",
        "| C_2&#124;x | 3 | 93.3 % [70.2, 98.8] |",
        "| S3 & more | 10 | – |",
    ]


def test_latex_with_the_rules_of_booktabs() -> None:
    assert latex_table(HEADINGS, ROWS, "all").splitlines() == [
        "% all",
        r"\begin{tabular}{lrr}",
        r"  \toprule",
        r"  task & runs & succeeded\_rate \\",
        r"  \midrule",
        r"  C\_2|x & 3 & 93.3 \% [70.2, 98.8] \\",
        r"  S3 \& more & 10 & -- \\",
        r"  \bottomrule",
        r"\end{tabular}",
    ]
