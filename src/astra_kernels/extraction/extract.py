"""`astra extract`: from a symbol and a tree of sources to a problem directory."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from astra_kernels.errors import UserError
from astra_kernels.extraction import flashinfer
from astra_kernels.extraction.closure import Closure, Preprocessor, collect
from astra_kernels.extraction.draft import Draft, from_kind
from astra_kernels.extraction.finding import Operator, find_operator
from astra_kernels.extraction.project import Project, open_project
from astra_kernels.extraction.pruning import pruned
from astra_kernels.extraction.sizes import with_stated
from astra_kernels.extraction.trial import Trial, tried
from astra_kernels.extraction.writing import (
    PROVENANCE,
    Baseline,
    free,
    licences,
    remove,
    write_problem,
)
from astra_kernels.languages.cuda.toolchain import find_toolchain


@dataclass(frozen=True)
class Wanted:
    """What to take out, from where, and where to."""

    symbol: str
    source: str
    out: Path
    at: str | None = None
    dtype: str = "float16"
    cache: Path | None = None
    """Where builds of the trial are kept; None skips the trial."""


@dataclass(frozen=True)
class Extracted:
    """What was written, and what is worth knowing about it."""

    directory: Path
    operator: Operator
    files: tuple[str, ...]
    notes: tuple[str, ...]
    trial: Trial | None
    own_oracle: bool


def extract(wanted: Wanted) -> Extracted:
    """Writes the problem of an operator.

    Raises:
        UserError: the symbol is unknown or ambiguous, an include is missing, a library is needed, or the
            directory exists. Nothing is written then.
        SetupError: a compiler or a framework's package is missing.
    """
    free(wanted.out)
    project = open_project(wanted.source)
    operator = find_operator(project, wanted.symbol, wanted.at)
    draft = from_kind(operator, wanted.dtype)
    if draft is None:
        from astra_kernels.extraction.inferred import inferred

        draft = inferred(operator, wanted.dtype, project)
    else:
        draft.sizes, draft.untimed, said = with_stated(
            draft.axes, draft.sizes, draft.untimed, project, operator.symbol
        )
        draft.guesses += [said] if said else []
    flags = _flags(project, operator)
    toolchain = find_toolchain(os.environ)
    with_libraries = Preprocessor(
        toolchain, flags, operator.binding, flashinfer.newer_libraries(project.root, toolchain)
    )
    reduced = _reduced(project, operator)
    preprocessed = _Preprocessed(project, operator, reduced, with_libraries)
    made = _tried(wanted, preprocessed, draft)
    if made.trial is None or made.trial.failure != "build_failed":
        return made
    try:  # a header that was left out may bring what no name shows, such as an operator
        whole = collect(
            project, operator.function.path, reduced, with_libraries, every_include=True
        )
    except UserError:
        return made
    remove(wanted.out)
    return _written(wanted, preprocessed, draft, whole)


@dataclass(frozen=True)
class _Preprocessed:
    """What is taken out, and with what its includes are confirmed."""

    project: Project
    operator: Operator
    text: str
    preprocessor: Preprocessor


def _tried(wanted: Wanted, what: _Preprocessed, draft: Draft) -> Extracted:
    path = what.operator.function.path
    closure = collect(what.project, path, what.text, what.preprocessor)
    return _written(wanted, what, draft, closure)


def _written(wanted: Wanted, what: _Preprocessed, draft: Draft, closure: Closure) -> Extracted:
    operator, project = what.operator, what.project
    baseline = _baseline(operator, closure, what.preprocessor.flags)
    texts = {PROVENANCE: _provenance(project, operator, closure), **licences(project.root)}
    write_problem(wanted.out, baseline, draft, texts)
    return _settled(wanted, (operator, closure, draft), (baseline, texts))


def _baseline(operator: Operator, closure: Closure, flags: tuple[str, ...]) -> Baseline:
    function, binding = operator.function, operator.binding
    symbol = function.qualified if binding == "torch" else operator.symbol
    return Baseline(operator.symbol, closure.entry, symbol, binding, flags, closure.files)


def _settled(
    wanted: Wanted,
    found: tuple[Operator, Closure, Draft],
    written: tuple[Baseline, dict[str, str]],
) -> Extracted:
    """Tries the problem; a reference that disagrees with the kernel gives way to the kernel."""
    operator, closure, draft = found
    baseline, texts = written
    notes = [*closure.notes, *draft.guesses]
    trial = None if wanted.cache is None else tried(wanted.out, wanted.cache)
    if trial is not None and draft.reference is not None:
        if trial.passed:
            said = f" The reference was checked against the kernel on {trial.inputs} inputs."
            draft = replace(draft, description=draft.description + said)
            notes.append(
                f"reference for {draft.kind}: checked against the kernel on {trial.inputs} inputs"
            )
        elif trial.failure == "incorrect":
            notes.append(f"the reference for {draft.kind} disagrees with the kernel: {trial.said}")
            draft = replace(draft, reference=None, description=draft.description + OWN)
        remove(wanted.out)
        write_problem(wanted.out, baseline, draft, texts)
        if draft.reference is None and wanted.cache is not None:
            trial = tried(wanted.out, wanted.cache)
    return Extracted(
        wanted.out, operator, tuple(closure.files), tuple(notes), trial, draft.reference is None
    )


OWN = " There is no reference: the original kernel is its own oracle."


def _reduced(project: Project, operator: Operator) -> str:
    """The operator's file without what it does not need, with its export at the end."""
    function = operator.function
    text = pruned(project.read(function.path), [function.name])
    if operator.binding != "tvm-ffi":
        return text
    if function.template:
        raise UserError(
            f"{function.place}: {function.name} is a template {function.template}: export one of its instances, "
            "and extract that"
        )
    export = f"\nTVM_FFI_DLL_EXPORT_TYPED_FUNC({operator.symbol}, {function.qualified});\n"
    includes = "" if "tvm" in text else "#include <tvm/ffi/tvm_ffi.h>\n"
    return f"{includes}{text}{export}"


def _flags(project: Project, operator: Operator) -> tuple[str, ...]:
    given = project.flags(operator.function.path)
    if project.provenance.name.startswith("flashinfer"):
        given = (*flashinfer.FLAGS, *given)
    return tuple(dict.fromkeys(given))


def _provenance(project: Project, operator: Operator, closure: Closure) -> str:
    lines = [
        f"# {operator.symbol}",
        "",
        f"From {project.provenance}, `{operator.function.place}`.",
        "",
    ]
    lines += ["| file here | file there |", "|---|---|"]
    lines += [
        f"| {n} | {closure.origins.get(n, 'written by Astra')} |" for n in sorted(closure.files)
    ]
    lines += [
        "",
        "The entry file holds the definitions only that the operator needs; other files are whole.",
    ]
    if closure.entry in closure.files and closure.origins[closure.entry] in project.generated:
        lines += ["The entry file is written by the project's own Python code when it runs."]
    lines += [
        "",
        "Licences are those of the files' heads, and of the licence files here, if any.",
        "",
    ]
    return "\n".join([*lines, *closure.notes, ""])
