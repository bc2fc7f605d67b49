"""Signatures say shapes, the tests check them, and a user pays nothing for it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from jaxtyping import TypeCheckError

import internalize
from internalize.measure.predictor import Prediction
from internalize.models.config import ModelConfig
from internalize.models.gpt2 import GPT2
from internalize.sequences import Renderer, Vocabulary
from tests.shapes import ROOMS

PACKAGE = Path(internalize.__file__).parent
UNSHAPED = {"kernels", "pictures.py", "comparison.py"}
"""Kernels are numba's; the others draw, and lay a trained model beside a written one."""


def test_a_wrong_shape_is_refused() -> None:
    renderer = Renderer(Vocabulary(("0", "1"), ("0", "1")), horizon=3, initial_state=0)
    assert renderer.prompt(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 4)
    with pytest.raises(TypeCheckError, match="prompt"):
        renderer.prompt(torch.zeros(2, 4, dtype=torch.int64))
    with pytest.raises(TypeCheckError, match="forward"):
        GPT2(ModelConfig(1, 4, 2), 5, 8)(torch.zeros(2, 3))
    two, three = torch.zeros(2, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)
    with pytest.raises(TypeCheckError, match="Prediction"):
        Prediction(two, three, two.double())


def test_a_wrong_result_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = Renderer(Vocabulary(("0", "1"), ("0", "1")), horizon=3, initial_state=0)
    monkeypatch.setattr(Renderer, "prompt_length", lambda *_: 7)
    with pytest.raises(TypeCheckError, match="return"):
        renderer.prompt(torch.zeros(3, 3, dtype=torch.int64))


@pytest.mark.parametrize("room", ROOMS)
def test_every_tensor_in_a_signature_has_a_shape(room: str) -> None:
    """Tensors in lists and mappings may have none: their shapes differ."""
    bare = []
    for path in sorted((PACKAGE / room).rglob("*.py")):
        if UNSHAPED & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                arguments = [a.annotation for a in (*node.args.args, *node.args.kwonlyargs)]
                for annotation in (*arguments, node.returns):
                    if annotation is not None and ast.unparse(annotation) in ("Tensor", "Tensor | None"):
                        bare.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}")
    assert bare == []


def test_a_user_needs_no_checker() -> None:
    """jaxtyping is imported for the type checker alone, beartype never."""
    seen = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        statements = ast.parse(path.read_text(encoding="utf-8")).body
        guarded = [s for s in statements if isinstance(s, ast.If) and ast.unparse(s.test) == "TYPE_CHECKING"]
        seen += sum("from jaxtyping import" in ast.unparse(block) for block in guarded)
        others = "\n".join(ast.unparse(s) for s in statements if s not in guarded)
        assert "import jaxtyping" not in others, path
        assert "from jaxtyping" not in others, path
        assert "beartype" not in others, path
    assert seen > 20
