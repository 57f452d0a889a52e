"""A framework's own test in a patched copy of its tree, and what a check on a GPU has found."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

from pydantic import Field, ValidationError

from astra_kernels.errors import ExportRefused
from astra_kernels.exporters.proof import Proved
from astra_kernels.records.base import Record

_TAIL = 600


def run_test(command: str | None, copy: Path, deadline_s: float) -> Proved:
    """Runs a command line in a patched copy; not established without one."""
    name = "the framework's own test"
    if command is None:
        return Proved(name, False, 'none was given (--test "COMMAND")')
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=copy,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            _end(process)
            return Proved(name, False, f"`{command}` did not end within {deadline_s:g} s")
        except BaseException:
            _end(process)
            raise
    tail = said.decode(errors="replace").strip()[-_TAIL:]
    last = tail.splitlines()[-1] if tail else "it printed nothing"
    if process.returncode:
        return Proved(name, False, f"`{command}` ended with {process.returncode}: {last}", True)
    return Proved(name, True, f"`{command}` ended with 0: {last}")


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class EngagementRow(Record):
    """Which kernels a profiler saw at one size."""

    axes: dict[str, int]
    inside: bool
    kernels: tuple[str, ...]


class EngagementReport(Record):
    """What `check_engagement.py` writes."""

    namespace: str
    gpu: str
    rows: tuple[EngagementRow, ...] = Field(min_length=1)


def gpu_engagement(path: Path | None, namespace: str) -> Proved:
    """What the report of `check_engagement.py` says of this very change.

    Raises:
        ExportRefused: it cannot be read, or is about another change.
    """
    name = "engagement on a GPU"
    if path is None:
        return Proved(
            name, False, "could not be checked (check_engagement.py, then --engagement FILE)"
        )
    try:
        report = EngagementReport.model_validate(json.loads(path.read_bytes()))
    except (OSError, ValueError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise ExportRefused(
            f"--engagement {path}: no report of check_engagement.py: {first}"
        ) from None
    if report.namespace != namespace:
        raise ExportRefused(
            f"--engagement {path}: is about {report.namespace}, but this change is {namespace}"
        )
    for row in report.rows:
        new = [namespace in kernel for kernel in row.kernels]
        if not new or row.inside != any(new):
            sizes = ", ".join(f"{n} = {s}" for n, s in row.axes.items())
            where = "inside" if row.inside else "outside"
            return Proved(
                name,
                False,
                f"on {report.gpu}, {where} of the guard at {sizes}, ran {', '.join(row.kernels) or 'nothing'}",
                True,
            )
    inside = sum(r.inside for r in report.rows)
    said = (
        f"on {report.gpu} a profiler saw the new kernels at {inside} sizes inside of the guard, and at none of "
        f"{len(report.rows) - inside} outside"
    )
    return Proved(name, 0 < inside < len(report.rows), said)
