"""`manual:DIR`: a person, or another program, answers files.

DIR/NNNN-ROLE.request.md   what is asked
DIR/NNNN-ROLE.reply.md     the answer; it counts once it holds text and two looks at it see the same size and time
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from astra_kernels.errors import ModelFault, ModelRejected
from astra_kernels.models.text_model import Reply, TextModel
from astra_kernels.records.model_calls import Message, Role, request_key

_REQUEST, _REPLY = ".request.md", ".reply.md"
_LOOK_S = 0.5


async def _pause() -> None:
    """Between two looks for a reply."""
    await asyncio.sleep(_LOOK_S)


@dataclass
class Desk:
    """A directory of requests and replies, shared by all roles of a session."""

    directory: Path
    _used: set[Path] = field(default_factory=set)

    def place(self, role: Role, messages: tuple[Message, ...]) -> Path:
        """The file of a request: one of an earlier session that asks the same, else a new one; returns its reply's path.

        Raises:
            ModelRejected: the directory cannot be written.
        """
        text = _page(role, messages)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self._earlier(role, text) or self._new(role, text)
        except OSError as error:
            raise ModelRejected(
                f"manual:{self.directory}: cannot be written: {error.strerror or error}"
            ) from None
        self._used.add(path)
        return path.with_name(path.name.removesuffix(_REQUEST) + _REPLY)

    def _earlier(self, role: Role, text: str) -> Path | None:
        for path in sorted(self.directory.glob(f"*-{role}{_REQUEST}")):
            if path not in self._used and path.read_bytes() == text.encode():
                return path
        return None

    def _new(self, role: Role, text: str) -> Path:
        """Write a request under the next number, whole or not at all."""
        partial = self.directory / f".{os.getpid()}-{role}.partial"
        partial.write_bytes(text.encode())
        numbers = [p.name.partition("-")[0] for p in self.directory.glob(f"*{_REQUEST}")]
        number = max((int(n) for n in numbers if n.isdigit()), default=0) + 1
        try:
            while True:
                path = self.directory / f"{number:04}-{role}{_REQUEST}"
                try:
                    os.link(partial, path)  # fails where the name is taken, unlike a rename
                except FileExistsError:
                    number += 1
                else:
                    return path
        finally:
            partial.unlink()


class ManualModel(TextModel):
    """Waits for somebody to answer."""

    def __init__(
        self,
        name: str,
        desk: Desk,
        role: Role,
        deadline_s: float | None = None,
        pause: Callable[[], Awaitable[None]] = _pause,
    ) -> None:
        super().__init__(name, "manual")
        self._desk = desk
        self._role = role
        self._deadline_s = deadline_s
        self._pause = pause

    async def reply(self, messages: tuple[Message, ...], most_bytes: int) -> Reply:
        """Write the request and wait for its reply.

        Raises:
            ModelRejected: the directory cannot be written or read.
            ModelFault: nobody answered in time.
        """
        path = self._desk.place(self._role, messages)
        try:
            async with asyncio.timeout(self._deadline_s):
                return await self._wait_for(path, most_bytes)
        except TimeoutError as error:
            raise ModelFault(f"no {path.name} within {self._deadline_s:g} s") from error

    async def _wait_for(self, path: Path, most_bytes: int) -> Reply:
        seen: tuple[int, int] | None = None
        while True:
            now: tuple[int, int] | None = None
            with suppress(FileNotFoundError):
                state = path.stat()
                now = (state.st_size, state.st_mtime_ns)
            if now is not None and now == seen and (reply := _read(path, most_bytes)) is not None:
                return reply
            seen = now
            await self._pause()


def _read(path: Path, most_bytes: int) -> Reply | None:
    """The reply, or None while it holds no text."""
    try:
        with path.open("rb") as stream:
            data = stream.read(most_bytes + 1)
    except OSError as error:
        raise ModelRejected(f"{path}: cannot be read: {error.strerror or error}") from None
    text = data[:most_bytes].decode(errors="replace")
    if not text.strip():
        return None
    return Reply(text, finish="length" if len(data) > most_bytes else "stop")


def _page(role: Role, messages: tuple[Message, ...]) -> str:
    """A request as a person reads it. The key makes it the same in every session."""
    headings = {"system": "Instructions", "user": "Request", "assistant": "Your earlier answer"}
    head = f"<!-- {role}, request {request_key(role, messages)}. Answer in the file named .reply.md. -->\n"
    return head + "".join(f"\n# {headings[m.author]}\n\n{m.text}\n" for m in messages)
