"""Quick trials of what makes a transition between two stages easy: the script behind docs/lab-notes.md.

    python studies/transitions.py --task C7 --horizon 10 --positions turns --share 0.25 --bar 0.1

Left curriculum, adaptive, one seed, no run folder: prints after how many iterations each stage was passed, and
the seconds of processor time by then. What won is in the package (`--keep-positions True`, `--rehearsal`);
what lost is only here.
"""

from __future__ import annotations

import argparse
import random
import time

import torch

from internalize.curricula import find_curriculum
from internalize.kinds.chain.data import TrainingData
from internalize.models.config import ModelConfig
from internalize.models.gpt2 import GPT2
from internalize.models.parameters import AdamW, flatten_parameters
from internalize.models.path import make_step
from internalize.runtime.kind import Streams
from internalize.sequences import Renderer, vocabulary_of
from internalize.tasks.inputs import parse_inputs
from internalize.tasks.names import parse_task

MEMORY = 50
"""Steps of the stage's own format that the running loss averages over."""


def arguments() -> argparse.Namespace:
    found = argparse.ArgumentParser()
    found.add_argument("--task", default="C7")
    found.add_argument("--horizon", type=int, default=10)
    found.add_argument("--seed", type=int, default=100)
    found.add_argument("--token", action="store_true", help="a length token ends the prompt")
    found.add_argument("--copy-token", action="store_true", help="a stage's token begins as the last one's")
    found.add_argument("--share", type=float, default=0.5, help="of batches from the stage before")
    found.add_argument("--positions", choices=["shift", "keep", "turns"], default="shift")
    found.add_argument("--direct", choices=["sum", "last"], default="sum", help="what a direct row begins as")
    found.add_argument("--lr", type=float, default=5e-4)
    found.add_argument("--warmup", type=int, default=1, help="iterations of a stage until the lr is full")
    found.add_argument("--bar", type=float, default=0.02, help="loss of the worst position that ends a stage")
    found.add_argument("--width", type=int, default=64)
    found.add_argument("--depth", type=int, default=1)
    found.add_argument("--seconds", type=float, default=200, help="of processor time, then it gives up")
    return found.parse_args()


def row_order(kind: str, stage: int, horizon: int) -> torch.Tensor:
    """shift: places keep their rows; keep: states do; turns: states do, but two rows share the first."""
    first = (0 if stage % 2 else horizon + 1) if kind == "turns" else stage - 1
    needed = [first, *range(stage, horizon + 1)] if kind != "shift" else list(range(horizon + 2))
    return torch.tensor([*needed, *(row for row in range(horizon + 2) if row not in needed)])


def main() -> None:
    asked = arguments()
    torch.set_num_threads(1)
    horizon, streams, draws = asked.horizon, Streams(asked.seed), random.Random(asked.seed)
    task = parse_task(asked.task)
    curriculum = find_curriculum("left", horizon, {})[0]
    renderer = Renderer(vocabulary_of(task, horizon, asked.token), horizon, task.initial_state)
    shape = ModelConfig(depth=asked.depth, width=asked.width, heads=asked.width // 2, init_std=0.1)
    model = GPT2(shape, renderer.vocabulary.size, renderer.context)
    model.initialise(streams("init"))
    parameters, gradient = flatten_parameters(model)
    optimizer = AdamW(parameters, gradient, asked.lr, (0.9, 0.95), 0.01)
    step = make_step("fast", "fp32", model, gradient)
    data = TrainingData(task, parse_inputs("uniform", task.symbols), 128, horizon, task.initial_state)
    wpe, wte = model.transformer.wpe.weight, model.transformer.wte.weight
    assert wpe.grad is not None
    rows, row_gradients = wpe.detach()[renderer.prompt_length - 1 :], wpe.grad[renderer.prompt_length - 1 :]
    orders = {stage: row_order(asked.positions, stage, horizon) for stage in range(1, horizon + 1)}
    stage, inside, own, running = 1, 0, 0, torch.zeros(0)
    for iteration in range(10**9):
        shown = stage - 1 if stage > 1 and draws.random() < asked.share else stage
        tokens = renderer.sequence(*data(iteration, streams), curriculum.shown(shown))
        back = orders[shown].argsort()
        rows.copy_(rows[orders[shown]])
        stats = step(tokens, renderer.prompt_length)
        rows.copy_(rows[back])
        row_gradients.copy_(row_gradients[back])
        optimizer.lr = asked.lr * (1 if stage == 1 else min(1, (inside + 1) / asked.warmup))
        optimizer.step()
        inside += 1
        if shown == stage:
            own += 1
            running = stats.loss.clone() if own == 1 else running + (stats.loss - running) / min(own, MEMORY)
        if inside % 10:
            continue
        seconds, worst = time.process_time(), float(running.max())
        if inside >= 100 and own >= 40 and worst < asked.bar:
            print(f"stage {stage}: {inside} iterations; {iteration + 1} in all, {seconds:.0f} s", flush=True)
            if stage == horizon:
                return
            stage, inside, own = stage + 1, 0, 0
            optimizer.reset()
            with torch.no_grad():
                if asked.positions == "turns":
                    last, new = orders[stage - 1][0], orders[stage][0]
                    aloud = rows[stage - 1] - rows[:horizon].mean(0) if asked.direct == "sum" else 0
                    rows[new] = rows[last] + aloud
                if asked.copy_token:
                    told = renderer.vocabulary.length_token
                    wte[told(horizon - stage + 2)] = wte[told(horizon - stage + 3)]
        elif seconds > asked.seconds:
            print(
                f"stage {stage} not passed: loss {worst:.3f} after {inside} iterations, {iteration + 1} in all"
            )
            return


if __name__ == "__main__":
    main()
