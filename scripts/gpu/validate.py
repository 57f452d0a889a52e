#!/usr/bin/env python3
"""Runs the simulator's corpus on this machine's GPU: outputs, counters (ncu) and times, written as JSON.

    scripts/gpu/validate.py --out DIR [--only outputs,times,counters] [--seconds 170]

`python -m tests.simulator.validation DIR` compares the folder with the simulator, on any machine. Needs
Python, NumPy, cuda-bindings, nvcc and g++; the package is taken from this checkout. What is missing (ncu,
FlashInfer's headers) is named in DIR/validation.json.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import numpy as np  # noqa: E402
from tests.simulator.validation import measuring, profiling  # noqa: E402
from tests.simulator.validation.corpus import CHECKED, SOURCES, TIMED  # noqa: E402
from tests.simulator.validation.point import Point  # noqa: E402
from tests.simulator.validation.programs import (  # noqa: E402
    Programs,
    build_all,
    flashinfer_headers,
    run_point,
)

from astra_kernels.devices.cuda import CudaDevice  # noqa: E402
from astra_kernels.devices.device import Device  # noqa: E402
from astra_kernels.devices.neighbours import other_processes  # noqa: E402
from astra_kernels.devices.opening import open_device  # noqa: E402
from astra_kernels.errors import AstraError  # noqa: E402
from astra_kernels.languages.cuda.toolchain import Toolchain, find_toolchain  # noqa: E402

PHASES = ("outputs", "times", "counters")
_SHARES = {"outputs": 0.25, "times": 0.55, "counters": 1.0}
"""Of what is left of the time, the most that a phase may take."""
_PROBE_S = 20.0
_PRINT_S = 10.0


def profiled() -> dict[str, tuple[Point, ...]]:
    """The points of each ncu process, the most needed first."""
    first = tuple(p for p in CHECKED if p.way_index == 0)
    large = {p.group: p for p in reversed(TIMED)}  # the first variant of each kernel and shape
    others = tuple(p for p in CHECKED if p.way_index)
    return {"first": first, "others": others, "large": tuple(reversed(large.values()))}


def main() -> int:
    """Builds, then runs every phase in a process of its own."""
    options = _parser().parse_args()
    options.out, options.cache = options.out.resolve(), options.cache.resolve()
    options.flashinfer = (
        options.flashinfer.resolve() if options.flashinfer else flashinfer_headers()
    )
    if options.phase:
        return _phase(options)
    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        tools = find_toolchain(os.environ)
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    programs = _programs(options, tools)
    report = _environment(options, tools, programs)
    report["built_s"] = round(time.monotonic() - started, 1)
    failed = not programs.built
    for name in options.only:
        left = options.seconds - (time.monotonic() - started)
        allowed = max(5.0, left * _SHARES[name])
        if name == "counters":
            report[name] = _counters(options, allowed)
        else:
            report[name] = _child(options, name, allowed)
            failed = failed or report[name] != "done"
        report["wall_s"] = round(time.monotonic() - started, 1)
        measuring.write_json(options.out / "validation.json", report)
        print(f"{name} after {report['wall_s']} s", flush=True)
    return 1 if failed else 0


def _child_command(options: argparse.Namespace, phase: str, *more: str) -> list[str]:
    common = ["--out", str(options.out), "--cache", str(options.cache), "--device", options.device]
    if options.flashinfer:
        common += ["--flashinfer", str(options.flashinfer)]
    return [sys.executable, str(Path(__file__).resolve()), *common, "--phase", phase, *more]


def _child(options: argparse.Namespace, phase: str, seconds: float) -> str:
    command = _child_command(options, phase, "--seconds", f"{seconds * 0.85:.1f}")
    try:
        done = subprocess.run(command, timeout=seconds, check=False, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return f"stopped after {seconds:.0f} s"
    return "done" if done.returncode == 0 else f"code {done.returncode}: {done.stderr[-1500:]}"


def _counters(options: argparse.Namespace, seconds: float) -> dict[str, object]:
    """One ncu process to see which metrics it takes, then one for each batch."""
    until = time.monotonic() + seconds
    tool = profiling.find_ncu()
    if tool is None:
        return {"missing": "ncu is not on PATH"}
    found: dict[str, object] = {"ncu": profiling.version(tool)}
    known = profiling.known_metrics(tool)
    trials: list[dict[str, object]] = []
    found["trials"] = trials
    metrics: tuple[str, ...] = ()
    for offered in ((*known, *profiling.SOURCE_METRICS), known, profiling.BASIC):
        child = _child_command(options, "launches", "--batch", "probe")
        report = options.out / "probe.ncu-rep"
        tried = profiling.profile(tool, offered, child, report, _PROBE_S)
        taken = tried.code == 0 and report.is_file() and "==ERROR==" not in tried.output
        said = "" if taken else tried.output[-800:]
        trials.append(
            {"metrics": len(offered), "code": tried.code, "wall_s": tried.wall_s, "said": said}
        )
        report.unlink(missing_ok=True)
        if taken:
            metrics = offered
            break
    if not metrics:
        return {**found, "missing": "ncu does not profile here"}
    found |= {"metrics": list(metrics), "unknown": sorted(set(profiling.METRICS) - set(metrics))}
    for batch, points in profiled().items():
        left = until - time.monotonic()
        if left < 2 * _PRINT_S:
            found[batch] = "not reached"
            continue
        report = options.out / f"{batch}.ncu-rep"
        child = _child_command(options, "launches", "--batch", batch)
        done = profiling.profile(tool, metrics, child, report, left - _PRINT_S)
        wrong = profiling.print_pages(tool, report, _PRINT_S) if report.is_file() else []
        report.unlink(missing_ok=True)
        found[batch] = {
            "points": [p.name for p in points],
            "code": done.code,
            "wall_s": done.wall_s,
            "wrong": wrong,
            "said": done.output[-500:] if done.code else "",
        }
        measuring.write_json(options.out / "counters.json", found)
    return found


def _phase(options: argparse.Namespace) -> int:
    """What a process of its own does."""
    until = time.monotonic() + options.seconds
    tools = find_toolchain(os.environ)
    programs = _programs(options, tools)
    runtime = next(d / tools.cudart for d in tools.library_dirs if (d / tools.cudart).is_file())
    device = open_device(options.device, runtime)
    if options.phase == "outputs":
        measuring.save_outputs(device, programs, CHECKED, options.out)
    elif options.phase == "launches":
        _launch(device, programs, options)
    elif isinstance(device, CudaDevice):
        measuring.save_times(device, programs, TIMED, options.out, until)
    return 0


def _launch(device: Device, programs: Programs, options: argparse.Namespace) -> None:
    """Every point of a batch once, and nothing else on the device; writes which."""
    points = CHECKED[:1] if options.batch == "probe" else profiled()[options.batch]
    names: list[str] = []
    for point, entry in measuring.entries(device, programs, points):
        run_point(device, entry, point)
        names.append(point.name)
    measuring.write_json(options.out / f"{options.batch}.launches.json", names)


def _programs(options: argparse.Namespace, tools: Toolchain) -> Programs:
    options.cache.mkdir(parents=True, exist_ok=True)
    return build_all(SOURCES, tools, options.cache, os.cpu_count() or 1, options.flashinfer)


def _environment(
    options: argparse.Namespace, tools: Toolchain, programs: Programs
) -> dict[str, object]:
    """Date, versions, device and command."""
    others = other_processes(0) if options.device.startswith("cuda") else None
    facts = json.loads(_facts(options) or "{}")
    try:
        bindings = importlib.metadata.version("cuda-bindings")
    except importlib.metadata.PackageNotFoundError:
        bindings = "none"
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": ["scripts/gpu/validate.py", "--only", ",".join(options.only)],
        "commit": options.commit or _commit(),
        "opened": options.device,
        "device": facts,
        "other_processes": None if others is None else list(others),
        "nvcc": tools.version,
        "host_compiler": tools.host.version,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cuda_bindings": bindings,
        "machine": platform.platform(),
        "missing": programs.missing,
        "registers": {name: programs.registers(name) for name in sorted(programs.built)},
    }


def _facts(options: argparse.Namespace) -> str:
    """The device's facts as JSON, asked in a process of its own so that this one holds no GPU."""
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]; import dataclasses, json, os; from pathlib import Path; "
        "from astra_kernels.languages.cuda.toolchain import find_toolchain as f; "
        "from astra_kernels.devices.opening import open_device; t = f(os.environ); "
        "r = next(d / t.cudart for d in t.library_dirs if (d / t.cudart).is_file()); "
        "print(json.dumps(dataclasses.asdict(open_device(sys.argv[1], r).facts)))"
    )
    command = [sys.executable, "-c", code, options.device, str(ROOT / "src")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout if done.returncode == 0 else json.dumps({"failed": done.stderr[-500:]})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Run the simulator's corpus on this machine's GPU."
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--only", type=_phases, default=PHASES, metavar="PHASES", help=",".join(PHASES)
    )
    parser.add_argument(
        "--seconds", type=float, default=170.0, help="for everything; a phase that is late stops"
    )
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--cache", type=Path, default=Path("build/validation"), metavar="DIR")
    parser.add_argument(
        "--flashinfer", type=Path, metavar="DIR", help="its headers, where it is not installed"
    )
    parser.add_argument("--commit", metavar="SHA", help="what is measured, where git cannot tell")
    parser.add_argument("--phase", choices=("outputs", "launches", "times"), help=argparse.SUPPRESS)
    parser.add_argument("--batch", default="first", help=argparse.SUPPRESS)
    return parser


def _phases(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    if unknown := set(chosen) - set(PHASES):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return chosen


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


if __name__ == "__main__":
    sys.exit(main())
