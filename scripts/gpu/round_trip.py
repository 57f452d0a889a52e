#!/usr/bin/env python3
"""Builds a small framework, applies a patch to a copy of it, tests both, and times one against the other.

    scripts/gpu/round_trip.py --out DIR [--framework DIR] [--patch FILE] [--operator NAME] [--sizes TxH ...]

For a machine with a GPU: needs torch with CUDA, nvcc, git, and pytest for the framework's own tests; no network.
Writes DIR/round_trip.json: what was built, what its tests said, which kernels a profiler saw at every size before
and after the patch, and device times, old and new in turn. Times are of CUDA graph replays with warm caches, each
version in a process of its own.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("round_trip_worker.py")
SIZES = ("1x128", "16x1000", "64x4096", "128x8192", "1024x8192")
_TAIL = 2000


@dataclass
class Step:
    """One command, or one that could not be run."""

    name: str
    command: list[str]
    status: int | None
    """None: it was not run."""
    tail: str
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether it ran and ended with 0."""
        return self.status == 0


@dataclass
class Size:
    """What was seen at one size."""

    tokens: int
    hidden: int
    old_kernels: list[str]
    new_kernels: list[str]
    engaged: bool
    """Whether the patched version ran a kernel that the original did not."""
    same_bits: bool
    max_abs_difference: float
    old_us: list[float]
    new_us: list[float]
    ratio: float
    """Median over the rounds of old over new: above 1 the patched version is faster."""
    ratio_low: float
    """2.5 % quantile of the rounds."""
    ratio_high: float


class Worker:
    """One version of the framework in a process of its own; answers a request a line."""

    def __init__(self, framework: Path) -> None:
        command = [sys.executable, str(WORKER), str(framework)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=framework
        )

    def ask(self, **request: object) -> dict[str, object]:
        """The answer to a request; ends the program if there is none."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {process.args} ended with {process.wait()}")
        answer: dict[str, object] = json.loads(line)
        return answer

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def main() -> int:
    """Does all steps that can be done; 1 where one failed."""
    options = _parser().parse_args()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    steps: list[Step] = []
    sizes: list[Size] = []
    old = _copy(options.framework, out / "old")
    steps += _built_and_tested(old, "old", options.jobs)
    if options.patch is not None:
        new = _copy(options.framework, out / "new")
        steps.append(_patched(new, options.patch.resolve(), options.strip))
        if steps[-1].passed:
            steps += _built_and_tested(new, "new", options.jobs)
        if all(s.passed for s in steps if not s.name.startswith("test")):
            sizes = _compared(old, new, options, out)
    report = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": ["scripts/gpu/round_trip.py", *sys.argv[1:]],
        "machine": platform.platform(),
        "python": platform.python_version(),
        "operator": options.operator,
        "how": "CUDA graph replays, caches warm, old and new in turn, one process each, medians of rounds",
        "steps": [asdict(step) for step in steps],
        "sizes": [asdict(size) for size in sizes],
    }
    target = out / "round_trip.json"
    target.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    for step in steps:
        print(
            f"{step.name}: {'passed' if step.passed else f'status {step.status}'} in {step.seconds:.0f} s"
        )
        if not step.passed:
            print(step.tail)
    for one in sizes:
        print(
            f"{one.tokens:5} x {one.hidden:5}  {statistics.median(one.old_us):8.3f} us -> "
            f"{statistics.median(one.new_us):8.3f} us  {one.ratio:.3f} [{one.ratio_low:.3f}, {one.ratio_high:.3f}]  "
            f"{'new kernel' if one.engaged else 'old kernel'}, largest difference {one.max_abs_difference:g}"
        )
    print(f"wrote {target}")
    return 0 if all(step.passed for step in steps) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Build, patch, test and time a small framework.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--framework", type=Path, default=ROOT / "tests/framework/minillm", metavar="DIR"
    )
    parser.add_argument("--patch", type=Path, metavar="FILE", help="what git apply takes")
    parser.add_argument(
        "--strip", type=int, default=1, metavar="N", help="parts to take off the patch's paths"
    )
    parser.add_argument("--operator", default="silu_and_mul", metavar="NAME")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), metavar="TOKENSxHIDDEN")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=8, help="files that are compiled at a time")
    return parser


def _copy(framework: Path, target: Path) -> Path:
    """A fresh copy without what was built."""
    shutil.rmtree(target, ignore_errors=True)
    ignored = shutil.ignore_patterns("build", "*.so", "__pycache__")
    shutil.copytree(framework, target, ignore=ignored)
    return target


def _run(name: str, command: list[str], place: Path, **environment: str) -> Step:
    begun = datetime.datetime.now(datetime.UTC)
    try:
        done = subprocess.run(
            command, cwd=place, env={**os.environ, **environment}, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    except OSError as error:
        return Step(name, command, None, str(error))
    seconds = (datetime.datetime.now(datetime.UTC) - begun).total_seconds()
    return Step(name, command, done.returncode, done.stdout[-_TAIL:], seconds)


def _built_and_tested(place: Path, name: str, jobs: int) -> list[Step]:
    built = _run(f"build {name}", [sys.executable, "build.py", "--jobs", str(jobs)], place)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    if importlib.util.find_spec("pytest") is None:
        return [built, Step(f"test {name}", command, None, "pytest is not installed")]
    if not built.passed:
        return [built, Step(f"test {name}", command, None, "it is not built")]
    return [built, _run(f"test {name}", command, place)]


def _patched(place: Path, patch: Path, strip: int) -> Step:
    """Applies a patch as if the copy were in no repository, where git would leave out what lies elsewhere."""
    command = ["git", "apply", f"-p{strip}", "--verbose", str(patch)]
    step = _run("apply", command, place, GIT_CEILING_DIRECTORIES=str(place.parent))
    if step.passed and "Applied patch" not in step.tail:
        step.status = 1
        step.tail += "\nnothing was applied; do the paths fit (--strip)?"
    return step


def _compared(old: Path, new: Path, options: argparse.Namespace, out: Path) -> list[Size]:
    workers = {"old": Worker(old), "new": Worker(new)}
    found: list[Size] = []
    try:
        for text in options.sizes:
            tokens, hidden = (int(part) for part in text.split("x"))
            what = {"operator": options.operator, "tokens": tokens, "hidden": hidden}
            saved = str(out / "outputs.pt")
            kernels = {n: w.ask(do="profile", **what)["kernels"] for n, w in workers.items()}
            workers["old"].ask(do="save", path=saved, **what)
            difference = workers["new"].ask(do="compare", path=saved, **what)
            times: dict[str, list[float]] = {"old": [], "new": []}
            for index in range(options.rounds):
                for name in ("old", "new") if index % 2 == 0 else ("new", "old"):
                    times[name].append(float(str(workers[name].ask(do="time", **what)["us"])))
            ratios = sorted(a / b for a, b in zip(times["old"], times["new"], strict=True))
            found.append(
                Size(
                    tokens=tokens,
                    hidden=hidden,
                    old_kernels=_names(kernels["old"]),
                    new_kernels=_names(kernels["new"]),
                    engaged=not {*_names(kernels["new"])} <= {*_names(kernels["old"])},
                    same_bits=bool(difference["same_bits"]),
                    max_abs_difference=float(str(difference["max_abs"])),
                    old_us=times["old"],
                    new_us=times["new"],
                    ratio=statistics.median(ratios),
                    ratio_low=ratios[round(0.025 * (len(ratios) - 1))],
                    ratio_high=ratios[round(0.975 * (len(ratios) - 1))],
                )
            )
    finally:
        for worker in workers.values():
            worker.close()
    return found


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []


if __name__ == "__main__":
    sys.exit(main())
