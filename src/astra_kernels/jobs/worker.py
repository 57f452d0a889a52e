"""Runs the jobs of a spool: `python -m astra_kernels.jobs.worker --spool DIR`.

Exit status: 0 when there is nothing left to do (`--drain`, `--once`), 2 for a directory that is no spool, 3 for a missing
compiler or package, 4 when this machine keeps failing or the spool cannot be written, 130 when it was interrupted. However
it ends, the job it was at can be taken by another worker.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

from astra_kernels import __version__
from astra_kernels.errors import AstraError, MachineFault, SetupError, UserError
from astra_kernels.jobs.hosting import host_job, job_environment
from astra_kernels.jobs.lease import RENEW_S, Holder, Leases
from astra_kernels.jobs.sealed import NotWhole, seal_of
from astra_kernels.jobs.spec import RESULT_FILE as OUTCOME
from astra_kernels.jobs.spec import JobSpec, read_spec, write_spec
from astra_kernels.jobs.spool import ATTEMPTS, LEASES, Fault, Manifest, Result, Spool
from astra_kernels.json_text import parse_json
from astra_kernels.languages.cuda.toolchain import find_toolchain

POLL_S = 0.5
_AGAIN_S = 5.0
_BAD_JOBS = 3
"""After faults on so many different jobs, with no success between them, it is the machine that is broken."""
_GPU_SIGNS = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")


RunJob = Callable[[Path, JobSpec, Callable[[], None]], None]
"""Runs a job directory to its `result.json`, and calls the function now and then while it does."""


@dataclass(frozen=True)
class Orders:
    """How a worker goes about it."""

    run: RunJob
    scratch: Path
    """Jobs are copied here, and removed when their results are written."""
    device: str | None = None
    """Runs jobs for a device of this kind, on this one; None runs every job on the device that it names."""
    once: bool = False
    """End after one job."""
    drain: bool = False
    """End when nothing is left to do."""


class Worker:
    """Takes jobs from one spool, one at a time, and writes what came of them."""

    def __init__(self, spool: Spool, leases: Leases, orders: Orders) -> None:
        self._spool = spool
        self._leases = leases
        self._orders = orders
        self._answered: set[str] = set()
        self._said: set[str] = set()
        self._bad: set[str] = set()
        self._unlike: dict[str, float] = {}
        """When a job's contents were found to be unlike its manifest; a copy may still be at it."""

    def work(self) -> None:
        """Work until nothing is left, as the orders say.

        Raises:
            SetupError: this machine lacks a compiler or package.
            MachineFault: this machine keeps failing, or the spool cannot be written.
        """
        while True:
            waiting = self._waiting()
            taken = next((m for m in waiting if self._leases.take(m.name)), None)
            if taken is not None:
                try:
                    done = self._do(taken)
                finally:
                    self._leases.release(taken.name)
                if done and self._orders.once:
                    return
            elif not waiting and (self._orders.drain or self._orders.once):
                return
            if taken is None:
                time.sleep(POLL_S)

    def _waiting(self) -> list[Manifest]:
        """Whole jobs without an answer that this worker can do; those that never failed, and the oldest, first."""
        found: list[tuple[int, str, str, Manifest]] = []
        for name in self._spool.names():
            try:
                manifest = self._spool.manifest(name)
            except FileNotFoundError:
                continue
            except NotWhole as trouble:
                self._say(f"{trouble}; skipped")
                continue
            unlike = time.monotonic() - self._unlike.get(name, -_AGAIN_S) < _AGAIN_S
            if self._suits(manifest) and not unlike and not self._is_answered(manifest):
                faults = len(self._spool.faults(manifest))
                if faults < ATTEMPTS:
                    found.append((faults, manifest.written, name, manifest))
        return [entry[-1] for entry in sorted(found, key=lambda entry: entry[:-1])]

    def _suits(self, manifest: Manifest) -> bool:
        """Whether the job's device is of the kind that this worker has."""
        kind = manifest.device.partition(":")[0]
        own = self._orders.device
        if own is not None:
            return kind == own.partition(":")[0]
        if kind == "cuda" and not any(Path(p).exists() for p in _GPU_SIGNS):
            self._say(f"job {manifest.name} is for {manifest.device}, and no GPU is here; skipped")
            return False
        return True

    def _is_answered(self, manifest: Manifest) -> bool:
        seal = seal_of(manifest)
        if seal not in self._answered:
            try:
                if self._spool.result(manifest) is None:
                    return False
            except NotWhole as trouble:
                self._say(str(trouble))
                return False
            self._answered.add(seal)
        return True

    def _do(self, manifest: Manifest) -> bool:
        """Run one job and write what came of it; whether anything did."""
        if self._is_answered(manifest):
            return False
        parent = _scratch_directory(self._orders.scratch)
        started = time.monotonic()
        try:
            self._spool.fetch(manifest, parent / "job")
            result = self._run(manifest, parent / "job")
        except NotWhole as trouble:
            self._say(f"{trouble}; skipped")
            self._unlike[manifest.name] = time.monotonic()
            return False
        finally:
            shutil.rmtree(parent, ignore_errors=True)
        if result is None:
            return True
        self._spool.answer(manifest, result)
        outcome = "cannot be used" if result.evaluation is None else result.evaluation["outcome"]
        print(f"{manifest.name}: {outcome} in {time.monotonic() - started:.1f} s", flush=True)
        return True

    def _run(self, manifest: Manifest, job: Path) -> Result | None:
        """The job's result; None when the machine failed, which is noted in the spool."""
        seal = seal_of(manifest)
        try:
            evaluation = self._evaluate(manifest, job)
        except UserError as error:
            return self._result(seal, None, str(error))
        except MachineFault as fault:
            print(f"{manifest.name}: the machine failed: {fault}", file=sys.stderr, flush=True)
            self._spool.add_fault(manifest, Fault(job=seal, detail=str(fault), worker=_facts()))
            self._bad.add(manifest.name)
            if len(self._bad) >= _BAD_JOBS:
                raise MachineFault(
                    f"{len(self._bad)} jobs in a row failed on this machine, last: {fault}"
                ) from None
            return None
        self._bad.clear()
        return self._result(seal, evaluation)

    def _evaluate(self, manifest: Manifest, job: Path) -> Mapping[str, object]:
        try:
            spec = read_spec(job)
        except (
            UserError
        ) as error:  # whole, so another version wrote it: not this worker's to answer
            text = str(error).removeprefix(f"{job}{os.sep}")
            raise NotWhole(
                f"job {manifest.name}, by Astra {manifest.astra_version}, cannot be read by {__version__}: {text}"
            ) from None
        if self._orders.device is not None and self._orders.device != spec.device:
            spec = replace(spec, device=self._orders.device)
            write_spec(job, spec)
        self._orders.run(job, spec, lambda: self._leases.renew(manifest.name))
        evaluation = parse_json((job / OUTCOME).read_text(encoding="utf-8"))
        if not isinstance(evaluation, dict):
            raise MachineFault(f"{job / OUTCOME}: no usable result")
        return evaluation

    def _result(
        self, seal: str, evaluation: Mapping[str, object] | None, refusal: str = ""
    ) -> Result:
        return Result(
            job=seal, evaluation=evaluation, refusal=refusal, worker=_facts(), finished=_now()
        )

    def _say(self, text: str) -> None:
        """Tell the user, once."""
        if text not in self._said:
            self._said.add(text)
            print(text, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m astra_kernels.jobs.worker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--spool", type=Path, required=True, metavar="DIR")
    parser.add_argument("--once", action="store_true", help="end after one job")
    parser.add_argument("--drain", action="store_true", help="end when nothing is left to do")
    parser.add_argument("--device", help="run the jobs for this kind of device on this one: cuda:1")
    parser.add_argument(
        "--cache", type=Path, help="keep builds here and share them between workers"
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        serve(options.spool, options.device, options.cache, once=options.once, drain=options.drain)
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the job in hand is free for another worker", file=sys.stderr)
        return 130
    return 0


def serve(
    directory: Path, device: str | None, cache: Path | None, *, once: bool, drain: bool
) -> None:
    """Work on a spool with this machine's compiler.

    Raises:
        UserError: no spool.
        SetupError: no compiler, or a package is missing.
        MachineFault: this machine keeps failing, or something cannot be written.
    """
    spool = Spool.open(directory)
    try:
        find_toolchain(os.environ)
    except SetupError as error:
        raise SetupError(
            f"a worker builds the kernels that it judges, but here is {error}"
        ) from None
    with _scratch() as scratch:
        environment, builds = job_environment(os.environ), cache or scratch / "builds"

        def run(job: Path, spec: JobSpec, pulse: Callable[[], None]) -> None:
            host_job(job, spec, environment, builds, pulse=pulse, pulse_s=RENEW_S)

        orders = Orders(run, scratch, device=device, once=once, drain=drain)
        leases = Leases(directory / LEASES, Holder.here())
        Worker(spool, leases, orders).work()


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    try:
        made = tempfile.TemporaryDirectory(prefix="astra-worker.", ignore_cleanup_errors=True)
    except OSError as error:
        raise MachineFault(f"no scratch directory: {error.strerror or error}; set TMPDIR") from None
    with made as name:
        yield Path(name)


def _scratch_directory(scratch: Path) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="job.", dir=scratch))
    except OSError as error:
        raise MachineFault(f"{scratch}: no room for a job: {error.strerror or error}") from None


def _facts() -> dict[str, str]:
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "astra": __version__,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: now the lease is given back
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
