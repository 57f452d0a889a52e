#!/usr/bin/env python3
"""Runs what was extracted from a framework on this machine's GPU, one process a job, and writes one JSON.

    scripts/stage JOBS PROBLEM... --original flashinfer        where Astra is installed
    scripts/gpu/extracted.py JOBS --out DIR [--cache DIR]      here

JOBS/NAME is a problem's baseline: it has to pass its gates, and it is timed against itself. JOBS/NAME-original
holds it to the outputs of the whole operator as the framework has it, element for element, and times it against
that one. Writes DIR/extracted.json. Needs Python, NumPy, cuda-bindings, nvcc, g++, the package apache-tvm-ffi
where operators take TensorView, and torch where they take at::Tensor; Astra is taken from this checkout.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

MEASURE = Path(__file__).with_name("measure.py")
_ORIGINAL = "-original"
_MOST_SAID = 2000


def main() -> int:
    """Runs every job; the status is 0 if all passed."""
    parser = argparse.ArgumentParser(description="Run extracted operators on this machine's GPU.")
    parser.add_argument(
        "jobs", type=Path, metavar="JOBS", help="the directory that scripts/stage wrote"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--commit", default="", metavar="SHA", help="what is measured, where git cannot tell"
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="share builds between jobs")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="for one job")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = sorted(p.name for p in options.jobs.iterdir() if p.is_dir())
    reports = {}
    for name in names:
        reports[name] = _measured(name, options)
        _write(
            options.out / "extracted.json", reports
        )  # what is there survives a machine that goes away
        print(f"{name}: {reports[name]['said']}", flush=True)
    return 0 if reports and all(r["passed"] for r in reports.values()) else 1


def _measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    out = options.out / name
    command = [sys.executable, str(MEASURE), str(options.jobs / name), "--out", str(out)]
    command += ["--commit", options.commit] if options.commit else []
    command += ["--cache", str(options.cache)] if options.cache else []
    target = out / "measurements.json"
    target.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=options.timeout, check=False
        )
        said = done.stderr[-_MOST_SAID:]
    except subprocess.TimeoutExpired:
        said = f"took longer than {options.timeout:g} s"
    if not target.is_file():
        return {"passed": False, "said": said or "wrote nothing"}
    report = json.loads(target.read_text())
    (outcome,) = report.pop("jobs").values()
    passed = outcome.get("outcome") == "passed"
    return {"passed": passed, "said": _said(outcome), **report, "outcome": outcome}


def _said(outcome: dict[str, Any]) -> str:
    """An outcome in a line."""
    if outcome.get("outcome") != "passed":
        parts = ("error", "outcome", "workload", "output", "rule", "detail")
        return "; ".join(str(outcome[p]) for p in parts if outcome.get(p))
    geomean = outcome.get("geomean") or {}
    if "ratio" not in geomean:
        return f"passed; {geomean.get('reason', 'not timed')}"
    low, high = geomean["ratio_low"], geomean["ratio_high"]
    return f"passed; against the baseline {geomean['ratio']:.4f} [{low:.4f}, {high:.4f}]"


def _write(target: Path, reports: dict[str, dict[str, Any]]) -> None:
    """Both jobs of a problem together, by the problem's name."""
    problems: dict[str, dict[str, Any]] = {}
    for name, report in reports.items():
        kind = "original" if name.endswith(_ORIGINAL) else "baseline"
        problems.setdefault(name.removesuffix(_ORIGINAL), {})[kind] = report
    target.write_text(
        json.dumps({"problems": problems}, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    sys.exit(main())
