#!/usr/bin/env python3
"""Runs job directories on this machine's GPU and writes what came out as JSON.

    scripts/gpu/measure.py JOBDIR... --out DIR [--cache DIR]

Writes DIR/measurements.json: date, command, versions, and the full outcome of every job. Needs Python,
NumPy, cuda-bindings, nvcc and g++, and no installation: the package is taken from this checkout.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

from astra_kernels.errors import AstraError  # noqa: E402
from astra_kernels.jobs.run_job import run_job  # noqa: E402
from astra_kernels.records.evaluation import (  # noqa: E402
    Evaluation,
    Measured,
    NotEstablished,
    Passed,
    Timing,
)


def main() -> int:
    """Runs all jobs; a job without an outcome is recorded with its error, and the status is not 0."""
    options = _parser().parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, object] = {}
    failed = False
    for job in options.jobs:
        try:
            outcome = run_job(job, cache_dir=options.cache)
        except AstraError as error:
            results[job.name] = {"error": f"{type(error).__name__}: {error}"}
            print(f"{job.name}: {error}", file=sys.stderr)
            failed = True
            continue
        results[job.name] = dataclasses.asdict(outcome)
        print("\n".join(_lines(job.name, outcome)), flush=True)
    report = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": ["scripts/gpu/measure.py", *(job.name for job in options.jobs)],
        "commit": options.commit or _commit(),
        "machine": platform.platform(),
        "jobs": results,
    }
    target = options.out / "measurements.json"
    target.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print(f"wrote {target}")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run job directories on this machine's GPU.")
    parser.add_argument("jobs", nargs="+", type=Path, metavar="JOBDIR")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--commit", metavar="SHA", help="what is measured, where git cannot tell")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="share builds between jobs")
    return parser


def _lines(name: str, outcome: Evaluation) -> list[str]:
    lines = [f"{name}: {outcome.outcome} on {outcome.device} in {outcome.wall_s:.1f} s"]
    if isinstance(outcome, Passed):
        for row in outcome.workloads:
            lines += [f"  {row.uuid:32} {_time(row.timing)}"] if row.timing else []
        lines.append(f"  {'geometric mean':32} {_time(outcome.geomean)}")
    return lines


def _time(timing: Timing | None) -> str:
    if isinstance(timing, Measured):
        return (
            f"{timing.baseline_us:9.3f} us -> {timing.candidate_us:9.3f} us  "
            f"{timing.ratio:.3f}x [{timing.ratio_low:.3f}, {timing.ratio_high:.3f}]"
        )
    if isinstance(timing, NotEstablished):
        return f"not established: {timing.reason}"
    return "not timed" if timing is None else f"modelled {timing.candidate_us:.3f} us"


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


if __name__ == "__main__":
    sys.exit(main())
