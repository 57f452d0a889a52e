"""The GPUs that can be simulated, as data files with their sources."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent / "machines"


@dataclass(frozen=True)
class Machine:
    """A GPU's sizes, limits and rates. See `machines/*.json` for where each comes from.

    Attributes:
        lanes_per_clock_per_sm: Threads' instructions that one multiprocessor completes in a clock, by
            kind of work; `issue` is what its schedulers can start.
    """

    name: str
    sources: tuple[str, ...]
    compute_capability: tuple[int, int]
    memory_bytes: int
    memory_bandwidth_gb_s: float
    memory_bus_bits: int
    memory_clock_mhz: int
    l2_bytes: int
    multiprocessors: int
    clock_mhz: int
    max_threads_per_block: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    registers_per_sm: int
    max_registers_per_thread: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    shared_bytes_per_block_optin: int
    shared_reserved_bytes: int
    lanes_per_clock_per_sm: dict[str, float]

    @property
    def architecture(self) -> int:
        """As in `compute_90`."""
        return 10 * self.compute_capability[0] + self.compute_capability[1]


def machine_names() -> list[str]:
    """The machines that `load_machine` knows."""
    return sorted(path.stem for path in _FOLDER.glob("*.json") if "_" not in path.stem)


def load_machine(name: str) -> Machine:
    """Read a machine's data file.

    Raises:
        ValueError: There is no machine of this name.
    """
    path = _FOLDER / f"{name}.json"
    if name not in machine_names():
        raise ValueError(f"no machine {name!r}; there are {', '.join(machine_names())}")
    data = json.loads(path.read_text(encoding="utf-8"))
    data["sources"] = tuple(data["sources"])
    data["compute_capability"] = tuple(data["compute_capability"])
    return Machine(**data)
