"""Starting a sandboxed command, waiting for it, and making sure that all of it has ended."""

import contextlib
import functools
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from astra_kernels.errors import MachineFault
from astra_kernels.languages.sandbox.policy import SYSTEM_READABLE, SandboxPolicy

OUTPUT_LIMIT_BYTES = 1024**2
_LAUNCHER = Path(__file__).with_name("launch.py")
_GRACE_S = 2.0
_BUBBLEWRAP_PLACES = (Path("/usr/bin/bwrap"), Path("/bin/bwrap"), Path("/usr/local/bin/bwrap"))


@dataclass(frozen=True, slots=True)
class Completed:
    """How a sandboxed command ended.

    Attributes:
        returncode: its exit code, minus the signal that ended it, or None if it ran out of time.
        stdout: what it printed, at most 1 MiB and then a line that says how much is missing.
        stderr: likewise.
        timed_out: whether the deadline ended it.
        sandbox: what held it, for reports.
        wall_s: seconds from start to end.
    """

    returncode: int | None
    stdout: str
    stderr: str
    timed_out: bool
    sandbox: str
    wall_s: float


@dataclass(frozen=True, slots=True)
class SandboxLevel:
    """How well commands are held on this machine, and why not better."""

    name: str
    description: str
    reason: str


class _Capture:
    """Keeps the first megabyte of a stream and counts the rest."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._seen = 0

    def add(self, chunk: bytes) -> None:
        self._seen += len(chunk)
        self._kept += chunk[: OUTPUT_LIMIT_BYTES - len(self._kept)]

    def text(self) -> str:
        text = self._kept.decode(errors="replace")
        missing = self._seen - len(self._kept)
        return f"{text}\n[truncated: {missing} bytes more]\n" if missing else text


def run_sandboxed(command: Sequence[str], *, policy: SandboxPolicy) -> Completed:
    """Runs `command` under `policy` and returns when nothing of it is left.

    Args:
        command: program and arguments; the program is looked up on the policy's PATH.
        policy: what it may see and use.

    Raises:
        MachineFault: the sandbox could not be set up, or the program could not be started.
    """
    started = time.monotonic()
    status_read, status_write = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, status_read)
        try:
            launcher = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LAUNCHER), str(status_write)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={},
                start_new_session=True,
                pass_fds=(status_write, *policy.pass_fds),
            )
        except OSError as error:
            raise MachineFault(f"cannot start a process: {error}") from error
        finally:
            os.close(status_write)
        stack.callback(_end, launcher)
        with contextlib.suppress(BrokenPipeError):
            _stream(launcher.stdin).write(json.dumps(_specification(command, policy)).encode())
        _stream(launcher.stdin).close()
        captures, ended = _collect(launcher, started + policy.deadline_s)
        _end(launcher)
        status = os.read(status_read, 1 << 16).decode(errors="replace")
    stdout, stderr = (capture.text() for capture in captures)
    outcome = _outcome(status, stderr)
    wall_s = time.monotonic() - started
    if not ended:
        return Completed(None, stdout, stderr, True, outcome["sandbox"], wall_s)
    if "error" in outcome:
        raise MachineFault(f"the sandbox cannot run {command[0]}: {outcome['error']}")
    code = int(outcome["returncode"])
    if outcome["sandbox"].startswith("bubblewrap") and code > 128:
        code = 128 - code  # bubblewrap reports a signal the way a shell does
    return Completed(code, stdout, stderr, False, outcome["sandbox"], wall_s)


@functools.cache
def available_sandbox() -> SandboxLevel:
    """Tries the sandbox on this machine and says what it gives; the answer is kept."""
    with tempfile.TemporaryDirectory() as scratch:
        policy = SandboxPolicy(scratch=Path(scratch), deadline_s=20)
        try:
            description = run_sandboxed(["true"], policy=policy).sandbox
        except MachineFault as fault:
            return SandboxLevel("none", "nothing runs", str(fault))
    if description.startswith("bubblewrap"):
        return SandboxLevel("bubblewrap", description, "bubblewrap is installed and works")
    if description.startswith("landlock"):
        return SandboxLevel("landlock", description, f"{_bubblewrap()[1]}; the kernel has Landlock")
    return SandboxLevel(
        "rlimits only", description, f"{_bubblewrap()[1]}; the kernel has no Landlock"
    )


def _specification(command: Sequence[str], policy: SandboxPolicy) -> dict[str, Any]:
    bubblewrap = _bubblewrap()[0]
    environment = policy.full_environment()
    readable = [str(path) for path in (*SYSTEM_READABLE, *policy.readable)]
    writable = [str(path) for path in (policy.scratch, *policy.writable)]
    return {
        "command": _bubblewrapped(bubblewrap, command, policy) if bubblewrap else [*command],
        "bubblewrap": bubblewrap,
        "supervisor": os.getpid(),
        "cwd": str(policy.scratch),
        "environment": environment,
        "readable": readable,
        "writable": writable,
        "own_proc": Path("/proc") in policy.readable,
        "devices": [str(path) for path in policy.devices],
        "network": policy.network,
        "unix_sockets": policy.unix_sockets,
        "limits": {
            "RLIMIT_CORE": 0,
            "RLIMIT_FSIZE": policy.file_bytes,
            "RLIMIT_CPU": policy.cpu_s or int(4 * policy.deadline_s) + 1,
            "RLIMIT_NPROC": policy.processes + _tasks_of_user(),
        },
    }


def _bubblewrapped(path: str, command: Sequence[str], policy: SandboxPolicy) -> list[str]:
    words = [path, "--die-with-parent", "--unshare-ipc", "--unshare-pid", "--cap-drop", "ALL"]
    words += [] if policy.network else ["--unshare-net"]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for name in ("sys", "sysrq-trigger", "irq", "bus", "fs"):  # root could write to them
        words += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    readable = (path for path in policy.readable if path != Path("/proc"))
    for option, paths in (
        ("--ro-bind-try", (*SYSTEM_READABLE, *readable)),
        ("--dev-bind-try", policy.devices),
        ("--bind-try", (policy.scratch, *policy.writable)),
    ):
        words += [word for place in paths for word in (option, str(place), str(place))]
    return [*words, "--chdir", str(policy.scratch), "--", *command]


@functools.cache
def _bubblewrap() -> tuple[str | None, str]:
    """Finds bubblewrap and tries it once; returns its path or None, and the reason."""
    for place in _BUBBLEWRAP_PLACES:
        if place.is_file():
            trial = [str(place), "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "true"]
            done = subprocess.run(trial, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return str(place), "bubblewrap works"
            return None, f"bubblewrap does not work here: {done.stderr.strip()[:200]}"
    return None, "bubblewrap is not installed"


def _tasks_of_user() -> int:
    """Counts the tasks of this user: RLIMIT_NPROC counts all of them, not only the sandbox's."""
    user, tasks = os.getuid(), 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if process.stat().st_uid == user:
                    tasks += len(list((process / "task").iterdir()))
    return tasks


def _outcome(status: str, stderr: str) -> dict[str, Any]:
    """Joins the lines that the launcher wrote: what holds the command, then how it ended."""
    outcome: dict[str, Any] = {"sandbox": "unknown"}
    for line in status.splitlines():
        outcome |= json.loads(line)
    if "returncode" not in outcome:
        outcome.setdefault("error", stderr.strip()[-500:] or "the launcher ended early")
    return outcome


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _collect(launcher: "subprocess.Popen[bytes]", deadline: float) -> tuple[list[_Capture], bool]:
    """Reads both streams until they end; returns them and whether that was before the deadline."""
    captures = [_Capture(), _Capture()]
    with selectors.DefaultSelector() as selector:
        for stream, capture in zip((launcher.stdout, launcher.stderr), captures, strict=True):
            selector.register(_stream(stream), selectors.EVENT_READ, capture)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return captures, False
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, 1 << 16)
                if chunk:
                    key.data.add(chunk)
                else:
                    selector.unregister(key.fileobj)
    try:
        launcher.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return captures, False
    return captures, True


def _end(launcher: "subprocess.Popen[bytes]") -> None:
    """Ends the launcher and with it everything below; closes its streams."""
    if launcher.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            launcher.send_signal(signal.SIGTERM)
        try:
            launcher.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(launcher.pid, signal.SIGKILL)
            launcher.wait()
    for stream in (launcher.stdin, launcher.stdout, launcher.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
