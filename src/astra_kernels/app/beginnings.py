"""`astra init` and `astra extract`: write a problem, and say what was found and what was guessed."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.app.compose import build_cache
from astra_kernels.errors import UserError
from astra_kernels.extraction import extract as extracting
from astra_kernels.extraction import init as beginning
from astra_kernels.extraction.draft import ELEMENTS
from astra_kernels.extraction.trial import Trial

_OK, _NOT_PASSED = 0, 1


def init(
    kernel: Path, chosen: tuple[str | None, Path | None, str], *, check: bool, as_json: bool
) -> int:
    """Makes a problem from a file; `chosen` is the entry point, the directory and the element type."""
    entry, out, dtype = chosen
    _known(dtype)
    with _cache(check=check) as cache:
        made = beginning.init(
            beginning.Beginning(kernel, out or Path(entry or kernel.stem), entry, dtype, cache)
        )
    said = _Said(made.directory, made.operator.function.signature, made.notes, made.trial)
    return said.shown(own_oracle=made.own_oracle, as_json=as_json)


@dataclass(frozen=True)
class Asked:
    """What is to be taken out, as the command line says it."""

    symbol: str
    source: str
    out: Path | None
    at: str | None
    dtype: str
    dirty: bool
    compare: bool


def extract(asked: Asked, *, check: bool, as_json: bool) -> int:
    """Takes an operator out."""
    _known(asked.dtype)
    if not asked.symbol.rpartition("::")[2].strip():
        raise UserError("SYMBOL: give the name of an operator, a function or a kernel")
    if asked.compare and not check:
        raise UserError("--compare builds and runs the operator; leave out --no-check")
    with _cache(check=check) as cache:
        target = asked.out or Path(asked.symbol.rpartition("::")[2])
        made = extracting.extract(
            extracting.Wanted(
                asked.symbol,
                asked.source,
                target,
                at=asked.at,
                dtype=asked.dtype,
                cache=cache,
                dirty=asked.dirty,
                compare=asked.compare,
            )
        )
    said = _Said(
        made.directory, made.operator.function.signature, made.notes, made.trial, made.files
    )
    return said.shown(own_oracle=made.own_oracle, as_json=as_json)


def _known(dtype: str) -> None:
    if dtype not in ELEMENTS:
        raise UserError(f"--dtype {dtype}: use {', '.join(ELEMENTS)}")


@contextlib.contextmanager
def _cache(*, check: bool) -> Iterator[Path | None]:
    """Where builds are kept; None where nothing is to be built."""
    if not check:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="astra-builds-") as name:
        yield build_cache() or Path(name)


class _Said:
    """What is told about a new problem."""

    def __init__(
        self,
        directory: Path,
        signature: str,
        notes: tuple[str, ...],
        trial: Trial | None,
        files: tuple[str, ...] = (),
    ) -> None:
        self._directory, self._signature, self._notes = directory, signature, notes
        self._trial, self._files = trial, files

    def shown(self, *, own_oracle: bool, as_json: bool) -> int:
        """Prints it; the exit code."""
        trial = self._trial
        oracle = "the original kernel" if own_oracle else "reference.py"
        code = _OK if trial is None or trial.passed else _NOT_PASSED
        if as_json:
            content = {
                "directory": str(self._directory),
                "signature": self._signature,
                "oracle": oracle,
                "files": list(self._files),
                "notes": list(self._notes),
                "tried": None
                if trial is None
                else {"passed": trial.passed, "inputs": trial.inputs, "said": trial.said},
            }
            print(json.dumps(content, indent=2))
            return code
        print(f"{self._directory}: {self._signature}")
        if self._files:
            print(f"  files: {', '.join(self._files)}")
        print(f"  oracle: {oracle}")
        for note in self._notes:
            print(f"  {note}")
        if trial is None:
            print("  not tried")
        elif trial.passed:
            print(f"  passes on sim:h200, on {trial.inputs} inputs")
            first = "write run in reference.py if you can, then " if own_oracle else ""
            print(f"  next: {first}astra optimize {self._directory}")
        else:
            print(f"  written, but it does not pass on sim:h200: {trial.said}")
        return code
