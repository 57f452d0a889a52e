"""A directory of finished builds, found by what went into them and checked when they are read.

An entry is a directory `KEY[:2]/KEY` with `library.so` and `built.json`; it appears by one rename, so
that several processes may build the same thing at once, and the first to finish wins.
"""

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from astra_kernels.errors import MachineFault
from astra_kernels.json_text import parse_json
from astra_kernels.languages.cuda.diagnostics import Diagnostic
from astra_kernels.languages.cuda.elf import LibrarySymbols
from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.request import BuildRequest
from astra_kernels.languages.cuda.resources import KernelResources
from astra_kernels.languages.cuda.toolchain import Toolchain

_FORMAT = 2


class BuildCache:
    """Finished builds below one directory, and room for those in progress.

    Attributes:
        directory: where they lie; created when first needed.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Lends a fresh directory on the file system of the cache, deleted afterwards.

        Raises:
            MachineFault: the cache directory cannot be written.
        """
        with machine_faults(f"the build cache {self.directory} cannot be written"):
            in_progress = self.directory / "in-progress"
            in_progress.mkdir(parents=True, exist_ok=True)
            path = Path(tempfile.mkdtemp(dir=in_progress))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def read(self, key: str) -> Built | None:
        """The build of that key if it is there and undamaged."""
        entry = self._entry(key)
        try:
            record = parse_json((entry / "built.json").read_bytes())
            library = (entry / "library.so").read_bytes()
            if hashlib.sha256(library).hexdigest() != record["digest"]:
                return None
            return _restored(record, entry / "library.so")
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, key: str, built: Built) -> Built:
        """Moves a build from its scratch directory into the cache; returns what the cache holds.

        Raises:
            MachineFault: the cache directory cannot be written.
        """
        entry = self._entry(key)
        with machine_faults(f"the build cache {self.directory} cannot be written"):
            entry.parent.mkdir(parents=True, exist_ok=True)
            staged = Path(tempfile.mkdtemp(dir=built.library.parent))
            built.library.replace(staged / "library.so")
            record = {**dataclasses.asdict(built), "library": "library.so"}
            (staged / "built.json").write_text(json.dumps(record))
            while True:
                try:
                    staged.rename(entry)
                    return dataclasses.replace(built, library=entry / "library.so")
                except OSError as error:
                    if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                        raise
                if (theirs := self.read(key)) is not None:
                    return theirs
                with contextlib.suppress(FileNotFoundError):  # damaged, or another one removes it
                    entry.rename(staged.with_name(f"{staged.name}-damaged"))

    def _entry(self, key: str) -> Path:
        return self.directory / key[:2] / key


def cache_key(request: BuildRequest, toolchain: Toolchain) -> str:
    """Digests everything that a build depends on.

    Trusted include directories count by the names, sizes and times of their files.
    """
    parts = {
        "format": _FORMAT,
        "sources": dict(sorted(request.sources.items())),
        "flags": (*request.flags, "", *request.trusted_flags, "", *request.link_flags),
        "arch": request.arch,
        "includes": [[str(path), _fingerprint(path)] for path in request.include_dirs],
        "libraries": [_stamp(path) for path in request.libraries],
        "nvcc": [toolchain.version, str(toolchain.root), toolchain.cudart],
        "host": [str(toolchain.host.path), toolchain.host.version],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def machine_faults(what: str) -> Iterator[None]:
    """Turns a full disk, a read-only directory and the like into a MachineFault."""
    try:
        yield
    except OSError as error:
        raise MachineFault(f"{what}: {error.strerror or error}") from error


def _stamp(path: Path) -> str:
    with contextlib.suppress(OSError):
        status = path.stat()
        return f"{path} {status.st_size} {status.st_mtime_ns}"
    return str(path)


def _fingerprint(directory: Path) -> str:
    digest = hashlib.sha256()
    for parent, directories, files in os.walk(directory):
        directories.sort()
        for name in sorted(files):
            with contextlib.suppress(OSError):
                status = Path(parent, name).stat()
                digest.update(f"{parent}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _restored(record: dict[str, Any], library: Path) -> Built:
    symbols = {name: tuple(values) for name, values in record["symbols"].items()}
    return Built(
        library=library,
        digest=record["digest"],
        kernels=tuple(KernelResources(**kernel) for kernel in record["kernels"]),
        warnings=tuple(Diagnostic(**warning) for warning in record["warnings"]),
        symbols=LibrarySymbols(**symbols),
        wall_s=record["wall_s"],
        cached=True,
        sandbox=record["sandbox"],
        source_root=record["source_root"],
    )
