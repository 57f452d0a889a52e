"""An operator's share of a serving run, from a trace of torch.profiler, and what that bounds."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.errors import ExportRefused


@dataclass(frozen=True)
class Share:
    """Kernel time by a trace."""

    operator_us: float
    all_us: float
    calls: int

    @property
    def share(self) -> float:
        """The operator's part of all kernel time."""
        return self.operator_us / self.all_us

    def end_to_end(self, ratio: float) -> float:
        """Amdahl's law: old time over new time of everything, if kernels follow each other without gaps."""
        return 1.0 / (1.0 - self.share + self.share / ratio)

    @property
    def bound(self) -> float:
        """The same for an operator that takes no time at all."""
        return 1.0 / max(1.0 - self.share, 1e-9)


def share_of(path: Path, kernels: tuple[str, ...]) -> Share:
    """The share of kernels of these names, in a Chrome trace as `torch.profiler` exports it.

    Args:
        path: the trace.
        kernels: names of kernel functions, without namespaces and template arguments.

    Raises:
        ExportRefused: the file is no such trace, or has no kernel at all.
    """
    try:
        events = json.loads(path.read_bytes())["traceEvents"]
        timed = [
            (str(e.get("name", "")), float(e["dur"]))
            for e in events
            if isinstance(e, dict) and e.get("cat") == "kernel" and "dur" in e
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExportRefused(f"--trace {path}: no Chrome trace of torch.profiler: {error}") from None
    if not timed or sum(us for _, us in timed) <= 0:
        raise ExportRefused(
            f"--trace {path}: has no kernels; profile with ProfilerActivity.CUDA and export_chrome_trace"
        )
    wanted = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, kernels)) + r")(?=\s*[<(]|$)")
    own = [us for name, us in timed if wanted.search(name)]
    return Share(sum(own), sum(us for _, us in timed), len(own))
