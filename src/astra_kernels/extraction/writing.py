"""Writes a problem directory: all of it, or nothing."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.errors import UserError
from astra_kernels.extraction.draft import Draft
from astra_kernels.extraction.finding import Binding
from astra_kernels.importers.problem_dir import load_problem

READABLE_PROVENANCE = "PROVENANCE.md"


@dataclass(frozen=True)
class Baseline:
    """The existing kernel: its sources, and how it is built and called."""

    name: str
    entry_file: str
    entry_symbol: str
    binding: Binding
    flags: tuple[str, ...]
    sources: dict[str, str]


def free(directory: Path) -> Path:
    """The directory, which is not there yet.

    Raises:
        UserError: it is.
    """
    if directory.exists():
        raise UserError(f"{directory} exists; give another directory with --out")
    return directory


@contextmanager
def made_aside(directory: Path) -> Iterator[Path]:
    """A path to make a problem at, which becomes `directory` when it is done; an interrupted one leaves nothing there.

    Raises:
        UserError: the directory exists or cannot be written.
    """
    free(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent)
    except OSError as error:
        raise UserError(f"{directory}: cannot be written: {error.strerror or error}") from None
    try:
        place = Path(scratch) / directory.name
        yield place
        free(directory)
        place.rename(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_problem(directory: Path, baseline: Baseline, draft: Draft, texts: dict[str, str]) -> None:
    """Writes `directory`, which appears whole or not at all; what is written can be loaded.

    Args:
        directory: where.
        baseline: the kernel.
        draft: what it computes, and on which sizes.
        texts: further files by name.

    Raises:
        UserError: the directory exists or cannot be written, or the draft is no problem.
    """
    free(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{directory.name}-", dir=directory.parent
        ) as made:
            root = Path(made) / directory.name
            _fill(root, baseline, draft, texts)
            load_problem(root)
            root.rename(directory)
    except OSError as error:
        raise UserError(f"{directory}: cannot be written: {error.strerror or error}") from None


def _fill(root: Path, baseline: Baseline, draft: Draft, texts: dict[str, str]) -> None:
    root.mkdir()
    _json(root / "definition.json", _definition(baseline.name, draft))
    lines = (json.dumps(w) for w in _workloads(draft))
    (root / "workload.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if draft.reference is not None:
        (root / "reference.py").write_text(draft.reference)
    for name, text in texts.items():
        (root / name).write_text(text)
    for name, text in baseline.sources.items():
        path = root / "baseline" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    _json(root / "baseline" / "solution.json", _solution(baseline, draft))


def _json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def _definition(name: str, draft: Draft) -> dict[str, object]:
    written: dict[str, object] = {
        "name": name,
        "op_type": draft.op_type,
        "description": draft.description,
        "axes": draft.axes,
        "inputs": draft.inputs,
        "outputs": draft.outputs,
        "tolerance": draft.tolerance,
    }
    if draft.constraints:
        written["constraints"] = list(draft.constraints)
    if draft.reference is None:
        written["oracle"] = "baseline"
    if draft.custom:
        written["custom_inputs_entrypoint"] = "make_inputs"
    return written


def _workloads(draft: Draft) -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for index, sizes in enumerate(draft.sizes):
        inputs: dict[str, object] = {}
        for name, spec in draft.inputs.items():
            if draft.custom:
                inputs[name] = {"type": "custom"}
            elif spec["shape"] is None:
                inputs[name] = {"type": "scalar", "value": draft.scalars[name]}
            else:
                inputs[name] = {"type": "random"}
        uuid = "-".join(f"{axis}-{size}" for axis, size in sizes.items()) or f"workload-{index}"
        workload: dict[str, object] = {"uuid": uuid, "axes": sizes, "inputs": inputs}
        if index < draft.untimed:
            workload["timed"] = False
        made.append(workload)
    return made


def _solution(baseline: Baseline, draft: Draft) -> dict[str, object]:
    spec: dict[str, object] = {
        "language": "cuda",
        "binding": baseline.binding,
        "entry_point": f"{baseline.entry_file}::{baseline.entry_symbol}",
        "compile_options": {"cuda_cflags": list(baseline.flags)},
        "arguments": draft.arguments,
    }
    if draft.workspace:
        spec["workspace"] = {"bytes": draft.workspace}
    return {
        "name": f"{baseline.name}_baseline",
        "definition": baseline.name,
        "spec": spec,
        "sources": [{"path": path} for path in sorted(baseline.sources)],
    }


def remove(directory: Path) -> None:
    """Takes back a problem that was just written."""
    shutil.rmtree(directory, ignore_errors=True)
