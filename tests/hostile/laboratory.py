"""A small laboratory to attack: runs of every kind, files of every sort, and a short good line per command."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from tests.hostile.children import Children
from tests.kinds.text.toys import parity_rows, shape_file

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "runs"
CHAIN = "runs/C2-T3-left-s0-d5cf49b97ce6"
HINTS = "runs/hints-parity-d8-k3-curriculum-s0-67700c6f3015"
PARITY = "runs/parity-d8-k3-theorem-s0-ce09c35f834f"
SELFPLAY = "runs/selfplay-tic_tac_toe-n6-s0-3d24cd50669d"
STOPPED_RUN = "runs/C3-T4-left-s1-f38c91837940"
MIXTURE = "runs/C2-T3-mixture-s0-*"
WHOLE = "runs/C2-T3-left-s7-*"
"""Of this version, and with a manifest: the golden ones are older."""
TEXT = "runs/parity3-gpt2-left-s0-*"

SHAPE = "--batch 4 --model.depth 1 --model.width 8 --model.heads 2 --kernel plain"
MEASURE = "--evaluation.samples 8 --evaluation.final-samples 8"
TINY = f"--horizon 3 --iterations 6 {SHAPE} {MEASURE}"
TINY_TEXT = (
    "--data parity3.jsonl --model gpt2.json --tokenizer words --iterations 4 --batch 4 --kernel plain "
    "--evaluation.rows 4 --evaluation.final-rows 4 --seed 1"
)
GOOD = {
    "demo": "--iterations 40",
    "train": TINY,
    "resume": STOPPED_RUN,
    "experiment": f"chain {TINY}",
    "sweep": "sweep.json --no-estimate --workers 1",
    "collect": "sweep.json",
    "plan": "sweep.json",
    "runs": "",
    "runs show": CHAIN,
    "runs compare": f"{CHAIN} {HINTS}",
    "runs export": "--csv -",
    "runs page": "--page page.html",
    "runs prune": "",
    "runs trust": CHAIN,
    "runs verify": "",
    "doctor": "",
    "race": f"--operations 1e6 --seeds 1 --tuning-seeds 1 --methods left --workers 1 {TINY}",
    "frontier": f"--minutes 0.01 --seeds 1 --first 2 --most 2 {TINY.replace('--horizon 3', '')}",
    "atlas": "sweep.json",
    "evaluate": f"{CHAIN} --samples 20",
    "show": f"{CHAIN} --examples 2",
    "ask": f"{CHAIN} 1,0,1",
    "parity": "--d 6 --k 2",
    "parity diagram": "--d 6 --k 2 --seeds 1 --which theorem --workers 1",
    "hints": "--d 6 --k 2 --width 8 --steps 20 --batch 4 --evaluation.samples 8 --evaluation.final-samples 8",
    "hints draw": HINTS,
    "pds": "original --seeds 1 --steps 20 --samples 20 --workers 1",
    "selfplay": "--rounds 1 --games 4 --simulations 2 --updates 2 --measured 20 --matches 2 --width 8",
    "selfplay draw": SELFPLAY,
    "text": TINY_TEXT,
    "data check": "parity3.jsonl",
    "data make": "addition:2 --n 10",
    "matrix": f"{CHAIN} --samples 20",
    "profile": f"{CHAIN} --samples 20 --points 2",
    "audit": f"{MIXTURE} --samples 20",
    "check": f"{CHAIN} --against {CHAIN}@1 --samples 20",
    "probe": f"{CHAIN} --samples 60",
    "patch": f"{CHAIN} --samples 4",
    "diagnose": f"{CHAIN} --samples 20",
    "construct": "--order 3 --horizon 4 --samples 20",
    "figures": "",
    "figure": "construction-size --no-train",
    "report": "--results results --page report.html",
    "explore": CHAIN,
    "tasks": "turnstile.json",
    "examples": "copied",
    "completion": "bash",
}  # fmt: skip
"""Command → words that make it do little."""
LEFT_OUT = {"bench", "text bench", "selfplay bench"}
"""They measure time alone."""

SWEEP = {
    "kind": "chain",
    "base": {"task": "C2", "horizon": 2, "iterations": 4, "batch": 4, "kernel": "plain",
             "model": {"depth": 1, "width": 8, "heads": 2},
             "evaluation": {"samples": 8, "final_samples": 8, "every": 1}},
    "grid": {"method": ["cot", "left"]},
}  # fmt: skip
OF_SWEEP = f"--horizon 2 --iterations 4 --evaluation.every 1 {SHAPE} {MEASURE}"
"""The same config as words."""
CIRCUIT = {"inputs": 3, "gates": [["and", "x1", "x2"], ["xor", "g1", "x3"]]}


def build(folder: Path, children: Children) -> Path:
    """The laboratory in a new folder; what it needs of fresh runs is trained here."""
    shutil.copytree(GOLDEN, folder / "runs", ignore=shutil.ignore_patterns("__pycache__", "expected.json"))
    (folder / "sweep.json").write_text(json.dumps(SWEEP))
    (folder / "turnstile.json").write_text('{"transitions": [[0, 1], [0, 1]]}')
    shutil.copytree(GOLDEN.parent / "files", folder / "files")
    parity_rows(folder)
    shape_file(folder, "gpt2")
    lines = [f"train --method mixture {TINY}", f"train --seed 7 {TINY}", f"text {TINY_TEXT} --seed 0"]
    lines += [f"train --method {method} {OF_SWEEP}" for method in ("cot", "left")]
    for line in lines:
        done = children.run([*line.split(), "--quiet"], folder, patience=60)
        assert done.code == 0, done.err
    done = children.run(["figure", "construction-size", "--tier", "smoke"], folder, patience=60)
    assert done.code == 0, done.err
    for index in folder.glob("runs/.index*"):
        index.unlink()
    return folder


class Copy:
    """A copy of a folder that is made whole again after each attack.

    Only what has changed is copied anew, which is known by the inode and its times: to copy all would take more
    of the processor than most commands do.
    """

    def __init__(self, original: Path, place: Path) -> None:
        self.original, self.place = original, place
        self._known: dict[str, tuple[int, ...]] = {}

    def restore(self) -> Path:
        if self.place.is_symlink() or not self.place.is_dir():
            shutil.rmtree(self.place, ignore_errors=True)
            self.place.mkdir()
        self._remove_changed()
        folders = []
        for there in sorted(self.original.rglob("*")):
            name = str(there.relative_to(self.original))
            here = self.place / name
            if there.is_dir() and not there.is_symlink():
                here.mkdir(exist_ok=True)
                folders.append((there, here))
            elif name not in self._known:
                shutil.copy2(there, here, follow_symlinks=False)
                self._known[name] = _signature(here)
        for there, here in [*reversed(folders), (self.original, self.place)]:
            shutil.copystat(there, here)
        return self.place

    def _remove_changed(self) -> None:
        same = set()
        for folder, inner, files in os.walk(self.place):
            for name in [*inner, *files]:
                here = Path(folder) / name
                own = str(here.relative_to(self.place))
                there = self.original / own
                if here.is_dir() and not here.is_symlink():
                    if not there.is_dir() or there.is_symlink():
                        shutil.rmtree(here)
                elif self._known.get(own) == _signature(here):
                    same.add(own)
                else:
                    here.unlink()
        self._known = {name: known for name, known in self._known.items() if name in same}


def _signature(path: Path) -> tuple[int, ...]:
    """Changes with whatever is done to the file; the time of its inode cannot be set by anybody."""
    there = path.lstat()
    return there.st_ino, there.st_mode, there.st_size, there.st_mtime_ns, there.st_ctime_ns


def good_words(command: str, lab: Path) -> list[str]:
    """The command and its short good line; where a run's hash differs from machine to machine, it is found."""
    words = [*command.split(), *GOOD[command].split()]
    return [str(next(lab.glob(word)).relative_to(lab)) if "*" in word else word for word in words]
