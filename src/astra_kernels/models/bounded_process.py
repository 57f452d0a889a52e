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
    feeding = asyncio.ensure_future(_feed(process, text.encode()))
    complaining = asyncio.ensure_future(_read(process.stderr, _ERRORS_BYTES, drain=True))
    try:
        output, flooded = await _read(process.stdout, most_bytes, drain=False)
        if flooded:
            _kill(process)
        status = await process.wait()
        _kill(process)  # what it left running holds the pipe of errors open
        errors, _ = await complaining
        return Printed(status, output, errors, flooded)
    finally:
        _kill(process)
        feeding.cancel()
        complaining.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(feeding, complaining, return_exceptions=True)
        await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    """End the group, whose number is that of the process: it leads a session of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    """Write the prompt; a command that does not read it all is free to."""
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.close()


async def _read(stream: asyncio.StreamReader, most: int, *, drain: bool) -> tuple[bytes, bool]:
    """Up to `most` bytes, and whether there were more; with `drain` the rest is thrown away."""
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        kept += chunk[: most + 1 - len(kept)]
        if len(kept) > most and not drain:
            break
    return bytes(kept[:most]), len(kept) > most
