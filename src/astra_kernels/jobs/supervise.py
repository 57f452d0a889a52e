"""Starting a child in the sandbox, listening to it, and naming how it ended."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
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
from astra_kernels.jobs.conversation import KEY_BYTES, Conversation
from astra_kernels.jobs.memory import sealed
from astra_kernels.jobs.sandbox import (
    Completed,
    SandboxPolicy,
    gpu_policy,
    python_readable,
    run_sandboxed,
)
from astra_kernels.jobs.wire import Event, Request, Tampered

_MOST_BYTES = 64 << 20
"""Of all that a child says; the counters of a launch take two thousand."""
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
    """`crashed`, `timed_out`, or `tampered`: the candidate wrote to the pipe of its process."""
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
        self._refused: Ending | None = None
        key = secrets.token_bytes(KEY_BYTES)
        self._conversation = Conversation(request, key)
        self._answer_read, self._answer_write = os.pipe()
        self._go_read, self._go_write = os.pipe()
        self._request_fd = sealed("request", key + request.encode())
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
            if event.kind != "machine":
                yield event, arrived
            elif not self._conversation.loaded:
                _raise_machine(event)
            elif self._request.device.startswith("sim:"):
                self.refuse(Ending("crashed", event.detail, self._conversation.current))
            else:  # a real device can be lost at any time
                raise MachineFault(event.detail)

    def refuse(self, ending: Ending) -> None:
        """Makes what the child said its ending; the first reason stays."""
        self._refused = self._refused or ending

    def ending(self) -> Ending | None:
        """How the child ended, or None when it finished.

        Raises:
            MachineFault: the sandbox failed, memory ran out, or the child ended before it loaded a program.
        """
        self.stop()
        self._join()
        if self._failure is not None:
            raise self._failure
        completed = self._completed
        assert completed is not None
        self.sandbox = completed.sandbox
        self.output = completed.stdout
        conversation = self._conversation
        if self._refused is not None:
            return self._refused
        if completed.timed_out:
            detail = f"still running after {self._deadline_s:g} s"
            return Ending("timed_out", detail, conversation.current)
        if not conversation.loaded:
            raise MachineFault(f"before it loaded a program, {_words(completed)}")
        if conversation.complete and (completed.returncode == 0 or self._prefix):
            return None
        words = _words(completed)
        if self._request.device.startswith("sim:") and completed.returncode == -signal.SIGSEGV:
            words += "; host code cannot touch device memory, only kernels, copies and fills can"
        return Ending("crashed", words, conversation.current)

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        """Reads the answers as they come, so that a busy supervisor does not blur their times."""
        # Pieces of the line that has not ended are joined once, however many there are.
        pieces: list[bytes] = []
        said = 0
        try:
            while chunk := os.read(self._answer_read, 1 << 20):
                arrived = time.perf_counter()
                said += len(chunk)
                if said > _MOST_BYTES:
                    detail = f"more than {_MOST_BYTES >> 20} MiB came out of its pipe"
                    self.refuse(Ending("crashed", detail, self._conversation.current))
                    break
                first, *more = chunk.split(b"\n")
                pieces.append(first)
                for piece in more:
                    self._heard.put((self._conversation.accept(b"".join(pieces)), arrived))
                    pieces = [piece]
        except Tampered as reason:
            self.refuse(Ending("tampered", str(reason), self._conversation.current))
        finally:
            os.close(self._answer_read)  # what writes on is ended by SIGPIPE
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
        words = [sys.executable, "-s", "-P", "-m", "astra_kernels.jobs.child"]
        return [*self._prefix, *words, *(str(d) for d in descriptors)]

    def _policy(self, scratch: Path) -> SandboxPolicy:
        request = self._request
        files = [name for p in request.programs for name in (p.library, *p.preloads)]
        libraries = tuple(Path(name).resolve() for name in files)
        memory = [fd for call in request.calls for fd in (call.image_fd, *call.result_fds)]
        descriptors = (self._request_fd, self._answer_write, self._go_read, *memory)
        readable = python_readable()
        packages = [p for entry in sys.path if entry and (p := Path(entry).resolve()) in readable]
        environment = {
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
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
            readable=(*readable, *self._readable, *libraries, native, _CPU_INFO),
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
            try:
                wanted = heard(event, arrived)
            except Tampered as reason:
                child.refuse(Ending("tampered", str(reason), event.index))
                wanted = False
            if not wanted:
                stopped = True
                child.stop()
            elif event.kind == "done":
                child.go_on()
        ending = child.ending()
        refused = ending is not None and ending.kind == "tampered"
        return Finished(None if stopped and not refused else ending, child.sandbox, child.output)


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
