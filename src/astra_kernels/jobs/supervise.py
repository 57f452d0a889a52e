"""Starting a child in the sandbox, listening to it, and naming how it ended."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from astra_kernels.devices.sim import built_simulator
from astra_kernels.errors import MachineFault, SetupError, UserError
from astra_kernels.jobs.memory import sealed
from astra_kernels.jobs.sandbox import (
    Completed,
    SandboxPolicy,
    gpu_policy,
    python_readable,
    run_sandboxed,
)
from astra_kernels.jobs.wire import Event, Request, decode_event

_LONGEST_LINE = 64 << 20
_CPU_INFO = Path("/proc/cpuinfo")
"""Read by the simulator to find the library that was built for this processor."""
_LEAD = 2
"""Calls that a child may be ahead of the verdicts."""


@dataclass(frozen=True)
class Setting:
    """How a child is started.

    Attributes:
        deadline_s: seconds for all of it.
        readable: what it must read besides Python and the libraries of the request.
        prefix: a tool that starts it, such as a profiler, with its arguments.
    """

    deadline_s: float
    readable: tuple[Path, ...] = ()
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ending:
    """A child that did not finish what it was asked."""

    kind: str
    """`crashed` or `timed_out`."""
    detail: str
    index: int
    """The call in progress, -1 for none."""


class Child:
    """One child at work; iterate over `events()` until they end, then ask `ending`."""

    def __init__(self, request: Request, setting: Setting) -> None:
        self._request = request
        self._deadline_s = setting.deadline_s
        self._prefix = setting.prefix
        self._readable = (*setting.readable, Path(request.cuda_runtime).resolve().parent)
        self._completed: Completed | None = None
        self._failure: BaseException | None = None
        self._finished = False
        self._current = -1
        self._answer_read, self._answer_write = os.pipe()
        self._go_read, self._go_write = os.pipe()
        self._request_fd = sealed("request", request.encode())
        self._heard: queue.SimpleQueue[tuple[Event, float] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name="child", daemon=True)
            for work in (self._run, self._listen)
        ]
        self.sandbox = ""
        self.output = ""

    def __enter__(self) -> Child:
        for thread in self._threads:
            thread.start()
        for _ in range(_LEAD):
            self.go_on()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._join()
        os.close(self._answer_read)
        os.close(self._request_fd)

    def go_on(self) -> None:
        """Allows one more call."""
        if self._go_write >= 0:
            with contextlib.suppress(BrokenPipeError):  # it has ended; `ending` says how
                os.write(self._go_write, b"+")

    def stop(self) -> None:
        """Lets the child end before its next call."""
        if self._go_write >= 0:
            os.close(self._go_write)
            self._go_write = -1

    def events(self) -> Iterator[tuple[Event, float]]:
        """Every event with the supervisor's clock when it arrived, in seconds.

        Raises:
            MachineFault: the machine failed.
            SetupError: the child lacks a package.
            UserError: the device is unknown.
        """
        while (heard := self._heard.get()) is not None:
            event, arrived = heard
            if event.kind == "begin":
                self._current = event.index
            if event.kind == "end":
                self._finished = True
            if event.kind == "machine":
                _raise_machine(event)
            yield event, arrived

    def ending(self) -> Ending | None:
        """How the child ended, or None when it finished.

        Raises:
            MachineFault: the sandbox failed, or memory ran out.
        """
        self.stop()
        self._join()
        if self._failure is not None:
            raise self._failure
        completed = self._completed
        assert completed is not None
        self.sandbox = completed.sandbox
        self.output = completed.stdout
        if completed.timed_out:
            detail = f"still running after {self._deadline_s:g} s"
            return Ending("timed_out", detail, self._current)
        if self._finished:
            return None
        return Ending("crashed", _words(completed), self._current)

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        """Reads the answers as they come, so that a busy supervisor does not blur their times."""
        rest = b""
        while chunk := os.read(self._answer_read, 1 << 20):
            arrived = time.perf_counter()
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                rest = b""  # not ours: the candidate wrote to the pipe
            for line in lines:
                with contextlib.suppress(ValueError):  # likewise
                    self._heard.put((decode_event(line), arrived))
        self._heard.put(None)

    def _run(self) -> None:
        killed_before = _kills_for_memory()
        try:
            with tempfile.TemporaryDirectory(prefix="astra-child-") as scratch:
                self._completed = run_sandboxed(self._command(), policy=self._policy(Path(scratch)))
            killed = self._completed.returncode == -signal.SIGKILL
            if killed and _kills_for_memory() > killed_before:
                self._failure = MachineFault("the kernel ended the child: out of memory")
        except BaseException as error:  # handed to the thread that asks for the ending
            self._failure = error
        finally:
            for descriptor in (self._answer_write, self._go_read):
                os.close(descriptor)

    def _command(self) -> list[str]:
        descriptors = (self._request_fd, self._answer_write, self._go_read)
        words = [sys.executable, "-s", "-m", "astra_kernels.jobs.child"]
        return [*self._prefix, *words, *(str(d) for d in descriptors)]

    def _policy(self, scratch: Path) -> SandboxPolicy:
        request = self._request
        libraries = tuple(Path(p.library).resolve() for p in request.programs)
        memory = [fd for call in request.calls for fd in (call.image_fd, *call.result_fds)]
        descriptors = (self._request_fd, self._answer_write, self._go_read, *memory)
        path = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
        environment = {
            "PYTHONPATH": path,
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        if not request.device.startswith("sim:"):
            policy = gpu_policy(
                scratch,
                self._deadline_s,
                readable=(*self._readable, *libraries),
                environment=environment,
                pass_fds=descriptors,
            )
            if not self._prefix:
                return policy
            # A profiler talks to the process that it starts over TCP, and the driver names the threads
            # of that process, whose number is not known yet, through /proc.
            return replace(policy, network=True, writable=(*policy.writable, Path("/proc")))
        native = built_simulator()  # here, because the child cannot write to the cache
        return SandboxPolicy(
            scratch=scratch,
            deadline_s=self._deadline_s,
            readable=(*python_readable(), *self._readable, *libraries, native, _CPU_INFO),
            environment={**environment, "XDG_CACHE_HOME": str(native.parents[3])},
            pass_fds=descriptors,
        )


@dataclass(frozen=True)
class Finished:
    """A child that is gone: how, if it did not finish its task or was stopped; its sandbox and output."""

    ending: Ending | None
    sandbox: str
    output: str


def run_child(
    request: Request, setting: Setting, heard: Callable[[Event, float], bool]
) -> Finished:
    """Runs a child to its end; `heard` gets every event and returns False to stop early."""
    with Child(request, setting) as child:
        stopped = False
        for event, arrived in child.events():
            if stopped:
                continue
            if heard(event, arrived):
                if event.kind == "done":
                    child.go_on()
            else:
                stopped = True
                child.stop()
        ending = child.ending()
        return Finished(None if stopped else ending, child.sandbox, child.output)


def _raise_machine(event: Event) -> None:
    kinds: dict[str, type[Exception]] = {"UserError": UserError, "SetupError": SetupError}
    raise kinds.get(str(event.data.get("error")), MachineFault)(event.detail)


def _words(completed: Completed) -> str:
    code = completed.returncode
    tail = completed.stderr.strip().splitlines()[-1:] or [""]
    said = f"; it said: {tail[0][:300]}" if tail[0] else ""
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"the process was ended by {name}{said}"
    return f"the process exited with status {code} in the middle of the call{said}"


def _kills_for_memory() -> int:
    """How many processes the kernel has ended for lack of memory; 0 where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
