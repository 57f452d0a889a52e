"""Who else is on a GPU: a lock between Astra's own jobs, and the driver's list of processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

_ASK_S = 20.0


@contextlib.contextmanager
def alone_on(device: str) -> Iterator[None]:
    """Waits until no other job of this machine uses `device`, and keeps others off meanwhile."""
    with _locked(device, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def among_others_on(device: str) -> Iterator[None]:
    """Waits until no job is alone on `device`; others may use it meanwhile as well."""
    with _locked(device, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def sole_tool_on(device: str) -> Iterator[None]:
    """Waits until no other of NVIDIA's tools watches `device`, and keeps others off meanwhile.

    Counters serve one profiler at a time, and of two compute-sanitizers that start together one may not find its
    program: both then wait until a deadline.
    """
    with alone_on(f"{device} tools"):
        yield


@contextlib.contextmanager
def _locked(device: str, kind: int) -> Iterator[None]:
    name = "".join(c if c.isalnum() else "-" for c in device)
    path = Path(tempfile.gettempdir(), f"astra-{os.getuid()}-{name}.lock")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, kind)
        yield
    finally:
        os.close(lock)


def other_processes(ordinal: int) -> tuple[str, ...] | None:
    """Processes that compute on the GPU now; None where nvidia-smi cannot say.

    To be asked while no process of this job holds the GPU.
    """
    command = [
        "nvidia-smi",
        f"--id={ordinal}",
        "--query-compute-apps=pid,process_name",
        "--format=csv,noheader",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())
