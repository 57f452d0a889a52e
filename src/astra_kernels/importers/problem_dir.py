"""Problem directories: FlashInfer-Bench's and SOL-ExecBench's files, with our optional extensions.

PROBLEM/
  definition.json
  workload.jsonl            one Workload, or one Trace that holds one, a line
  reference.py              unless definition.json embeds the reference
  provenance.json           where the baseline was taken from, if `astra extract` did it
  baseline/solution.json    with real source files beside it; or `--baseline FILE::function`
"""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from astra_kernels.errors import ProblemError
from astra_kernels.importers.headers import include_closure
from astra_kernels.json_text import parse_json
from astra_kernels.near import near_names
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.definition import Definition
from astra_kernels.records.problem import DataFile, Problem
from astra_kernels.records.provenance import Provenance
from astra_kernels.records.solution import Solution, SolutionSpec, SourceFile
from astra_kernels.records.workload import SafetensorsInput, Workload

_Record = TypeVar("_Record", bound=BaseModel)
_MAX_FILE_BYTES = 64 << 20
DEFINITION = "definition.json"
PROVENANCE = "provenance.json"
_CUDA = (".cu", ".cuh")
_NO_REFERENCE = '"""No reference: outputs are compared with those of the original kernel."""\n'


def load_problem(directory: Path, baseline: str | None = None) -> Problem:
    """Load and validate a problem directory.

    Args:
        directory: the problem directory.
        baseline: `FILE.cu::function`, a `solution.json`, or a directory that holds one; default `DIRECTORY/baseline`.

    Raises:
        ProblemError: naming the file and field, and what to do.
        SetupError: when headers of a package that is not installed are needed.
    """
    if directory.is_file():
        advice = f"; astra init {directory} makes one" if directory.suffix in _CUDA else ""
        raise ProblemError(f"{directory}: is a file, and a problem is a directory{advice}")
    if not directory.is_dir():
        near = near_names(directory, DEFINITION)
        raise ProblemError(f"{directory}: not a problem directory (no such directory){near}")
    definition = _parse(Definition, directory / DEFINITION)
    workloads = _load_workloads(directory, definition)
    spec, candidate = _load_baseline(directory, definition, baseline)
    origin = directory / PROVENANCE
    reference, notes = _load_reference(directory, definition)
    try:
        return Problem(
            definition=definition.model_copy(update={"reference": None}),
            workloads=workloads,
            reference=reference,
            notes=notes,
            spec=spec,
            baseline=candidate,
            data=_data_files(directory, workloads),
            provenance=_parse(Provenance, origin)
            if origin.is_file() and baseline is None
            else None,
        )
    except ValidationError as error:
        raise ProblemError(f"{directory}: {_first_error(error)}") from None


def load_candidate(problem: Problem, path: Path) -> Candidate:
    """Read a candidate: one file in place of the baseline's entry file, or a directory with the baseline's paths.

    Files that the candidate does not bring are the baseline's. A directory may hold a `solution.json`.

    Raises:
        ProblemError: when it cannot be read or holds no source file.
    """
    if path.is_file() and path.suffix != ".json":
        changed = {problem.spec.entry_file: _read_text(path)}
    elif path.is_dir() and not (path / "solution.json").is_file():
        files = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in _SOURCE_SUFFIXES)
        if not files:
            raise ProblemError(
                f"{path}: no source file ({', '.join(sorted(_SOURCE_SUFFIXES))}) in this directory"
            )
        changed = {p.relative_to(path).as_posix(): _read_text(p) for p in files}
    else:
        spec, candidate = _load_solution(path, problem.definition)
        if spec.entry_symbol != problem.spec.entry_symbol:
            raise ProblemError(
                f"{path}: spec.entry_point names {spec.entry_symbol!r}; a drop-in must keep {problem.spec.entry_symbol!r}"
            )
        changed = dict(candidate.sources)
    return Candidate(
        sources={**problem.baseline.sources, **changed},
        parent=problem.baseline.id,
        title=f"from {path.name}",
    )


_SOURCE_SUFFIXES = frozenset({".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".inl"})


def _load_workloads(directory: Path, definition: Definition) -> tuple[Workload, ...]:
    path = directory / "workload.jsonl"
    if not path.is_file() and (directory / "workloads.jsonl").is_file():
        path = directory / "workloads.jsonl"
    workloads = []
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        raw = _json(line, f"{path}:{number}")
        if "workload" in raw:
            if raw.get("definition", definition.name) != definition.name:
                raise ProblemError(
                    f"{path}:{number}: definition: {raw['definition']!r}, expected {definition.name!r}"
                )
            raw = raw["workload"]
        workload = _validate(Workload, raw, f"{path}:{number}")
        try:
            workload.check_against(definition)
        except ValueError as error:
            raise ProblemError(f"{path}:{number}: {error}") from None
        workloads.append(workload)
    if not workloads:
        raise ProblemError(f"{path}: no workload; give at least one line of JSON")
    return tuple(workloads)


def _load_reference(directory: Path, definition: Definition) -> tuple[str, tuple[str, ...]]:
    """The reference, and what a user should know about it.

    SOL-ExecBench's folders have both: the one in the definition counts, the file beside it is for readers.
    """
    path = directory / "reference.py"
    where = f"{directory / 'definition.json'}: reference"
    beside = _read_text(path) if path.is_file() else None
    if definition.reference:
        embedded = _checked_reference(definition.reference, where)
        if beside is None or _tree(beside, str(path)) == _tree(embedded, where):
            return embedded, ()
        return embedded, (
            f"{path} differs from the reference in definition.json, which is the one that counts",
        )
    if definition.oracle == "baseline":
        if beside is not None:
            _parsed(beside, str(path))
        return beside or _NO_REFERENCE, ()
    if beside is None:
        raise ProblemError(
            f"{directory}: no reference: put one in reference.py, or embed it in definition.json as `reference`"
        )
    return _checked_reference(beside, str(path)), ()


def _checked_reference(source: str, where: str) -> str:
    if "run" not in {
        n.name for n in ast.parse(_parsed(source, where)).body if isinstance(n, ast.FunctionDef)
    }:
        raise ProblemError(f"{where}: defines no function `run`")
    return source


def _parsed(source: str, where: str) -> str:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ProblemError(f"{where}: line {line}: not valid Python: {error}") from None
    return source


def _tree(source: str, where: str) -> str:
    return ast.dump(ast.parse(_parsed(source, where)))


def _load_baseline(
    directory: Path, definition: Definition, baseline: str | None
) -> tuple[SolutionSpec, Candidate]:
    if baseline is not None and "::" in baseline:
        return _single_file(baseline, definition)
    path = Path(baseline) if baseline is not None else directory / "baseline"
    if not path.exists():
        raise ProblemError(
            f"{path}: no baseline: add {directory.name}/baseline/solution.json, or name one with --baseline FILE.cu::function"
        )
    return _load_solution(path, definition)


def _single_file(baseline: str, definition: Definition) -> tuple[SolutionSpec, Candidate]:
    name, _, function = baseline.rpartition("::")
    path = Path(name)
    text = _read_text(path)
    solution = _validate(
        Solution,
        {
            "name": function,
            "definition": definition.name,
            "spec": {"language": "cuda", "binding": "c", "entry_point": f"{path.name}::{function}"},
            "sources": [{"path": path.name, "content": text}],
        },
        f"--baseline {baseline}",
    )
    return solution.spec, Candidate(sources={path.name: text})


def _load_solution(path: Path, definition: Definition) -> tuple[SolutionSpec, Candidate]:
    file = path / "solution.json" if path.is_dir() else path
    solution = _parse(Solution, file)
    if solution.definition != definition.name:
        raise ProblemError(
            f"{file}: definition: {solution.definition!r}, expected {definition.name!r}"
        )
    languages = {solution.spec.language, *solution.spec.languages} - {None}
    if languages and not languages & {"cuda", "cuda_cpp", "cpp"}:
        raise ProblemError(
            f"{file}: spec.language: {', '.join(sorted(str(x) for x in languages))}; "
            "a CUDA C++ baseline is needed: name one with --baseline"
        )
    sources = {s.path: _content(file.parent, s) for s in solution.sources}
    headers = include_closure(sources, solution.spec.headers)
    return solution.spec, Candidate(sources={**sources, **headers})


def _content(directory: Path, source: SourceFile) -> str:
    if source.content is not None:
        return source.content
    path = directory / source.path
    if path.is_file() and not path.resolve().is_relative_to(directory.resolve()):
        raise ProblemError(f"{path}: is a link out of {directory}; copy the file there")
    return _read_text(path)


def _data_files(directory: Path, workloads: tuple[Workload, ...]) -> tuple[DataFile, ...]:
    paths = sorted(
        {s.path for w in workloads for s in w.inputs.values() if isinstance(s, SafetensorsInput)}
    )
    files = []
    for name in paths:
        path = directory / name
        if not path.is_file():
            raise ProblemError(f"{path}: no such file, but workload.jsonl names it")
        with path.open("rb") as stream:
            files.append(
                DataFile(path=name, sha256=hashlib.file_digest(stream, "sha256").hexdigest())
            )
    return tuple(files)


def _parse(record: type[_Record], path: Path) -> _Record:
    return _validate(record, _json(_read_text(path), str(path)), str(path))


def _json(text: str, where: str) -> dict[str, Any]:
    try:
        raw = parse_json(text)
    except ValueError as error:
        raise ProblemError(f"{where}: not valid JSON: {error}") from None
    if not isinstance(raw, dict):
        raise ProblemError(f"{where}: a JSON object is expected, not {type(raw).__name__}")
    return raw


def _validate(record: type[_Record], raw: dict[str, Any], where: str) -> _Record:
    try:
        return record.model_validate(raw)
    except ValidationError as error:
        raise ProblemError(f"{where}: {_first_error(error)}") from None


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place}: {message}{more}" if place else f"{message}{more}"


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise ProblemError(f"{path}: larger than {_MAX_FILE_BYTES >> 20} MiB")
        return path.read_bytes().decode()
    except OSError as error:
        raise ProblemError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ProblemError(f"{path}: not UTF-8 text") from None
