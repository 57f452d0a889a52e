"""`astra doctor`: what is installed, which device would be used, and what to do about each gap."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from astra_kernels import __version__
from astra_kernels.app.compose import default_device
from astra_kernels.errors import AstraError, SetupError
from astra_kernels.languages.cuda.toolchain import find_toolchain
from astra_kernels.languages.sandbox.run import available_sandbox

_MARKS = {"ok": "[green]ok[/]", "gap": "[yellow]gap[/]", "missing": "[red]missing[/]"}


@dataclass(frozen=True)
class Finding:
    """One line of the examination: `missing` stops the work, a `gap` leaves something not established."""

    subject: str
    state: Literal["ok", "gap", "missing"]
    detail: str
    advice: str = ""


def run(*, as_json: bool) -> int:
    """Examine this machine and print what was found; 0 when the main job can run, else 3."""
    findings = [check() for check in _CHECKS]
    if as_json:
        print(json.dumps([asdict(f) for f in findings], indent=1))
    else:
        table = Table("", "what", Column("found", overflow="fold"), "what to do")
        for finding in findings:
            cells = (finding.subject, finding.detail, finding.advice)
            table.add_row(_MARKS[finding.state], *map(escape, cells))
        Console(highlight=False).print(table)
    return SetupError.exit_code if any(f.state == "missing" for f in findings) else 0


def _python() -> Finding:
    versions = (f"{name} {_version(name)}" for name in ("numpy", "ml_dtypes", "pydantic"))
    detail = f"Astra {__version__}, Python {platform.python_version()}, {', '.join(versions)}"
    return Finding("Python", "ok", detail)


def _compiler() -> Finding:
    try:
        found = find_toolchain(os.environ)
    except AstraError as error:
        return Finding(
            "CUDA compiler", "missing", str(error), "pip install 'astra-kernels[toolchain]'"
        )
    return Finding(
        "CUDA compiler",
        "ok",
        f"nvcc {found.version} ({found.origin}: {found.nvcc}), host {found.host.path.name} {found.host.version}",
    )


def _disassembler() -> Finding:
    try:
        found = find_toolchain(os.environ)
    except AstraError:
        return Finding("disassembler", "gap", "no CUDA compiler")
    if found.nvdisasm is None:
        return Finding(
            "disassembler",
            "gap",
            "no nvdisasm: the SASS mix is not established",
            "pip install nvidia-cuda-nvdisasm",
        )
    return Finding("disassembler", "ok", str(found.nvdisasm))


def _sandbox() -> Finding:
    level = available_sandbox()
    strong = level.name in ("bubblewrap", "landlock")
    advice = "" if strong else "apt-get install bubblewrap"
    return Finding("sandbox", "ok" if strong else "gap", f"{level.name}: {level.reason}", advice)


def _gpu() -> Finding:
    if default_device().startswith("sim:"):
        return Finding(
            "device",
            "gap",
            "sim:h200: no GPU here; times are modelled, never measured",
            "run the same command on a machine with a GPU to measure",
        )
    if _version("cuda-bindings") == "not installed":
        return Finding(
            "device", "missing", "cuda:0, but no cuda-bindings", "pip install 'astra-kernels[gpu]'"
        )
    return Finding("device", "ok", f"cuda:0: {_gpu_names()}")


def _profiler() -> Finding:
    found = shutil.which("ncu")
    if found:
        return Finding("profiler", "ok", found)
    detail = "no ncu: on a GPU, counters are not established (a simulated device counts by itself)"
    return Finding("profiler", "gap", detail, "install Nsight Compute")


def _model() -> Finding:
    return Finding(
        "language model", "gap", "none: the rule-based agents do the work, without network or key"
    )


def _optional() -> Finding:
    found = [
        f"{n} {_version(n)}"
        for n in ("flashinfer-python", "apache-tvm-ffi", "torch")
        if _version(n) != "not installed"
    ]
    detail = (
        ", ".join(found)
        or "none of flashinfer-python (for examples/flashinfer_*), apache-tvm-ffi (for binding tvm-ffi), "
        "torch (for torch references, and binding torch on a GPU)"
    )
    advice = "" if found else "pip install --no-deps flashinfer-python==0.7.4"
    return Finding("optional packages", "ok" if found else "gap", detail, advice)


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _compiler,
    _disassembler,
    _sandbox,
    _gpu,
    _profiler,
    _model,
    _optional,
)


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _gpu_names() -> str:
    """What nvidia-smi calls the GPUs; the examination itself never opens the device."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "nvidia-smi does not answer"
    return "; ".join(done.stdout.strip().splitlines()) or "nvidia-smi lists no GPU"
