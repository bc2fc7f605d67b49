"""RUN/model in Hugging Face's layout, and a task file by which others verify the result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from internalize.kinds.text.tokenization import ANSWER, CHAIN, END, budget_name

if TYPE_CHECKING:
    from torch import nn

    from internalize.kinds.text.experiment import TextExperiment

TASK_FILE = "lm_eval_task.yaml"
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
    return {**files, **tokenizer.files(), TASK_FILE: task_file(experiment)}


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


def task_file(experiment: TextExperiment) -> str:
    """A task of lm-evaluation-harness: greedy, until the end marker, exact match of the answer alone.

    Plain text, so that the library yaml is not needed here. The questions' file is named by its place.
    """
    about = _about(experiment)
    config = experiment.config
    file = config.eval_files().get("id", config.data)
    question, answer = config.rows.question, config.rows.answer
    after = about["answer_after"]
    lines = [
        "# lm_eval --model hf --model_args pretrained=RUN/model --tasks internalize_answer \\",
        "#   --include_path RUN/model   (markers must stay in the text: skip_special_tokens is off below)",
        "task: internalize_answer",
        "dataset_path: json",
        f"dataset_kwargs: {{data_files: {{test: {json.dumps(file)}}}}}",
        "test_split: test",
        "output_type: generate_until",
        f"doc_to_text: {json.dumps('{{' + question + '}}' + about['prompt'].removeprefix('{question}'))}",
        f"doc_to_target: {json.dumps('{{' + answer + '}}')}",
        "generation_kwargs:",
        f"  until: [{json.dumps(END)}]",
        f"  max_gen_toks: {about['longest']}",
        "  do_sample: false",
        "  skip_special_tokens: false",
    ]
    if after is not None:
        pattern = f"{_escaped(after)}\\s*([\\s\\S]*?)\\s*(?:{_escaped(END)}|$)"
        lines += [
            "filter_list:",
            "  - name: answer",
            "    filter:",
            "      - function: regex",
            f"        regex_pattern: {json.dumps(pattern)}",
            "      - function: take_first",
        ]
    lines += ["metric_list:", "  - metric: exact_match", "    aggregation: mean", "    higher_is_better: true"]
    return "\n".join([*lines, "metadata: {version: 1.0}", ""])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
