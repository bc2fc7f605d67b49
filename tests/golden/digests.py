"""Small runs of every kind and what came out, to the bit: before and after a change that must change nothing.

    python tests/golden/digests.py OUT_DIR > before.json

Trains with the command line alone, on one processor thread, into OUT_DIR, which must be new or empty: a run
that is there already would only be read. No test: the last bits depend on the machine and on torch, so compare
two outputs of one machine.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SHAPE = "--model.depth 1 --model.width 16 --model.heads 4 --optimizer.lr 5e-3 --batch 32"
MEASURED = "--evaluation.every 200 --evaluation.samples 100 --evaluation.final-samples 500"
ADAPTIVE = "--schedule.kind adaptive --schedule.threshold 0.1 --schedule.memory 20 --schedule.cap 400"
COMMANDS = {
    "chain, left, adaptive": f"train --task C2 --horizon 4 --method left --iterations 1500 {ADAPTIVE} {SHAPE} "
    f"{MEASURED}",
    "chain, left, plain kernel": f"train --task S3 --horizon 4 --method left --iterations 400 --kernel plain "
    f"{SHAPE} {MEASURED}",
    "chain, mixture": f"train --task C3 --horizon 4 --method mixture --iterations 600 {SHAPE} {MEASURED}",
    "hints, curriculum": "hints --d 10 --k 4 --width 32 --lr 0.04 --steps 6000 --evaluation.samples 500 "
    "--evaluation.final-samples 2000",
    "parity": "parity --d 8 --k 4",
    "parity, threshold": "parity --d 8 --k 3 --regime threshold --step-size 0.05 --threshold 1e-4",
    "selfplay": "selfplay --game tic_tac_toe --rounds 3 --games 64 --simulations 16 --width 32 --depth 2 "
    "--updates 50 --batch 64 --measured 100 --matches 20",
}


def outcome(words: str, out: Path) -> dict[str, Any]:
    """Train one run into a folder of its own; its identity, summary and the hash of its rows."""
    execution = ["--out", str(out), "--device", "cpu", "--threads", "1", "--quiet"]
    subprocess.run([sys.executable, "-m", "internalize.cli", *words.split(), *execution], check=True)
    (run,) = (path.parent for path in out.glob("*/config.json"))
    status = json.loads((run / "status.json").read_text())
    return {
        "folder": run.name,
        "identity": run.name.rpartition("-")[2],
        "config_sha256": sha256(run / "config.json"),
        "summary": status["summary"],
        "metrics_sha256": sha256(run / "metrics.jsonl"),
        "model_sha256": sha256(run / "model" / "model.safetensors"),
    }


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/golden/digests.py OUT_DIR")
    out = Path(sys.argv[1])
    if out.exists() and any(out.iterdir()):
        sys.exit(f"{out} is not empty: runs that are there already would not be trained again")
    found = {name: outcome(words, out / str(number)) for number, (name, words) in enumerate(COMMANDS.items())}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
