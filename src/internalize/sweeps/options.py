"""What the backends can be told, readable without Ray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from internalize.errors import BadInput, require

BackendName = Literal["local", "ray"]


@dataclass(frozen=True)
class RayOptions:
    """What the backend `ray` can be told."""

    address: str | None = None
    """ray: address of a cluster to join (`auto`, or host:port); one of our own on this machine if not given."""
    cpus: float | None = None
    """ray: processors that a run asks for; as many as it has threads if not given."""
    gpus: float = 0.0
    """ray: GPUs that a run asks for; 0.25 lets four runs share one."""
    lost: int = 5
    """ray: how often a run goes on elsewhere after its worker or its node was lost."""
    results: Literal["auto", "shared", "fetched"] = "auto"
    """ray: shared if all nodes see the folder of runs, fetched if checkpoints and results are to be sent here;
    auto looks."""

    def __post_init__(self) -> None:
        require(self.cpus is None or self.cpus > 0, "cpus", f"must be more than 0, got {self.cpus}")
        good = 0 <= self.gpus < 1 or float(self.gpus).is_integer()
        require(good, "gpus", f"must be a part of one GPU or a whole number of them, got {self.gpus}")
        require(self.gpus >= 0, "gpus", f"must be 0 or more, got {self.gpus}")
        require(self.lost >= 0, "lost", f"must be 0 or more, got {self.lost}")
        client = self.address is not None and self.address.startswith("ray://")
        require(not client, "address", "issue the sweep on a node of the cluster and give host:port or auto")

    def room(self, nodes: Sequence[Mapping[str, float]], cpus: float) -> int:
        """How many runs fit at once, each on one node.

        nodes: what each of them has, `CPU` and `GPU`. cpus: processors that a run asks for.
        """
        fits = [node.get("CPU", 0.0) / cpus for node in nodes]
        if self.gpus:
            fits = [min(fit, node.get("GPU", 0.0) / self.gpus) for fit, node in zip(fits, nodes, strict=True)]
        return sum(map(int, fits))

    def shortage(self, nodes: Sequence[Mapping[str, float]], cpus: float) -> BadInput | None:
        """Why not a single run fits; None if one does. The arguments are those of `room`."""
        if self.room(nodes, cpus) > 0:
            return None
        for field, name, wanted in (("gpus", "GPU", self.gpus), ("cpus", "CPU", cpus)):
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if most < wanted:
                return BadInput(field, f"a run asks for {wanted:g}, and no node has more than {most:g}")
        return BadInput("cpus", f"a run asks for {cpus:g} with --gpus {self.gpus:g}, and no node has both")
