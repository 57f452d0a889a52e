"""What a patch changes: one new file, and two places of the operator's own."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from astra_kernels.errors import ExportRefused, NothingToExport
from astra_kernels.exporters.git import git
from astra_kernels.exporters.guard import Guard, make_guard
from astra_kernels.exporters.insertion import guarded
from astra_kernels.exporters.namespaced import Namespaced, moved_files, namespaced
from astra_kernels.exporters.new_file import Origin, new_file
from astra_kernels.exporters.originals import Originals
from astra_kernels.exporters.regions import Region, Timed, regions
from astra_kernels.exporters.winner import Winner
from astra_kernels.extraction.syntax import Function, functions, variables
from astra_kernels.records.problem import Problem
from astra_kernels.records.wins import is_win, timed_workloads

PATCH = "astra.patch"
_CAPABILITIES = {
    "A100": 80,
    "A800": 80,
    "A10": 86,
    "A40": 86,
    "L40": 89,
    "L4": 89,
    "H100": 90,
    "H200": 90,
    "H800": 90,
    "H20": 90,
    "GH200": 90,
    "B200": 100,
    "GB200": 100,
    "B300": 103,
    "GB300": 103,
}
"""NVIDIA's table of compute capabilities, of the GPUs that serve language models."""


@dataclass(frozen=True)
class Change:
    """The change to the sources, before tests and benchmarks are added."""

    namespace: str
    guard: Guard
    regions: tuple[Region, ...]
    operator_file: str
    new_path: str
    line: int
    """Of the host function in the patched file."""
    files: Mapping[str, str] = field(default_factory=dict)
    """New text by path in the tree."""


def timed_sizes(problem: Problem, winner: Winner) -> tuple[Timed, ...]:
    """The sizes that the second look timed, and which of them are a win."""
    axes = problem.definition.var_axes
    return tuple(
        Timed({n: s for n, s in row.axes.items() if n in axes}, is_win(row.timing))
        for row in timed_workloads(winner.evaluation)
    )


def capability_of(gpu: str) -> int:
    """Compute capability of a GPU by its name, as 90.

    Raises:
        ExportRefused: the name is not known.
    """
    words = gpu.replace("-", " ").split()
    found = next((_CAPABILITIES[w] for w in words if w in _CAPABILITIES), None)
    if found is None:
        raise ExportRefused(f"{gpu!r}: the compute capability of this GPU is not known here")
    return found


def make_change(
    problem: Problem, winner: Winner, originals: Originals, text: str, origin: Origin
) -> Change:
    """The change that puts a winner behind a guard.

    Args:
        problem: what the run began with.
        winner: the confirmed candidate.
        originals: where the files lie.
        text: of the operator's file in the tree.
        origin: what the new file says of itself.

    Raises:
        NothingToExport: no size is a win.
        ExportRefused: it cannot be written as a guarded change.
    """
    assert problem.provenance is not None, "find_originals refuses such a problem"
    found = regions(timed_sizes(problem, winner))
    if not found:
        raise NothingToExport(
            "no workload by itself is a confirmed win, so there is no call for which the new kernel could be used"
        )
    sources, entry = winner.candidate.sources, problem.spec.entry_file
    namespace = f"astra_{winner.candidate.id}"
    function = host_function(problem, sources)
    guard = make_guard(problem, function, found, capability_of(winner.gpu))
    changed = changed_files(problem, winner)
    parts = namespaced(sources, moved_files(sources, changed, entry), namespace, function.name)
    _require_no_state(problem, parts)
    new_path = _new_path(originals.entry, text, function)
    scope = f"::{namespace}::{function.namespace}::" if function.namespace else f"::{namespace}::"
    passed = ", ".join(p.name for p in function.parameters)
    result = guarded(
        text,
        problem.provenance.entry,
        f'#include "{posixpath.basename(new_path)}"',
        (
            f"if ({scope}confirmed({guard.call()})) {{",
            f"  return {scope}{function.name}({passed});",
            "}",
        ),
    )
    made = new_file(parts, guard, origin, namespace, function.namespace)
    return Change(
        namespace,
        guard,
        found,
        originals.entry,
        new_path,
        problem.provenance.entry.line + 1,
        {new_path: made, originals.entry: result},
    )


def _require_no_state(problem: Problem, parts: Namespaced) -> None:
    """Raises ExportRefused where the new code would get a variable of its own beside the original's."""
    for path, text in parts.texts:
        twice = variables(text) & variables(problem.baseline.sources.get(path, ""))
        if twice:
            raise ExportRefused(
                f"{path}: {', '.join(sorted(twice))} would be there twice, in the new code and in the old, and what the rest of "
                "the framework writes to one the other does not see; pass it to the kernel, and run the optimization on that"
            )


def _new_path(operator_file: str, text: str, function: Function) -> str:
    """Beside the operator's file; of a second operator of the same file by its name."""
    stem = posixpath.splitext(operator_file)[0]
    plain = f"{stem}_astra.cuh"
    if f'"{posixpath.basename(plain)}"' not in text or "::confirmed(" in function.text:
        return plain
    return f"{stem}_{function.name}_astra.cuh"


def changed_files(problem: Problem, winner: Winner) -> tuple[str, ...]:
    """Files of the problem that the winner changed or added.

    Raises:
        ExportRefused: it took one away.
    """
    before, after = problem.baseline.sources, winner.candidate.sources
    if gone := sorted(before.keys() - after.keys()):
        raise ExportRefused(f"{gone[0]}: the candidate does without this file; the tree keeps it")
    return tuple(sorted(p for p, text in after.items() if before.get(p) != text))


def host_function(problem: Problem, sources: Mapping[str, str]) -> Function:
    """The host function that a framework calls.

    Raises:
        ExportRefused: the entry file has none of its name, or several.
    """
    assert problem.provenance is not None, "find_originals refuses such a problem"
    path = problem.spec.entry_file
    wanted = problem.provenance.entry.name.rpartition("::")[2]
    found = [f for f in functions(sources[path], path) if f.name == wanted and not f.kernel]
    if len(found) != 1:
        raise ExportRefused(f"{path}: {len(found)} host functions {wanted}; exactly one is needed")
    return found[0]


def diff_of(copy: Path, files: Mapping[str, str]) -> str:
    """Writes `files` into a copy of the tree, and returns the patch; the copy is clean again afterwards.

    Raises:
        ExportRefused: one of the new files exists, or the patch does not apply to the copy.
    """
    write_into(copy, files)
    git(copy, "add", "--force", "--", *files)
    patch = git(copy, "diff", "--cached", "--no-ext-diff", "--no-textconv", "--full-index", "HEAD")
    git(copy, "reset", "--hard", "--quiet")
    apply(copy, patch, "--check")
    return patch


def apply(copy: Path, patch: str, *options: str) -> None:
    """Applies a patch in a copy of the tree, whose top it is relative to.

    Raises:
        ExportRefused: it does not apply.
    """
    top = Path(git(copy, "rev-parse", "--show-toplevel").strip())
    file = top / ".git" / PATCH
    file.write_bytes(patch.encode(errors="surrogateescape"))
    git(top, "apply", *options, str(file))


def write_into(root: Path, files: Mapping[str, str]) -> None:
    """Writes files by path."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode(errors="surrogateescape"))
