"""RUN/model in Hugging Face's layout, and a task file by which others verify the result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from internalize.kinds.text.config import HELD_OUT
from internalize.kinds.text.evaluation import chosen_rows, kept_of
from internalize.kinds.text.tokenization import ANSWER, CHAIN, END, budget_name

if TYPE_CHECKING:
    from torch import nn

    from internalize.kinds.text.experiment import TextExperiment
    from internalize.kinds.text.rendering import CutRow

TASK_FILE = "lm_eval_task.yaml"
ROWS_FILE = "lm_eval_rows.jsonl"
MOST_ROWS = 2_000
"""Rows that stand beside the model for others to measure on."""
ABOUT_FILE = "internalize.json"


def folder_files(experiment: TextExperiment, model: nn.Module) -> dict[str, str]:
    """The text files beside model.safetensors: file name → content."""
    whole: Any = model
    tokenizer = experiment.material.tokenizer
    markers = tokenizer.markers
    config = whole.config.to_dict()
    config |= {
        "architectures": [type(model).__name__],
        "bos_token_id": None,
        "eos_token_id": markers.end,
        "pad_token_id": markers.pad,
        "dtype": "float32",
    }
    left_out = ("_name_or_path", "transformers_version")  # where it was built, and by what
    config = {name: value for name, value in config.items() if name not in left_out}
    generation = {"eos_token_id": markers.end, "pad_token_id": markers.pad, "do_sample": False}
    contents: dict[str, Any] = {
        "config.json": config,
        "generation_config.json": generation,
        ABOUT_FILE: _about(experiment),
    }
    files = {name: json.dumps(value, indent=2, ensure_ascii=False) + "\n" for name, value in contents.items()}
    return {**files, **tokenizer.files(), **task_files(experiment)}


def _about(experiment: TextExperiment) -> dict[str, Any]:
    """How the model is asked, for whoever has only this folder."""
    renderer, curriculum = experiment.material.renderer, experiment.curriculum
    return {
        "prompt": f"{{question}}{CHAIN}{budget_name(0) if curriculum.budgets else ''}",
        "answer_after": ANSWER if renderer.boundary == "marker" else None,
        "end": END,
        "budgets": list(curriculum.budgets),
        "longest": experiment.material.limit,
        "method": experiment.config.method,
        "unit": experiment.config.unit,
    }


def task_files(experiment: TextExperiment) -> dict[str, str]:
    """A task of lm-evaluation-harness and its rows: greedy, until the end marker, exact match of the answer.

    The rows stand beside the model: whoever has the folder can measure, and measures what the run measured.
    Nothing is written where positions are kept: generation outside of this package does not know them.
    """
    material = experiment.material
    if material.renderer.positions == "kept":
        return {}
    most = min(experiment.config.evaluation.final_rows or MOST_ROWS, MOST_ROWS)
    rows = chosen_rows(experiment, HELD_OUT, most)
    lines = [json.dumps(_row(experiment, row), ensure_ascii=False) for row in rows]
    return {TASK_FILE: _task(experiment, len(rows)), ROWS_FILE: "\n".join([*lines, ""])}


def _row(experiment: TextExperiment, row: CutRow) -> dict[str, str]:
    """The whole prompt, markers and pauses included, and the right answer."""
    renderer, tokenizer = experiment.material.renderer, experiment.material.tokenizer
    curriculum = experiment.curriculum
    budget = 0 if curriculum.budgets else None
    prompt = renderer.prompt(row, kept_of(experiment, row, curriculum.stages, budget), budget)
    own = len(tokenizer.prefix)  # what a tokenizer puts before every text it will put there again
    question, markers = prompt[own : len(row.question)], prompt[len(row.question) :]
    told = "".join(tokenizer.library.convert_ids_to_tokens(markers))
    return {"prompt": f"{tokenizer.decode(question)}{told}", "answer": tokenizer.decode(row.answer)}


def _task(experiment: TextExperiment, rows: int) -> str:
    """Plain text, so that the library yaml is not needed here."""
    material = experiment.material
    marked = material.renderer.boundary == "marker"
    after = f",think_end_token={material.tokenizer.markers.answer}" if marked else ""
    whole = len(material.evals[HELD_OUT])
    share = f"all {rows:,}" if rows == whole else f"{rows:,} of {whole:,}"
    lines = [
        "# cd RUN/model && lm_eval --model hf --tasks internalize_answer --include_path . \\",
        f"#   --model_args pretrained=.{after}",
        f"# {ROWS_FILE} has {share} rows that the run was measured on ({HELD_OUT}).",
        *([f"# think_end_token is {ANSWER}: what stands before it is the chain."] if marked else []),
        "task: internalize_answer",
        "dataset_path: json",
        f"dataset_kwargs: {{data_files: {{test: {ROWS_FILE}}}}}",
        "test_split: test",
        "output_type: generate_until",
        'doc_to_text: "{{prompt}}"',
        'doc_to_target: "{{answer}}"',
        "generation_kwargs:",
        f"  until: [{json.dumps(END)}]",
        f"  max_gen_toks: {material.renderer.slots}",
        "  do_sample: false",
        "metric_list:",
        "  - {metric: exact_match, aggregation: mean, higher_is_better: true}",
        "metadata: {version: 1.0}",
        "",
    ]
    return "\n".join(lines)
