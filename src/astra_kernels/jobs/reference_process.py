"""The reference in a process of its own, so that it can hang, leave or crash without harm to the job.

The process is a copy of the worker, made before that has threads; it ends with the worker. Questions and
answers are pickled into memory files, whose descriptors go over a socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import pickle
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Literal, NoReturn

from astra_kernels.errors import AstraError, MachineFault, SetupError, UserError
from astra_kernels.jobs.inputs import Inputs, InputSource
from astra_kernels.jobs.oracle import Expected, Oracle
from astra_kernels.jobs.reference import Reference
from astra_kernels.jobs.spec import JobSpec, WorkloadSpec

REFERENCE_FILE = "reference.py"
_DIE_WITH_PARENT = 1
_NO_ROOM = 75
"""Exit status when a message cannot be written."""
_ERRORS: dict[str, type[AstraError]] = {"UserError": UserError, "SetupError": SetupError}


class ReferenceProcess:
    """The reference of one job: its custom inputs and its answers."""

    def __init__(self, spec: JobSpec, job_dir: Path) -> None:
        """Starts the process and loads the module.

        Raises:
            UserError: the module is missing, does not parse, raises, hangs, or ends its process.
            SetupError: it needs a package that is missing.
            MachineFault: no process can be started.
        """
        self._seconds = spec.limits.oracle_s
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        worker = os.getpid()
        try:
            self._process = os.fork()
        except OSError as error:
            raise MachineFault(f"cannot start a process: {error}") from error
        if self._process == 0:
            self._socket.close()
            _serve(spec, job_dir, other, worker)
        other.close()
        try:
            self._answer("when loaded")
        except AstraError:
            self.close()
            raise

    def inputs(self, workload: WorkloadSpec, *, repeating: bool) -> Inputs:
        """Inputs of a workload that has custom ones.

        Raises:
            UserError: the custom function fails, hangs, or ends its process.
        """
        self._ask(("inputs", workload, repeating))
        made: Inputs = self._answer("while it made inputs")
        return made

    def expected(self, workload: WorkloadSpec, inputs: Inputs) -> Expected:
        """The wanted outputs for `inputs`.

        Raises:
            UserError: the reference fails, hangs, or ends its process.
        """
        self._ask(("expected", workload, inputs))
        answer: Expected = self._answer(f"on workload {workload.uuid}")
        return answer

    def kill(self) -> None:
        """Ends the process from another thread than the one that waits for an answer, which then fails."""
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)

    def close(self) -> None:
        """Ends the process."""
        self._end()

    def _ask(self, question: tuple[Literal["inputs", "expected"], WorkloadSpec, Any]) -> None:
        if self._process == 0:
            raise UserError(f"{REFERENCE_FILE}: the reference's process has ended")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the answer says why
            _send(self._socket, question)

    def _answer(self, when: str) -> Any:
        ready, _, _ = select.select([self._socket], [], [], self._seconds)
        if not ready:
            self._end()
            raise UserError(
                f"{REFERENCE_FILE}: the reference took more than {self._seconds:g} s {when}"
            )
        received = _receive(self._socket)
        if received is None:
            ending = self._end()
            if ending == _status(_NO_ROOM):
                raise MachineFault(f"no memory for an answer of the reference {when}")
            raise UserError(f"{REFERENCE_FILE}: the reference ended its process {when} ({ending})")
        kind, value = received
        if kind == "answer":
            return value
        raise _ERRORS.get(kind, MachineFault)(value)

    def _end(self) -> str:
        """Ends the process, if it has not; says how it ended."""
        if self._process == 0:
            return ""
        self._socket.close()
        os.kill(self._process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
        self._process = 0
        return _status(code) if code >= 0 else signal.Signals(-code).name


def _status(code: int) -> str:
    return f"exit status {code}"


def _serve(spec: JobSpec, job_dir: Path, connection: socket.socket, worker: int) -> NoReturn:
    """The life of the process."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.disable()  # the worker says how this process ended
    me = os.getpid()
    if os.getppid() != worker:
        os._exit(1)
    try:
        path = job_dir / REFERENCE_FILE
        served = _Served(spec, job_dir, path)
        answer: tuple[str, Any] = ("answer", None)
        while os.getpid() == me:  # the reference may have forked
            _send(connection, answer)
            question = _receive(connection)
            if question is None:
                break
            answer = served.answer(question)
    except AstraError as error:
        _send(connection, _failure(error))
    except OSError:  # no memory for a message, or nobody listens any more
        os._exit(_NO_ROOM)
    finally:
        os._exit(0)


class _Served:
    """What the process holds."""

    def __init__(self, spec: JobSpec, job_dir: Path, path: Path) -> None:
        self._spec, self._job_dir = spec, job_dir
        self._reference = Reference(path)
        self._oracle = Oracle(spec, self._reference, path)

    def answer(self, question: tuple[str, WorkloadSpec, Any]) -> tuple[str, Any]:
        kind, workload, value = question
        try:
            if kind == "inputs":
                source = InputSource(self._spec, self._job_dir, self._reference, repeating=value)
                return "answer", source.make(workload)
            expected = self._oracle.expected(workload, value)
            self._oracle.forget(workload)
            return "answer", expected
        except AstraError as error:
            return _failure(error)
        except MemoryError:
            return "UserError", f"{REFERENCE_FILE}: no memory for an answer of the reference"
        except Exception as error:  # the process edge: what the reference returned is unfit
            return "UserError", f"{REFERENCE_FILE}: its answer cannot be used: {error}"


def _failure(error: AstraError) -> tuple[str, str]:
    kind = next((name for name, t in _ERRORS.items() if isinstance(error, t)), "MachineFault")
    return kind, str(error)


def _send(connection: socket.socket, content: object) -> None:
    descriptor = os.memfd_create("reference", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        pickle.dump(content, file, protocol=5)
        file.flush()
        socket.send_fds(connection, [b"."], [descriptor])


def _receive(connection: socket.socket) -> Any:
    """What was sent; None when the other side has ended."""
    try:
        data, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    except ConnectionResetError:
        return None
    if not data or not descriptors:
        return None
    with os.fdopen(descriptors[0], "rb") as file:
        file.seek(0)
        return pickle.load(file)
