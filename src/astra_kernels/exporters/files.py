"""Problems, kernels and diffs as files."""

from __future__ import annotations

import difflib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from astra_kernels.errors import RunError
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.problem import Problem
from astra_kernels.records.solution import Solution, SourceFile


def write_problem(problem: Problem, directory: Path, data_root: Path | None = None) -> None:
    """Write `problem` as a problem directory that loads back equal.

    Header packages are written as plain sources, so the copy needs nothing installed. `data_root` is
    where the safetensors files lie.

    Raises:
        RunError: when the directory exists already or cannot be written; nothing half-written stays.
    """
    if directory.exists():
        raise RunError(f"{directory}: exists already")
    spec = problem.spec.model_copy(update={"headers": ()})
    solution = Solution(
        name=f"{problem.name}_baseline",
        definition=problem.name,
        spec=spec,
        sources=tuple(SourceFile(path=p) for p in problem.baseline.sources),
    )
    files = {
        "definition.json": problem.definition.model_dump_json(indent=1),
        "workload.jsonl": "".join(
            w.model_dump_json(exclude_none=True) + "\n" for w in problem.workloads
        ),
        "reference.py": problem.reference,
        "baseline/solution.json": solution.model_dump_json(indent=1, exclude_none=True),
        **{f"baseline/{p}": text for p, text in problem.baseline.sources.items()},
    }
    if problem.provenance is not None:
        files["provenance.json"] = problem.provenance.model_dump_json(indent=1) + "\n"
    try:
        with whole_or_not_at_all(directory) as staging:
            _write_files(staging, files)
            for item in problem.data:
                target = staging / item.path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile((data_root or Path()) / item.path, target)
    except OSError as error:
        raise RunError(f"{directory}: cannot be written: {error.strerror or error}") from None


@contextmanager
def whole_or_not_at_all(directory: Path) -> Iterator[Path]:
    """A place to fill, which becomes `directory` when all is well and is gone when it is not.

    Raises:
        OSError: it cannot be made, or `directory` holds something.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        yield staging
        staging.chmod(0o755)
        staging.rename(directory)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def write_candidate(candidate: Candidate, baseline: Candidate, directory: Path) -> Path:
    """Write the files in which `candidate` differs from `baseline`, and `changes.diff`; returns the diff's path.

    Raises:
        RunError: when the directory cannot be written.
    """
    changed = {p: t for p, t in candidate.sources.items() if baseline.sources.get(p) != t}
    diff = directory / "changes.diff"
    try:
        _write_files(directory, {**changed, "changes.diff": diff_text(baseline, candidate)})
    except OSError as error:
        raise RunError(f"{directory}: cannot be written: {error.strerror or error}") from None
    return diff


def diff_text(old: Candidate, new: Candidate) -> str:
    """A unified diff, over every file that either has."""
    parts: list[str] = []
    for path in sorted(old.sources.keys() | new.sources.keys()):
        before, after = old.sources.get(path, ""), new.sources.get(path, "")
        if before != after:
            lines = difflib.unified_diff(
                before.splitlines(keepends=True),
                after.splitlines(keepends=True),
                f"a/{path}",
                f"b/{path}",
            )
            parts += [
                line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
                for line in lines
            ]
    return "".join(parts)


def _write_files(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_bytes(text.encode())
        partial.replace(path)
