"""Runs a command on a text: what it prints is bounded, and it ends with everything that it started."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 16
_ERRORS_BYTES = 1 << 14
_LOOK_S = 0.02
_CLOSING_S = 2.0
"""How long to wait for pipes that a process outside the group holds open."""


@dataclass(frozen=True)
class Printed:
    """What a command left behind."""

    status: int
    """Exit status; negative is the signal that ended it."""
    output: bytes
    errors: bytes
    """The beginning of what it wrote to standard error."""
    flooded: bool
    """It printed more than it may, and was ended."""


async def run_bounded(
    command: Sequence[str],
    text: str,
    directory: Path,
    environment: Mapping[str, str],
    most_bytes: int,
) -> Printed:
    """Give `text` to a command on standard input and take what it prints, up to `most_bytes`.

    However this ends (normally, cancelled, out of time), the whole process group is killed.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=directory,
        env=dict(environment),
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    output, errors = _Pipe(most_bytes), _Pipe(_ERRORS_BYTES)
    reading = asyncio.ensure_future(output.read(process.stdout, to_the_end=False))
    exiting = asyncio.ensure_future(_exit(process))
    others = [
        asyncio.ensure_future(errors.read(process.stderr, to_the_end=True)),
        asyncio.ensure_future(_feed(process, text.encode())),
    ]
    try:
        await asyncio.wait([reading, exiting], return_when=asyncio.FIRST_COMPLETED)
        if output.flooded:
            _kill(process)
        await exiting
        _kill(process)  # what it left running may hold the pipes open
        await asyncio.wait([reading, others[0]], timeout=_CLOSING_S)
        status = process.returncode
        assert status is not None, "it has ended"
        return Printed(status, output.data, errors.data, output.flooded)
    finally:
        _kill(process)
        for task in (reading, exiting, *others):
            task.cancel()
        await asyncio.wait(
            [reading, exiting, *others, asyncio.ensure_future(_exit(process))], timeout=_CLOSING_S
        )
        _close_pipes(process)


class _Pipe:
    """What came out of a pipe, up to a limit."""

    def __init__(self, most_bytes: int) -> None:
        self._kept = bytearray()
        self._most = most_bytes

    @property
    def data(self) -> bytes:
        return bytes(self._kept[: self._most])

    @property
    def flooded(self) -> bool:
        return len(self._kept) > self._most

    async def read(self, stream: asyncio.StreamReader, *, to_the_end: bool) -> None:
        """Read until there is nothing more, or until there is too much; with `to_the_end` that is thrown away."""
        while chunk := await stream.read(_CHUNK):
            self._kept += chunk[: self._most + 1 - len(self._kept)]
            if self.flooded and not to_the_end:
                return


async def _exit(process: asyncio.subprocess.Process) -> None:
    """Wait for the process alone: `Process.wait` also waits for whoever else holds its pipes."""
    while process.returncode is None:
        await asyncio.sleep(_LOOK_S)


def _kill(process: asyncio.subprocess.Process) -> None:
    """End the group, whose number is that of the process: it leads a session of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    """What was not read to its end stays open otherwise; asyncio has no public way to say so."""
    transport = getattr(process, "_transport", None)
    if isinstance(transport, asyncio.SubprocessTransport):
        transport.close()


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    """Write the prompt; a command that does not read it all is free to."""
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.close()
