#!/usr/bin/env python3
"""Says what this machine's GPU gives at best: launch floor, copy bandwidth, versions.

scripts/gpu/probe.py [--device N] [--out FILE]
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from astra_kernels.devices.cuda import CudaDevice
from astra_kernels.devices.cuda_probe import copy_bandwidth_gb_s, launch_floor_us
from astra_kernels.devices.neighbours import other_processes
from astra_kernels.errors import AstraError
from astra_kernels.languages.cuda.toolchain import find_toolchain


def main() -> int:
    """Prints the findings as JSON, and writes them where asked."""
    parser = argparse.ArgumentParser(description="Probe this machine's GPU.")
    parser.add_argument("--device", type=int, default=0, metavar="N")
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    try:
        found = probe(options.device)
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    text = json.dumps(found, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
    return 0


def probe(ordinal: int) -> dict[str, object]:
    """Measures one GPU.

    Raises:
        SetupError: no compiler, no CUDA runtime or no cuda-bindings.
        MachineFault: the GPU does not answer.
    """
    tools = find_toolchain(os.environ)
    others = other_processes(ordinal)
    runtimes = (directory / tools.cudart for directory in tools.library_dirs)
    device = CudaDevice(ordinal, next(path for path in runtimes if path.is_file()))
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **dataclasses.asdict(device.facts),
        "launch_floor_us": launch_floor_us(device),
        "copy_bandwidth_measured_gb_s": copy_bandwidth_gb_s(device),
        "other_processes": None if others is None else list(others),
        "nvcc": tools.version,
        "host_compiler": tools.host.version,
        "python": platform.python_version(),
        "machine": platform.platform(),
    }


if __name__ == "__main__":
    sys.exit(main())
