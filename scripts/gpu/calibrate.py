#!/usr/bin/env python3
"""How far this machine's comparisons can be trusted: A/A controls, and a kernel slowed by a known amount.

    scripts/gpu/calibrate.py JOBDIR... --out DIR [--repeat N]
    scripts/gpu/calibrate.py JOBDIR --slow 0.03 --axis tokens --out DIR [--repeat N] [--spins EARLIER.json]

Every job is judged `--repeat` times, each time in fresh processes with fresh allocations and fresh seeds. A job without a
candidate compares its baseline with itself: the interval of every workload should hold 1. With `--slow` its candidate is the
baseline with a spin in every block, adjusted by long runs until each workload is slower by that share; the axis is the one
that gridDim.x is. Writes DIR/NAME.json with every interval and every raw round.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

from astra_kernels.jobs.run_job import run_job  # noqa: E402
from astra_kernels.jobs.spec import read_spec, write_spec  # noqa: E402
from astra_kernels.jobs.timing import ROUNDS_FILE  # noqa: E402
from astra_kernels.records.describe import describe  # noqa: E402
from astra_kernels.records.evaluation import Measured, Passed  # noqa: E402


def main() -> None:
    """Judges every job as often as asked."""
    options = _parser().parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    comparisons: list[dict[str, Any]] = []
    environment: dict[str, str] = {}
    slowed: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        if options.slow:
            options.jobs = [Path(shutil.copytree(options.jobs[0], Path(scratch) / "slowed"))]
            slowed = _slow(options.jobs[0], options)
        for turn in range(options.repeat):
            for job in options.jobs:
                found, facts = _judge(job, turn, options)
                comparisons += found
                environment = facts or environment
    document = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": ["scripts/gpu/calibrate.py", *sys.argv[1:]],
        "commit": options.commit,
        "machine": platform.platform(),
        "environment": environment,
        "slowed_by": slowed,
        "comparisons": comparisons,
    }
    (options.out / f"{options.name}.json").write_text(json.dumps(document) + "\n")
    _summary(comparisons)


_SPIN = """\
__device__ __forceinline__ void astra_spin() {{
  long long cycles = 0;
  switch (gridDim.x) {{
{cases}
  }}
  const long long begin = clock64();
  while (clock64() - begin < cycles) {{
  }}
}}
"""
_FIRST_SPIN, _ADJUSTMENTS = 800.0, 4
_ADJUSTING_ROUNDS, _LONG_ROUNDS = 40, 300


def _slow(job: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Gives the job a candidate that is slower by `options.slow`; returns its size by a long run, by workload."""
    spec = read_spec(job)
    axes = {w.uuid: w.axes[options.axis] for w in spec.workloads if w.timed}
    write_spec(
        job,
        dataclasses.replace(
            spec, candidate=dataclasses.replace(spec.baseline, directory="candidate")
        ),
    )
    tried: list[dict[str, tuple[float, float]]] = []
    if options.spins:
        known = json.loads(options.spins.read_text())["slowed_by"]
        _write_slowed(job, {axes[row["workload"]]: row["cycles"] for row in known})
        return known
    spins = dict.fromkeys(axes, 0.0)
    for turn in range(_ADJUSTMENTS + 1):
        _write_slowed(job, {axes[uuid]: spin for uuid, spin in spins.items()})
        rounds = _LONG_ROUNDS if turn == _ADJUSTMENTS else _ADJUSTING_ROUNDS
        rows = _times(job, 500 + turn, options, rounds)
        tried.append({r["workload"]: (spins[r["workload"]], 1 / r["ratio"] - 1) for r in rows})
        print(
            {uuid: f"{spin:.0f}: {share:.4f}" for uuid, (spin, share) in tried[-1].items()},
            flush=True,
        )
        if turn < _ADJUSTMENTS:
            spins = {uuid: _next([found[uuid] for found in tried], options.slow) for uuid in axes}
    kept = ("workload", "ratio", "ratio_low", "ratio_high", "rounds", "baseline_us")
    return [{k: row[k] for k in kept} | {"cycles": round(spins[row["workload"]])} for row in rows]


def _times(job: Path, turn: int, options: argparse.Namespace, rounds: int) -> list[dict[str, Any]]:
    """The times of every workload; a judgement that gives none is repeated once, and then ends the run."""
    for again in range(2):
        rows, facts = _judge(job, turn + 100 * again, options, rounds=rounds)
        if facts:
            return rows
    sys.exit("no times to adjust the spin by")


def _next(tried: list[tuple[float, float]], wanted: float) -> float:
    """Cycles that should slow by `wanted`, on the line through the two nearest tries."""
    if len(tried) == 1:
        return _FIRST_SPIN
    (one, low), (two, high) = sorted(tried, key=lambda t: abs(t[1] - wanted))[:2]
    if abs(high - low) < wanted / 20:
        return two * 1.5
    return max(0.0, one + (wanted - low) * (two - one) / (high - low))


def _write_slowed(job: Path, spins: dict[int, float]) -> None:
    cases = "\n".join(
        f"    case {size}: cycles = {round(spin)}; break;" for size, spin in spins.items()
    )
    for name in read_spec(job).baseline.sources:
        text = (job / "baseline" / name).read_text()
        slowed = re.sub(r"(__global__[^{;]*\)\s*)\{", r"\1{\n  astra_spin();", text)
        (job / "candidate").mkdir(exist_ok=True)
        (job / "candidate" / name).write_text(_SPIN.format(cases=cases) + slowed)


def _judge(
    job: Path, turn: int, options: argparse.Namespace, *, rounds: int = 0
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """One judgement: a row for every workload."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "job"
        shutil.copytree(job, copy)
        spec = read_spec(copy)
        workloads = tuple(
            dataclasses.replace(w, seed=w.seed + 1000 * (turn + 1))
            for w in spec.workloads
            if w.timed
        )
        limits = dataclasses.replace(spec.limits, processes=options.processes)
        if rounds:
            limits = dataclasses.replace(limits, max_rounds=rounds, target_interval=0.0)
        write_spec(
            copy, dataclasses.replace(spec, workloads=workloads, limits=limits, profile=False)
        )
        outcome = run_job(copy, cache_dir=options.cache)
        if not isinstance(outcome, Passed):
            detail = describe(outcome)
            print(f"{job.name}: {outcome.outcome}: {detail}", flush=True)
            return [{"job": job.name, "outcome": outcome.outcome, "detail": detail}], {}
        raw = json.loads((copy / ROUNDS_FILE).read_text())
    rows = []
    for workload in outcome.workloads:
        row: dict[str, Any] = {"job": job.name, "turn": turn, "workload": workload.uuid}
        if workload.timing is not None:
            row |= dataclasses.asdict(workload.timing)
        rows.append(row | {"raw": raw["cold"][workload.uuid]})
    stages = " ".join(f"{k} {v:.1f}" for k, v in outcome.stage_s.items())
    print(
        f"{job.name}: {outcome.wall_s:.1f} s ({stages}) {[r.get('rounds') for r in rows]}",
        flush=True,
    )
    return rows, dict(outcome.environment)


def _summary(comparisons: list[dict[str, Any]]) -> None:
    rows = [c for c in comparisons if c.get("kind") == Measured.kind]
    off = [r for r in rows if not r["ratio_low"] <= 1 <= r["ratio_high"]]
    slower = [r for r in rows if r["ratio_high"] < 1]
    widths = sorted((r["ratio_high"] - r["ratio_low"]) / 2 / r["ratio"] for r in rows)
    print(
        f"{len(comparisons)} comparisons, {len(rows)} measured; {len(off)} intervals exclude 1, {len(slower)} below"
    )
    if widths:
        print(f"half-widths: median {widths[len(widths) // 2]:.5f}, largest {widths[-1]:.5f}")
    for row in off:
        print(
            f"  {row['job']} {row['workload']}: {row['ratio']:.4f} [{row['ratio_low']:.4f}, {row['ratio_high']:.4f}]"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", nargs="+", type=Path, metavar="JOBDIR")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--name", default="calibration", help="of the file that is written")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2, help="timing processes of a comparison")
    parser.add_argument("--slow", type=float, default=0.0, metavar="SHARE")
    parser.add_argument(
        "--spins", type=Path, metavar="FILE", help="take the spins of an earlier --slow"
    )
    parser.add_argument("--axis", default="tokens", help="which gridDim.x is, for --slow")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="share builds between jobs")
    parser.add_argument("--commit", default="", metavar="SHA", help="what is measured")
    return parser


if __name__ == "__main__":
    main()
