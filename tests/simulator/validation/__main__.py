"""Compares what scripts/gpu/validate.py measured with the simulator.

    python -m tests.simulator.validation FOLDER

Writes FOLDER/comparison.json, from which scripts/tables makes a section of docs/simulator.md. The kernels
are built here, by the compiler that is here; what it is and what it was there is written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from astra_kernels.devices.machine_code import MachineBlock, machine_code
from astra_kernels.errors import AstraError
from astra_kernels.languages.cuda.toolchain import find_toolchain
from astra_kernels.simulator import stated_error
from tests.simulator.validation import counters
from tests.simulator.validation.comparison import Counted, Timed, time_summary, worst_ulps
from tests.simulator.validation.corpus import CHECKED, SOURCES, TIMED
from tests.simulator.validation.holdout import listed
from tests.simulator.validation.measuring import digest, write_json
from tests.simulator.validation.point import STORED, Array, Point
from tests.simulator.validation.programs import Programs, build_all, flashinfer_headers
from tests.simulator.validation.simulated import Simulated, run_points


def main() -> int:
    """Compares a folder; the status is not 0 when an output is further off than its limit."""
    parser = argparse.ArgumentParser(description="Compare measurements with the simulator.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("build/validation"))
    options = parser.parse_args()
    try:
        measured = json.loads((options.folder / "validation.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"{options.folder}: no results of scripts/gpu/validate.py: {error}", file=sys.stderr)
        return 2
    if not str(measured["opened"]).startswith("cuda:"):
        print(f"{options.folder}: made on {measured['opened']}, not measured", file=sys.stderr)
        return 2
    try:
        report = compare(options.folder, measured, options.cache.resolve())
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    write_json(options.folder / "comparison.json", report)
    print(json.dumps(report, indent=1))
    return 0 if all(row["within"] for row in report.get("outputs", {}).values()) else 1


def compare(folder: Path, measured: dict[str, Any], cache: Path) -> dict[str, Any]:
    """Everything that the folder has results for.

    Raises:
        ToolchainNotFound: there is no compiler here.
    """
    tools = find_toolchain(os.environ)
    cache.mkdir(parents=True, exist_ok=True)
    headers = flashinfer_headers()
    programs = build_all(SOURCES, tools, cache, os.cpu_count() or 1, headers)
    report: dict[str, Any] = {
        "measured": {key: measured[key] for key in ("date", "commit", "nvcc")},
        "device": measured["device"].get("name"),
        "nvcc_here": tools.version,
        "missing": {"there": measured["missing"], "here": programs.missing},
    }
    profiled = counters.read_metrics(folder)
    names = {p.name for p in CHECKED}
    large = tuple(p for p in TIMED if p.name in profiled)
    checked = {s.point.name: s for s in run_points(programs, CHECKED)}
    if (folder / "outputs.json").is_file():
        report["outputs"] = _outputs(folder, checked)
    if profiled:
        code: dict[str, list[MachineBlock]] = {}
        for built in programs.built.values():
            code |= machine_code(built, tools)
        report["counters"] = _counters(folder, profiled, checked, code)
        ran = {s.point.name: s for s in run_points(programs, large)}
        report["dram"], report["larger"] = _larger(folder, profiled, ran.values(), code)
        report["written_back"] = counters.written_back(
            {n: (s, profiled[n]) for n, s in ran.items()}
        )
        report["profiled"] = [len(names & profiled.keys()), len(large)]
    if (folder / "times.json").is_file():
        report["times"] = _times(folder, programs)
    return report


def _outputs(folder: Path, checked: dict[str, Simulated]) -> dict[str, Any]:
    found = json.loads((folder / "outputs.json").read_text(encoding="utf-8"))
    rows: dict[str, Any] = {}
    with np.load(folder / "outputs.npz", allow_pickle=False) as stored:
        for name, there in found.items():
            if name not in checked or "failed" in there:
                continue
            here = checked[name]
            worst, within = 0.0, True
            for array in here.point.outputs:
                limit = here.point.ulps if array.ulps is None else array.ulps
                off = _off(here, array, there["outputs"][array.name], stored)
                worst, within = max(worst, off), within and off <= limit
            rows[name] = {
                "ulps": worst if np.isfinite(worst) else None,
                "limit": here.point.ulps,
                "within": within,
            }
    return rows


def _off(here: Simulated, array: Array, there: str, stored: Any) -> float:
    ours = here.outputs[array.name]
    if digest(ours) == there:
        return 0.0
    theirs = stored[there].view(STORED[array.dtype])
    return worst_ulps(ours, theirs, array.dtype, here.point.floor)


def _counters(
    folder: Path,
    profiled: counters.Rows,
    checked: dict[str, Simulated],
    code: dict[str, list[MachineBlock]],
) -> dict[str, Any]:
    classes = counters.read_classes(folder)
    found = {
        name: counters.counted(
            here, profiled[name], classes.get(name), code.get(here.launch.kernel)
        )
        for name, here in checked.items()
        if name in profiled
    }
    return counters.summary(found)


def _larger(
    folder: Path,
    profiled: counters.Rows,
    points: Iterable[Simulated],
    code: dict[str, list[MachineBlock]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Bytes from DRAM, and machine instructions, of points that are timed."""
    classes = counters.read_classes(folder)
    dram: dict[str, list[Counted]] = {}
    instructions: dict[str, list[Counted]] = {}
    for here in points:
        name = here.point.name
        machine = code.get(here.launch.kernel)
        dram[name] = counters.dram_read(here, profiled[name])
        found = counters.counted(here, profiled[name], classes.get(name), machine)
        instructions[name] = [c for c in found if counters.of_machine_code(c.metric)]
    return counters.summary(dram), counters.summary(instructions)


def _times(folder: Path, programs: Programs) -> dict[str, Any]:
    found = json.loads((folder / "times.json").read_text(encoding="utf-8"))["points"]
    held = listed()
    chosen: tuple[Point, ...] = tuple(p for p in TIMED if "us" in found.get(p.name, {}))
    rows = []
    for here in run_points(programs, chosen):
        there = found[here.point.name]
        rows.append(
            Timed(
                name=here.point.name,
                group=here.point.group,
                us=there["us"],
                low_us=there["low_us"],
                high_us=there["high_us"],
                modelled_us=round(here.modelled_us, 3),  # smaller differences order nothing
                held_out=here.point.name in held,
            )
        )
    stated = stated_error().unseen_gain.root_mean_square
    return {
        "stated_error": stated,
        **time_summary(rows, stated),
        "rows": {r.name: [r.us, r.low_us, r.high_us, r.modelled_us] for r in rows},
    }


if __name__ == "__main__":
    sys.exit(main())
