"""Profiles of a real GPU: one call per workload under Nsight Compute, where it is installed.

A profile is evidence for a diagnosis and decides nothing, so a profiler that fails only leaves a remark.
Clocks stay as they are and caches are flushed before every pass, as in the timing.
"""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from astra_kernels.devices.neighbours import sole_tool_on
from astra_kernels.errors import MachineFault
from astra_kernels.jobs.correctness import Subject
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.spec import WorkloadSpec
from astra_kernels.jobs.supervise import Setting, run_child
from astra_kernels.jobs.wire import Event, Request
from astra_kernels.records.evaluation import KernelProfile

METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "smsp__inst_executed.sum",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
    "launch__waves_per_multiprocessor",
    "launch__registers_per_thread",
)
_DEADLINE_S = 120.0
_TO_BASE = {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
"""Units that ncu chooses by size, in bytes and nanoseconds."""

Profiles = dict[str, tuple[KernelProfile, ...]]


def profile(
    bench: Bench, subject: Subject, workloads: Sequence[WorkloadSpec], kernels: Mapping[str, int]
) -> tuple[Profiles, str]:
    """Profiles one call of every workload whose number of kernels is known.

    Returns:
        The profiles by workload, and why there are none ("" when there are).
    """
    tool = shutil.which("ncu")
    if tool is None:
        return {}, "no profile: ncu is not on PATH"
    chosen = [w for w in workloads if w.uuid in kernels]
    prefix: tuple[str, ...] = (
        tool,
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--clock-control",
        "none",
    )
    prefix += (
        "--cache-control",
        "all",
        "--target-processes",
        "all",
        "--metrics",
        ",".join(METRICS),
    )
    readable = (Path(tool).resolve().parent, Path(tool).parent)
    rows: list[dict[str, str]] = []
    for batch in bench.batches(chosen):
        prepared = [bench.prepared(w) for w in batch]
        results = [p.new_result() for p in prepared]
        request = Request(
            task="profile",
            device=bench.spec.device,
            cuda_runtime=subject.cuda_runtime,
            programs=(subject.program,),
            calls=tuple(p.call((fd,)) for p, fd in zip(prepared, results, strict=True)),
        )
        try:
            with sole_tool_on(bench.spec.device), bench.device_in_use():
                finished = run_child(request, Setting(_DEADLINE_S, readable, prefix), _heard)
        except MachineFault as fault:
            return {}, f"no profile: {fault}"
        finally:
            for descriptor in results:
                os.close(descriptor)
        if finished.ending is not None:
            return {}, f"no profile: ncu {finished.ending.detail}: {finished.output.strip()[-200:]}"
        rows += parse_raw_page(finished.output)
    return _by_workload(rows, chosen, kernels)


def parse_raw_page(output: str) -> list[dict[str, str]]:
    """One row per kernel of `ncu --csv --page raw`, values in base units; other lines are skipped."""
    lines = [line for line in output.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        return []
    table = list(csv.reader(lines))
    header, units = table[0], table[1]
    scale = dict(zip(header, units, strict=True))
    rows = [dict(zip(header, row, strict=True)) for row in table[2:] if len(row) == len(header)]
    for row in rows:
        for name in METRICS:
            factor = _TO_BASE.get(scale.get(name, ""), 1.0)
            if factor != 1.0 and row.get(name):
                row[name] = repr(float(row[name].replace(",", "")) * factor)
    return rows


def _heard(event: Event, arrived: float) -> bool:
    del event, arrived
    return True


def _by_workload(
    rows: Sequence[dict[str, str]], workloads: Sequence[WorkloadSpec], kernels: Mapping[str, int]
) -> tuple[Profiles, str]:
    expected = sum(kernels[w.uuid] for w in workloads)
    if len(rows) != expected:
        return {}, f"no profile: ncu reports {len(rows)} kernels, {expected} were launched"
    profiles: Profiles = {}
    at = 0
    for workload in workloads:
        count = kernels[workload.uuid]
        profiles[workload.uuid] = tuple(_profile(row) for row in rows[at : at + count])
        at += count
    return profiles, ""


def _profile(row: Mapping[str, str]) -> KernelProfile:
    return KernelProfile(
        kernel=row.get("Kernel Name", ""),
        grid=_dim3(row.get("Grid Size", "")),
        block=_dim3(row.get("Block Size", "")),
        dynamic_shared_bytes=int(_number(row.get("launch__shared_mem_per_block_dynamic")) or 0),
        metrics={n: v for n in METRICS if (v := _number(row.get(n))) is not None},
        source="ncu",
    )


def _number(text: str | None) -> float | None:
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _dim3(text: str) -> tuple[int, int, int]:
    """Reads `(128, 1, 1)`."""
    parts = [int(p) for p in text.strip("() ").split(",") if p.strip().isdigit()]
    x, y, z = (*parts, 1, 1, 1)[:3]
    return x, y, z
