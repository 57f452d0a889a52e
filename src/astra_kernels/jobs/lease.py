"""Who works on a job of a spool: one worker at a time, and another one when that has died.

A lease is a file that its holder touches every `RENEW_S` seconds. It counts for nothing once nobody touched it for
`LEASE_S` seconds by the clock of whoever looks: clocks of two machines are never compared. On the holder's own machine
a look at its process is quicker. Two workers on one job would do no harm, only work twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from astra_kernels.errors import MachineFault
from astra_kernels.json_text import parse_json

RENEW_S = 15.0
LEASE_S = 120.0


@dataclass(frozen=True)
class Holder:
    """A worker process."""

    id: str
    host: str
    machine: str
    """The kernel that runs it, and its process namespace: what makes a process number mean something."""
    pid: int
    started: str
    """When the process began, in the kernel's ticks."""

    @staticmethod
    def here() -> Holder:
        """This process."""
        pid = os.getpid()
        return Holder(uuid.uuid4().hex, platform.node(), _machine(), pid, _start_of(pid) or "")


class Leases:
    """The leases of one spool, as one worker sees them."""

    def __init__(self, directory: Path, holder: Holder, *, lease_s: float = LEASE_S) -> None:
        self._directory = directory
        self._holder = holder
        self._lease_s = lease_s
        self._seen: dict[str, tuple[tuple[bytes, int], float]] = {}

    def take(self, name: str) -> bool:
        """Take the lease of a job, unless a live worker holds it.

        Raises:
            MachineFault: the directory cannot be written.
        """
        path = self._path(name)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if self._create(path):
                return True
            return self._remove_stale(name) and self._create(path)
        except OSError as error:
            raise MachineFault(f"{path}: cannot be written: {error.strerror or error}") from None

    def renew(self, name: str) -> None:
        """Show that the holder lives."""
        with contextlib.suppress(OSError):
            os.utime(self._path(name))

    def release(self, name: str) -> None:
        """Give the lease back, if it is still held."""
        path = self._path(name)
        with contextlib.suppress(OSError):
            if _read(path)[0] == self._text():
                path.unlink()

    def _create(self, path: Path) -> bool:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return False
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(self._text())
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return True

    def _remove_stale(self, name: str) -> bool:
        """Remove the lease of a worker that is dead; whether it is gone."""
        path = self._path(name)
        try:
            found = _read(path)
        except FileNotFoundError:
            return True
        now = time.monotonic()
        before = self._seen.get(name)
        if before is None or before[0] != found:
            self._seen[name] = before = (found, now)
        if not _ended_here(found[0]) and now - before[1] < self._lease_s:
            return False
        aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            path.rename(aside)
        except FileNotFoundError:
            return True
        if _read(aside)[0] != found[0] and not path.exists():
            aside.rename(path)  # another worker had taken it over in between
            return False
        aside.unlink()
        return True

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"

    def _text(self) -> bytes:
        return json.dumps(asdict(self._holder), indent=1).encode()


def _read(path: Path) -> tuple[bytes, int]:
    """What a lease says, and when it was last touched, by the clock of its file system."""
    return path.read_bytes(), path.stat().st_mtime_ns


def _ended_here(text: bytes) -> bool:
    """Whether a lease is of a process of this machine that has ended."""
    try:
        holder = Holder(**parse_json(text))
    except (ValueError, TypeError):
        return False
    return bool(holder.started) and (
        holder.machine == _machine() and _start_of(holder.pid) != holder.started
    )


def _machine() -> str:
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return uuid.uuid4().hex  # unknown: nobody else's processes can be looked at


def _start_of(pid: int) -> str | None:
    """When a live process began; None when there is none, or only its remains."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]
