"""The device, and what every timed workload takes on it."""

from __future__ import annotations

from collections.abc import Mapping

from astra_kernels.agents.llm.briefing.tables import number, table
from astra_kernels.records.evaluation import (
    Evaluation,
    Measured,
    Modelled,
    Passed,
    Timing,
    WorkloadResult,
)

_FACTS: tuple[tuple[str, str, float, str], ...] = (
    ("device_multiprocessors", "multiprocessors", 1, ""),
    ("device_clock_mhz", "clock", 1, " MHz"),
    ("device_l2_bytes", "L2 cache", 1 << 20, " MiB"),
    ("device_bandwidth_gb_s", "memory bandwidth", 1, " GB/s (data sheet)"),
    ("device_copy_gb_s", "bandwidth of a copy", 1, " GB/s (measured)"),
    ("device_launch_floor_us", "an empty kernel takes", 1, " us"),
)
"""Key in an evaluation's environment, name, divisor, unit."""

SIMULATED = (
    "Times are modelled by a simulator that executes the PTX, not measured. It refuses tensor cores, clusters, bulk "
    "copies (TMA), textures and calls through pointers; use none of them here."
)


def device_text(evaluation: Evaluation | None) -> str:
    """Facts of the device on which candidates are judged."""
    if evaluation is None:
        return "Nothing is known of the device yet."
    known = evaluation.environment
    facts = [
        f"{name} {number(value / divisor)}{unit}"
        for key, name, divisor, unit in _FACTS
        if (value := _number(known, key)) is not None
    ]
    simulated = evaluation.device.startswith("sim:")
    name = known.get("device_name") or evaluation.device
    lines = [f"{'Simulated ' if simulated else ''}{name}" + "".join(f"; {f}" for f in facts) + "."]
    if "nvcc" in known:
        lines.append(f"Compiler: nvcc {known['nvcc']}, for sm_90 (not sm_90a), C++17.")
    return " ".join([*lines, SIMULATED] if simulated else lines)


def times_text(evaluation: Passed) -> str:
    """A row for every timed workload: times, gain over the baseline, and how far from the memory's limit.

    Where a launch asks to overlap the kernel before it, the ratio between kernels stands beside them.
    """
    bandwidth = _number(evaluation.environment, "device_bandwidth_gb_s")
    chained = any(w.chain is not None for w in evaluation.workloads)
    rows, word = [], "measured"
    for workload in evaluation.workloads:
        if workload.hidden or not isinstance(workload.timing, Measured | Modelled):
            continue
        if isinstance(workload.timing, Modelled):
            word = "modelled"
        rows.append((*_row(workload, workload.timing, bandwidth), *_chain(workload, chained)))
    head = (
        "workload",
        "sizes",
        "minimum bytes",
        f"baseline us ({word})",
        f"this kernel us ({word})",
        "baseline / this kernel",
        "us at full bandwidth",
        "% of roofline",
        *(["baseline / this kernel, in a chain of kernels"] if chained else []),
    )
    text = table(head, rows)
    return (
        f"One call, data in device memory, not in a cache.\n\n{text}"
        if text
        else "No time is known."
    )


def gain_text(timing: Timing) -> str:
    """A ratio with its interval, or with the model's error; nothing of how it came about."""
    match timing:
        case Measured():
            return f"{timing.ratio:.3f} [{timing.ratio_low:.3f}, {timing.ratio_high:.3f}]"
        case Modelled():
            return f"{timing.gain:.3f} (modelled, +-{timing.model_error:.0%})"
        case _:
            return "not established"


def _row(
    workload: WorkloadResult, timing: Measured | Modelled, bandwidth: float | None
) -> tuple[str, ...]:
    known = bandwidth is not None and bandwidth > 0 and workload.minimum_bytes > 0
    floor_us = workload.minimum_bytes / (bandwidth * 1e3) if known and bandwidth else None
    share = 100 * floor_us / timing.candidate_us if floor_us and timing.candidate_us else None
    return (
        workload.uuid,
        ", ".join(f"{n}={size}" for n, size in workload.axes.items()),
        str(workload.minimum_bytes or "-"),
        number(timing.baseline_us),
        number(timing.candidate_us),
        gain_text(timing),
        number(floor_us),
        "-" if share is None else f"{share:.2g} %" if share < 10 else f"{share:.0f} %",
    )


def _chain(workload: WorkloadResult, chained: bool) -> tuple[str, ...]:
    if not chained:
        return ()
    chain = workload.chain
    return (
        "-"
        if chain is None
        else f"{chain.ratio:.3f} [{chain.ratio_low:.3f}, {chain.ratio_high:.3f}]",
    )


def _number(known: Mapping[str, str], key: str) -> float | None:
    try:
        return float(known[key])
    except (KeyError, ValueError):
        return None
