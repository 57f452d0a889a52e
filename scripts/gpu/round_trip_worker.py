#!/usr/bin/env python3
"""One version of the small framework in a process of its own: profiles, times and compares its operators.

    scripts/gpu/round_trip_worker.py FRAMEWORK

Reads a request a line and answers a line, both JSON; `scripts/gpu/round_trip.py` asks. An operator is called as the
framework's own benchmark calls it (`calls` of benchmarks/bench_operators.py).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

FRAMEWORK = Path(sys.argv[1]).resolve()
sys.path[:0] = [str(FRAMEWORK / "benchmarks"), str(FRAMEWORK / "python")]
# Whatever prints, answers have standard output for themselves.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

_CALLS_A_GRAPH = 20
_REPLAYS = 20


def main() -> None:
    """Answers until there are no more requests."""
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_DOES[request["do"]](request)), file=ANSWERS, flush=True)


def _call(request: dict[str, Any]) -> Callable[[], Any]:
    """The operator on inputs of one size, the same in every process."""
    from bench_operators import calls

    torch.manual_seed(0)
    operator: Callable[[], Any] = calls(request["tokens"], request["hidden"])[request["operator"]]
    return operator


def _profile(request: dict[str, Any]) -> dict[str, Any]:
    call = _call(request)
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    on_device = [e for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    names = [e.name for e in on_device if not e.name.startswith(("Memcpy", "Memset"))]
    return {"kernels": list(dict.fromkeys(names))}


@cache
def _captured(operator: str, tokens: int, hidden: int) -> torch.cuda.CUDAGraph:
    call = _call({"operator": operator, "tokens": tokens, "hidden": hidden})
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_CALLS_A_GRAPH):
            call()
    graph.owner = call  # type: ignore[attr-defined]  # its inputs have to live as long
    return graph


def _time(request: dict[str, Any]) -> dict[str, Any]:
    """Microseconds of one call."""
    graph = _captured(request["operator"], request["tokens"], request["hidden"])
    for _ in range(3):
        graph.replay()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(_REPLAYS):
        graph.replay()
    end.record()
    end.synchronize()
    return {"us": start.elapsed_time(end) * 1e3 / (_REPLAYS * _CALLS_A_GRAPH)}


def _outputs(request: dict[str, Any]) -> list[torch.Tensor]:
    """What one call returns; of a call in place, its inputs afterwards."""
    call = _call(request)
    found = call()
    if found is None:
        held = [cell.cell_contents for cell in call.__closure__ or ()]
        found = [value for value in held if isinstance(value, torch.Tensor)]
    listed = list(found) if isinstance(found, (tuple, list)) else [found]
    torch.cuda.synchronize()
    return [tensor.cpu() for tensor in listed]


def _save(request: dict[str, Any]) -> dict[str, Any]:
    torch.save(_outputs(request), request["path"])
    return {}


def _compare(request: dict[str, Any]) -> dict[str, Any]:
    wanted, found = torch.load(request["path"]), _outputs(request)
    pairs = [(a.double(), b.double()) for a, b in zip(wanted, found, strict=True)]
    return {
        "same_bits": all(torch.equal(a, b) for a, b in pairs),
        "max_abs": max(float((a - b).abs().nan_to_num().max()) for a, b in pairs),
    }


_DOES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "profile": _profile,
    "time": _time,
    "save": _save,
    "compare": _compare,
}

if __name__ == "__main__":
    main()
