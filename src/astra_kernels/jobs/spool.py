"""A spool: jobs that one machine writes and others run, in a directory that may be copied by any means.

DIR/
  spool.json                 marks the directory, with its version
  jobs/NAME/                 a job directory; `manifest.json` is written last and lists every file with size and SHA-256
  results/NAME.json          what came of it, sealed, with the seal of the manifest that it answers
  faults/NAME/ID.json        a machine failed on it; one file for each time
  leases/NAME.json           who is working on it (`lease.py`)

Jobs, results and faults are written once and never changed, so directories are merged by copying what is missing, in any
order and as often as one likes. What is not whole is not read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from astra_kernels import __version__
from astra_kernels.errors import MachineFault, UserError
from astra_kernels.jobs.sealed import NotWhole, read_sealed, seal_of, sync_directory, write_sealed

MARKER, MANIFEST = "spool.json", "manifest.json"
JOBS, RESULTS, FAULTS, LEASES = "jobs", "results", "faults", "leases"
ATTEMPTS = 3
"""As often a machine may fail on a job before its run is told."""
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Marker:
    """Says that a directory is a spool."""

    made_by: str = f"astra {__version__}"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a job consists of, and what its run has to know again when it resumes."""

    name: str
    device: str
    seed: int
    """From which inputs are drawn."""
    hidden_seed: int | None
    """From which the job's hidden workloads were drawn."""
    written: str
    """UTC, ISO 8601; workers take the oldest first."""
    astra_version: str = __version__
    sizes: Mapping[str, int]
    """Bytes of every file, by path inside the job."""
    sha256: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a worker established: an evaluation, or why the job cannot be used."""

    job: str
    """Seal of the manifest that it answers."""
    evaluation: Mapping[str, object] | None
    """The evaluation as JSON; None for a job that cannot be used as it is."""
    refusal: str = ""
    worker: Mapping[str, str]
    """The machine: host, platform, Python."""
    finished: str
    """UTC, ISO 8601."""
    astra_version: str = __version__


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A machine failed on a job; nobody's kernel is to blame."""

    job: str
    detail: str
    worker: Mapping[str, str]


class Spool:
    """Reads and writes one spool directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @staticmethod
    def open(directory: Path) -> Spool:
        """Open an existing spool.

        Raises:
            UserError: the directory is no spool, or one that a newer version made.
        """
        try:
            read_sealed(directory / MARKER, Marker)
        except FileNotFoundError:
            raise UserError(
                f"{directory}: no spool here (no {MARKER}); `--evaluator spool:DIR` makes one in a new or empty DIR"
            ) from None
        except NotWhole as trouble:
            raise UserError(f"{directory}: cannot be used as a spool: {trouble}") from None
        return Spool(directory)

    @staticmethod
    def create(directory: Path) -> Spool:
        """Open a spool, or make one in a new or empty directory.

        Raises:
            UserError: the directory holds something else, is of a newer version, or cannot be written.
        """
        try:
            if not directory.exists() or all(p.name[0] == "." for p in directory.iterdir()):
                write_sealed(directory / MARKER, Marker())
        except MachineFault as fault:
            raise UserError(f"{fault}; choose another spool") from None
        except OSError as error:
            raise UserError(f"{directory}: cannot be a spool: {error.strerror or error}") from None
        return Spool.open(directory)

    def names(self) -> list[str]:
        """Every job that is here, whole or not."""
        try:
            return sorted(
                p.name for p in (self.directory / JOBS).iterdir() if not p.name.startswith(".")
            )
        except OSError:
            return []

    def job(self, name: str) -> Path:
        """Where a job lies or would lie."""
        return self.directory / JOBS / name

    def manifest(self, name: str) -> Manifest:
        """The manifest of a job all of whose files are here with their sizes.

        Raises:
            FileNotFoundError: there is no such job.
            NotWhole: files are missing or short; the message names them.
        """
        job = self.job(name)
        if not job.is_dir():
            raise FileNotFoundError(job)
        try:
            manifest = read_sealed(job / MANIFEST, Manifest)
        except FileNotFoundError:
            raise NotWhole(f"job {name} is incomplete: {MANIFEST} is missing") from None
        except NotWhole as trouble:
            raise NotWhole(f"job {name}: {trouble}") from None
        if manifest.name != name:
            raise NotWhole(f"job {name}: its manifest is of {manifest.name}")
        for path, size in manifest.sizes.items():
            _require_inside(name, path)
            try:
                found = (job / path).stat().st_size
            except OSError:
                raise NotWhole(f"job {name} is incomplete: {path} is missing") from None
            if found != size:
                raise NotWhole(f"job {name} is incomplete: {path} has {found} of {size} bytes")
        return manifest

    def add(self, manifest: Manifest, write: Callable[[Path], None]) -> Manifest:
        """Write a job under its name, unless it is there already; returns the manifest of what is there.

        Args:
            manifest: without files, which are listed here.
            write: fills a directory that does not exist yet.

        Raises:
            MachineFault: the disk is full or cannot be written; nothing half-written stays.
            NotWhole: the job is there, but not whole.
        """
        target = self.job(manifest.name)
        partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            write(partial)
            listed = _listed(manifest, partial)
            write_sealed(partial / MANIFEST, listed)
            sync_directory(partial)
            partial.rename(target)
        except (OSError, MachineFault) as error:
            if target.is_dir():  # another run was quicker with the same job
                return self.manifest(manifest.name)
            if isinstance(error, MachineFault):
                raise
            raise MachineFault(
                f"{target}: the job could not be written: {error.strerror or error}"
            ) from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        sync_directory(target.parent)
        for left in target.parent.glob(f".{target.name}.*"):  # by runs that were killed
            shutil.rmtree(left, ignore_errors=True)
        return listed

    def fetch(self, manifest: Manifest, target: Path) -> None:
        """Copy a job's files to `target`, and make sure that they are what the manifest says.

        Raises:
            NotWhole: the job is not whole, or was changed.
            MachineFault: `target` cannot be written.
        """
        for path, digest in manifest.sha256.items():
            _require_inside(manifest.name, path)
            copy = target / path
            try:
                source = (self.job(manifest.name) / path).open("rb")
            except OSError:
                raise NotWhole(f"job {manifest.name} is incomplete: {path} is missing") from None
            try:
                copy.parent.mkdir(parents=True, exist_ok=True)
                with source, copy.open("wb") as stream:
                    shutil.copyfileobj(source, stream, _CHUNK)
            except OSError as error:
                raise MachineFault(
                    f"{copy}: cannot be written: {error.strerror or error}"
                ) from None
            if _sha256(copy) != digest:
                raise NotWhole(
                    f"job {manifest.name} is incomplete or was changed: {path} has other contents"
                )

    def result(self, manifest: Manifest) -> Result | None:
        """What answers exactly this job, or None.

        Raises:
            NotWhole: there is something, but it is not whole or answers another job of the same name.
        """
        try:
            result = read_sealed(self._result_file(manifest.name), Result)
        except FileNotFoundError:
            return None
        except NotWhole as trouble:
            raise NotWhole(f"result {trouble}") from None
        if result.job != seal_of(manifest):
            raise NotWhole(f"result {manifest.name}.json answers another job of this name; ignored")
        return result

    def answer(self, manifest: Manifest, result: Result) -> None:
        """Write the result of a job, unless it has one.

        Raises:
            MachineFault: the disk is full or cannot be written.
        """
        with contextlib.suppress(NotWhole):
            if self.result(manifest) is not None:
                return
        write_sealed(self._result_file(manifest.name), result)

    def faults(self, manifest: Manifest) -> list[Fault]:
        """Each time that a machine failed on this job."""
        found: list[Fault] = []
        try:
            paths = sorted((self.directory / FAULTS / manifest.name).glob("[!.]*.json"))
        except OSError:
            return []
        for path in paths:
            with contextlib.suppress(FileNotFoundError, NotWhole):
                fault = read_sealed(path, Fault)
                if fault.job == seal_of(manifest):
                    found.append(fault)
        return found

    def add_fault(self, manifest: Manifest, fault: Fault) -> None:
        """Remember that a machine failed.

        Raises:
            MachineFault: the disk is full or cannot be written.
        """
        write_sealed(self.directory / FAULTS / manifest.name / f"{uuid.uuid4().hex}.json", fault)

    def _result_file(self, name: str) -> Path:
        return self.directory / RESULTS / f"{name}.json"


def _listed(manifest: Manifest, directory: Path) -> Manifest:
    """The manifest with every file of `directory`, each of them on disk."""
    files = sorted(p for p in directory.rglob("*") if p.is_file())
    for path in files:
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
    names = {p.relative_to(directory).as_posix(): p for p in files}
    return replace(
        manifest,
        sizes={n: p.stat().st_size for n, p in names.items()},
        sha256={n: _sha256(p) for n, p in names.items()},
    )


def _require_inside(name: str, path: str) -> None:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts:
        raise NotWhole(f"job {name}: {path} leads outside")


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
