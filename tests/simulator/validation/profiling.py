"""Counters by Nsight Compute: many points under one process, each one kernel.

ncu keeps a report; its raw page (metrics of a launch) and its source page (how often each machine
instruction ran) are printed from it afterwards and kept as they are, compressed.
"""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_QUERY_S = 30.0
_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_PIPES = ("alu", "fma", "fmaheavy", "fmalite", "fp16", "fp64", "lsu", "xu", "cbu", "adu", "uniform")
_EXECUTED = ("branch", "shared_ld", "shared_st", "shared_atom", "global_ld", "global_st", "global_red", "global_atom",
             "local_ld", "local_st", "ldgsts", "ldsm")  # fmt: skip
_SASS_EXECUTED = ("shared_ld", "shared_st", "shared", "global_ld", "global_st", "ldgsts")
_THREADS = ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma", "hadd", "hmul", "hfma", "fp16", "fp32", "fp64", "integer", "bit",
            "control", "conversion", "inter_thread_communication", "memory", "misc")  # fmt: skip
METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    *(_GLOBAL.format(what, op) for what in ("requests", "sectors") for op in ("ld", "st", "atom", "red")),
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared{op}.sum" for op in ("", "_op_ld", "_op_st", "_op_atom")),
    *(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared{op}.sum" for op in ("", "_op_ld", "_op_st")),
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__thread_inst_executed_pred_on.sum",
    *(
        f"smsp__inst_executed_pipe_{pipe}.sum"
        for pipe in _PIPES
    ),
    *(
        f"smsp__inst_executed_op_{op}.sum"
        for op in _EXECUTED
    ),
    *(f"smsp__sass_inst_executed_op_{op}.sum" for op in _SASS_EXECUTED),
    *(
        _SASS.format(op)
        for op in _THREADS
    ),
    "launch__registers_per_thread",
)  # fmt: skip
SOURCE_METRICS = (
    "inst_executed",
    "thread_inst_executed",
    "thread_inst_executed_true",
    "memory_l1_wavefronts_shared",
)
BASIC = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    *(_GLOBAL.format(what, op) for what in ("requests", "sectors") for op in ("ld", "st")),
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st")),
    "smsp__inst_executed.sum",
    "launch__registers_per_thread",
)


@dataclass(frozen=True)
class Attempt:
    """One run of ncu."""

    command: list[str]
    code: int | None
    """None when it was stopped for taking too long."""
    output: str
    wall_s: float


def version(tool: str) -> str:
    """What `ncu --version` says."""
    said = _run([tool, "--version"], _QUERY_S).output.strip().splitlines()
    return said[-1] if said else "unknown"


def known_metrics(tool: str) -> tuple[str, ...]:
    """Those of `METRICS` that this ncu knows for this GPU; all where it does not say."""
    names = {
        line.split()[0]
        for line in _run([tool, "--query-metrics"], _QUERY_S).output.splitlines()
        if line.split()
    }
    if "smsp__inst_executed" not in names:
        return METRICS
    return tuple(m for m in METRICS if m.split(".")[0] in names or m.startswith("launch__"))  # fmt: skip


def find_ncu() -> str | None:
    """Its path, or None."""
    return shutil.which("ncu") or next(
        (str(p) for p in sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"))), None
    )


def profile(
    tool: str, metrics: Sequence[str], child: Sequence[str], report: Path, seconds: float
) -> Attempt:
    """Runs `child` under ncu, one profile for each of its kernels, into `report`."""
    command = [tool, "--clock-control", "none", "--cache-control", "all", "--force-overwrite"]
    command += ["--metrics", ",".join(metrics), "--export", str(report), *child]
    return _run(command, seconds)


def print_pages(tool: str, report: Path, seconds: float) -> list[str]:
    """Writes the report's pages beside it, compressed, each in `seconds`; gives what could not be printed."""
    wrong: list[str] = []
    for page in ("raw", "source"):
        command = [tool, "--import", str(report), "--csv", "--page", page, "--print-units", "base"]
        if page == "source":
            command += ["--print-source", "sass"]
        printed = _run(command, seconds)
        if printed.code != 0:
            wrong.append(f"{page}: {printed.code}: {printed.output[-500:]}")
        target = report.parent / f"{report.name.removesuffix('.ncu-rep')}.{page}.csv.gz"
        target.write_bytes(gzip.compress(printed.output.encode(), mtime=0))
    return wrong


def _run(command: list[str], seconds: float) -> Attempt:
    """Runs a command; after `seconds` it and its children are stopped."""
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the session that was started above
        output, _ = process.communicate()
        code = None
    return Attempt(command, code, output, round(time.monotonic() - started, 1))
