"""Small rows and models that the tests of text share."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from internalize.kinds.text.rows import write_rows
from internalize.tasks.names import parse_task
from internalize.tasks.text.names import AutomatonProblems

SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 8},
    "llama": {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
              "num_attention_heads": 8, "num_key_value_heads": 4},
    "gpt_neox": {"model_type": "gpt_neox", "hidden_size": 32, "intermediate_size": 64,
                 "num_hidden_layers": 1, "num_attention_heads": 4},
    "bloom": {"model_type": "bloom", "hidden_size": 32, "n_layer": 1, "n_head": 4},
    "mpt": {"model_type": "mpt", "d_model": 32, "n_layers": 1, "n_heads": 4},
}  # fmt: skip
"""GPT-2 has absolute positions, Llama and GPT-NeoX rotary ones, Bloom and MPT ALiBi."""


def shape_file(folder: Path, name: str, file: str = "", **fields: Any) -> str:
    path = folder / f"{file or name}.json"
    path.write_text(json.dumps(SHAPES[name] | fields))
    return str(path)


def parity_rows(folder: Path, horizon: int = 3) -> str:
    """All bit strings of a length, with the running parity as their chain."""
    problems = AutomatonProblems("C2", parse_task("C2"), horizon)
    rows = []
    for bits in itertools.product("01", repeat=horizon):
        states = list(itertools.accumulate(map(int, bits), lambda a, b: (a + b) % 2))
        question = " ".join(f"x{bit}" for bit in bits)
        assert problems.solve(question) == f"q{states[-1]}"
        steps = [f"q{state}" for state in states[:-1]]
        rows.append({"question": question, "steps": steps, "answer": f"q{states[-1]}"})
    return write_rows(rows, folder / f"parity{horizon}.jsonl")
