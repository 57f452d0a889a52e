"""The run directory: an append-only log and the sources it mentions. The only state of a run; the only writer.

RUN/
  events.jsonl     one event a line, flushed to disk before it counts
  sources/HASH     the text of every source file of every candidate, once
  texts/HASH       every message to and from a language model, once
  problem/         the problem as it was when the run began
  best/            the winning files and changes.diff, written at the end
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from astra_kernels.errors import MachineFault, RunError
from astra_kernels.json_text import parse_json
from astra_kernels.near import near_names
from astra_kernels.records.run import Event

EVENTS = "events.jsonl"
SOURCES = "sources"
TEXTS = "texts"
_KIND = re.compile(rb'"event":"(\w+)"')
_HEAD = 120
"""Bytes of a line that hold its time and its kind; records are written with them first."""
_EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))


class RunStore:
    """Appends to and reads one run directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @staticmethod
    def create(directory: Path) -> RunStore:
        """Make a new, empty run directory.

        Raises:
            RunError: when it exists and is not empty, or cannot be written.
        """
        existed = directory.exists()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise RunError(
                    f"{directory}: not empty; choose another --run, or go on with --resume {directory}"
                )
            (directory / SOURCES).mkdir()
            probe = directory / ".writable"
            probe.write_bytes(b"\0" * 4096)
            probe.unlink()
        except OSError as error:
            RunStore(directory).discard(keep=existed)
            raise RunError(
                f"{directory}: cannot be written: {error.strerror or error}; choose another --run"
            ) from None
        return RunStore(directory)

    def discard(self, *, keep: bool) -> None:
        """Take back a run that could not be started; with `keep` the directory stays, empty."""
        with suppress(OSError):
            for entry in self.directory.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            if not keep:
                self.directory.rmdir()

    @staticmethod
    def open(directory: Path) -> RunStore:
        """Open an existing run directory.

        Raises:
            RunError: when it holds no run.
        """
        if not (directory / EVENTS).is_file():
            near = near_names(directory, EVENTS) or "; astra runs FOLDER lists those of a folder"
            raise RunError(f"{directory}: no run here (no {EVENTS}){near}")
        return RunStore(directory)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for one writer.

        Raises:
            RunError: when another process writes to it.
        """
        try:
            stream = (self.directory / ".lock").open("w")
        except OSError as error:
            raise RunError(
                f"{self.directory}: cannot be written: {error.strerror or error}"
            ) from None
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunError(
                    f"{self.directory}: another process is working on this run"
                ) from None
            yield

    def append(self, event: Event) -> None:
        """Append one event; it is on disk when this returns.

        Raises:
            MachineFault: when the disk is full or gone. The log stays readable: a torn line is cut at the next append or read.
        """
        raw = _EVENT.dump_python(event, mode="json")
        try:
            self._externalise(raw)
            line = (json.dumps(raw, allow_nan=False, separators=(",", ":")) + "\n").encode()
            with (self.directory / EVENTS).open("ab") as stream:
                start = stream.tell()
                try:
                    stream.write(line)
                    stream.flush()
                    os.fsync(stream.fileno())
                except OSError:
                    stream.truncate(start)
                    raise
        except OSError as error:
            raise MachineFault(
                f"{self.directory}: the run could not be written: {error.strerror or error}; "
                f"free some space, then go on with --resume {self.directory}"
            ) from None

    def cut_torn_line(self) -> None:
        """Remove a last line that a killed writer left unfinished."""
        path = self.directory / EVENTS
        data = path.read_bytes()
        if data and not data.endswith(b"\n"):
            with path.open("r+b") as stream:
                stream.truncate(data.rfind(b"\n") + 1)

    def kinds(self) -> list[str]:
        """What kind of event each line of the log is, by its beginning; "" where that does not say.

        Raises:
            RunError: when the log cannot be read.
        """
        return [_kind(line) for line in self._lines()]

    def events(self, *, words: bool = True, without: Collection[str] = ()) -> list[Event]:
        """Every event so far, oldest first; an unfinished last line does not count.

        Args:
            words: False leaves messages to and from models as the digests that the log has in their place.
            without: kinds of events that are skipped unread, but for the last one.

        Raises:
            RunError: when the log is damaged; the message names the line.
        """
        path = self.directory / EVENTS
        lines = self._lines()
        events = []
        for number, line in enumerate(lines, start=1):
            if number < len(lines) and _kind(line) in without:
                continue
            try:
                raw = parse_json(line)
                self._internalise(raw, words=words)
                events.append(_EVENT.validate_python(_tuples(raw)))
            except (ValueError, ValidationError, OSError, AttributeError) as error:
                raise RunError(
                    f"{path}:{number}: damaged event: {str(error).splitlines()[0]}"
                ) from None
        return events

    def _lines(self) -> list[bytes]:
        path = self.directory / EVENTS
        try:
            return path.read_bytes().split(b"\n")[:-1]
        except OSError as error:
            raise RunError(f"{path}: cannot be read: {error.strerror or error}") from None

    def _externalise(self, raw: dict[str, Any]) -> None:
        """Move source texts and messages out of the event, into files named by their hash."""
        for place, key, directory in _texts(raw):
            place[key] = self._put(directory, place[key])

    def _put(self, directory: str, text: str) -> str:
        data = text.encode()
        digest = hashlib.sha256(data).hexdigest()
        target = self.directory / directory / digest
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            partial = target.with_suffix(".partial")
            with partial.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(target)
        return digest

    def _internalise(self, raw: dict[str, Any], *, words: bool) -> None:
        for place, key, directory in _texts(raw):
            if directory == TEXTS and not words:
                continue
            path = self.directory / directory / place[key]
            if not path.is_file():
                raise ValueError(f"{directory}/{place[key]} is missing")
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest() != place[key]:
                raise ValueError(f"{directory}/{place[key]} was changed")
            place[key] = data.decode()


def _kind(line: bytes) -> str:
    found = _KIND.search(line, 0, _HEAD)
    return "" if found is None else found[1].decode()


def _texts(raw: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Where an event holds long texts, and the directory that they are kept in."""
    candidate = raw.get("candidate")
    if isinstance(candidate, dict):
        sources = candidate["sources"]
        yield from ((sources, path, SOURCES) for path in sources)
    if raw.get("event") == "model_asked":
        yield from ((message, "text", TEXTS) for message in raw["messages"])
    if raw.get("event") == "model_answered":
        yield raw, "text", TEXTS


def _tuples(value: Any) -> Any:
    """JSON arrays as tuples, which frozen records hold."""
    if isinstance(value, list):
        return tuple(_tuples(v) for v in value)
    if isinstance(value, dict):
        return {k: _tuples(v) for k, v in value.items()}
    return value
