"""JSON documents that say themselves whether they are whole, and writing so that no reader sees a half.

A sealed document carries the SHA-256 of its own fields. Whatever a copy leaves of it, a part, zeros, a mixture of two
versions, is noticed when it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import Field, asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from astra_kernels.errors import MachineFault
from astra_kernels.json_text import parse_json


class Record(Protocol):
    """A dataclass whose fields are JSON."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


AnyRecord = TypeVar("AnyRecord", bound=Record)
SCHEMA_VERSION = 1
_SEAL, _VERSION = "seal", "schema_version"


class NotWhole(Exception):
    """A document or directory is not, or not yet, what its writer wrote; the message says what is missing."""


def seal_of(record: Record) -> str:
    """The digest that stands for `record`."""
    return _digest({_VERSION: SCHEMA_VERSION, **asdict(record)})


def write_sealed(path: Path, record: Record) -> None:
    """Write `record`; under its name it appears whole or not at all, and it is on disk when this returns.

    Raises:
        MachineFault: the disk is full or the directory cannot be written.
    """
    fields = {_VERSION: SCHEMA_VERSION, **asdict(record)}
    text = json.dumps({**fields, _SEAL: _digest(fields)}, indent=1, allow_nan=False)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as stream:
                stream.write(text.encode())
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
    except OSError as error:
        raise MachineFault(f"{path}: cannot be written: {error.strerror or error}") from None


def read_sealed(path: Path, kind: type[AnyRecord]) -> AnyRecord:
    """Read a record back.

    Raises:
        FileNotFoundError: there is no such file.
        NotWhole: it is no whole document of this kind, or of a newer version.
    """
    try:
        raw = parse_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a part of the document"
        raise NotWhole(f"{path.name} is incomplete ({reason})") from None
    if not isinstance(raw, dict):
        raise NotWhole(f"{path.name} is not a sealed document")
    version = raw.get(_VERSION)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NotWhole(
            f"{path.name} was written by a newer Astra (schema {version}, this one reads {SCHEMA_VERSION})"
        )
    seal = raw.pop(_SEAL, None)
    if seal != _digest(raw):
        raise NotWhole(f"{path.name} is incomplete or was changed (its seal does not match)")
    del raw[_VERSION]
    try:
        return kind(**raw)
    except TypeError as error:
        raise NotWhole(f"{path.name} is no {kind.__name__.lower()}: {error}") from None


def sync_directory(directory: Path) -> None:
    """Make renames in `directory` durable, where the file system knows of such a thing."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _digest(fields: Mapping[str, object]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
