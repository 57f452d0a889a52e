"""`astra extract`: from a symbol and a tree of sources to a problem directory."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from astra_kernels.errors import UserError
from astra_kernels.extraction import flashinfer
from astra_kernels.extraction.closure import Closure, Preprocessor, collect
from astra_kernels.extraction.draft import OWN_ORACLE, Draft, from_kind
from astra_kernels.extraction.equivalence import Original, compared, whole_original
from astra_kernels.extraction.finding import Operator, find_operator
from astra_kernels.extraction.inferred import inferred
from astra_kernels.extraction.opening import open_project
from astra_kernels.extraction.origin import licence_texts, provenance_of, told
from astra_kernels.extraction.own_reference import own_references, with_reference
from astra_kernels.extraction.project import Project
from astra_kernels.extraction.pruning import pruned
from astra_kernels.extraction.sizes import with_stated
from astra_kernels.extraction.trial import Trial, tried
from astra_kernels.extraction.writing import (
    READABLE_PROVENANCE,
    Baseline,
    made_aside,
    remove,
    write_problem,
)
from astra_kernels.importers.problem_dir import PROVENANCE, load_problem
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
    dirty: bool = False
    """Takes files that are not as the repository's commit has them."""
    compare: bool = False
    """Compares what was taken out with the whole original; needs `cache`."""


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
    with made_aside(wanted.out) as place:
        made = _extracted(replace(wanted, out=place))
    return replace(made, directory=wanted.out)


def _extracted(wanted: Wanted) -> Extracted:
    project = open_project(wanted.source)
    operator = find_operator(project, wanted.symbol, wanted.at)
    dtype = (operator.instance and operator.instance.element) or wanted.dtype
    draft = from_kind(operator, dtype)
    if draft is None:
        draft = inferred(operator, dtype, project)
    else:
        draft.sizes, draft.untimed, said = with_stated(
            draft.axes, draft.sizes, draft.untimed, project, operator.symbol
        )
        draft.guesses += [said] if said else []
    with_libraries = _preprocessor(project, operator)
    reduced = _reduced(project, operator)
    preprocessed = _Preprocessed(project, operator, reduced, with_libraries)
    made = _tried(wanted, preprocessed, draft)
    if made.trial is not None and made.trial.failure == "build_failed":
        try:  # a header that was left out may bring what no name shows, such as an operator
            whole = collect(
                project, operator.function.path, reduced, with_libraries, every_include=True
            )
        except UserError:
            return made
        remove(wanted.out)
        made = _written(wanted, preprocessed, draft, whole)
    return _held_to_the_original(wanted, preprocessed, made) if wanted.compare else made


def original_of(directory: Path, source: str) -> Original:
    """The whole operator that a problem was taken out of.

    Args:
        directory: the problem.
        source: the tree or package that it is from.

    Raises:
        UserError: the problem does not say where it is from, or the original is not there or cannot be built from.
    """
    provenance = load_problem(directory).provenance
    if provenance is None:
        raise UserError(f"{directory}: has no provenance.json")
    project = open_project(source)
    name = provenance.entry.name
    here = (p for p in project.units if project.in_repository(p) == provenance.entry.file)
    places = [f"{path}:{provenance.entry.line}" for path in here]
    whole = find_operator(project, name, places[0] if places else None)
    operator = replace(whole, symbol=provenance.symbol)
    return whole_original(project, operator, _preprocessor(project, operator))


def _held_to_the_original(wanted: Wanted, what: _Preprocessed, made: Extracted) -> Extracted:
    """Says beside the sources whether they are the same operator as the whole original."""
    if wanted.cache is None or made.trial is None or not made.trial.passed:
        return made
    try:
        original = whole_original(what.project, what.operator, what.preprocessor)
        found = str(compared(load_problem(made.directory), made.directory, original, wanted.cache))
    except UserError as error:
        found = f"not compared with the whole original: {error}"
    path = made.directory / READABLE_PROVENANCE
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{found}\n", encoding="utf-8")
    return replace(made, notes=(*made.notes, found))


def _preprocessor(project: Project, operator: Operator) -> Preprocessor:
    toolchain = find_toolchain(os.environ)
    newer = flashinfer.newer_libraries(project.root, toolchain)
    return Preprocessor(
        toolchain,
        _flags(project, operator),
        operator.binding,
        newer,
        flashinfer.NEWER_USERS if newer else (),
    )


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
    closure = closure.compiled()
    baseline = _baseline(operator, closure, what.preprocessor.flags)
    provenance = provenance_of(project, operator, closure, dirty=wanted.dirty)
    texts = {
        **licence_texts(project),
        PROVENANCE: provenance.model_dump_json(indent=2) + "\n",
        READABLE_PROVENANCE: told(project, provenance, closure),
    }
    write_problem(wanted.out, baseline, draft, texts)
    return _settled(wanted, project, (operator, closure, draft), (baseline, texts))


def _baseline(operator: Operator, closure: Closure, flags: tuple[str, ...]) -> Baseline:
    function, binding = operator.function, operator.binding
    symbol = function.qualified if binding == "torch" else operator.symbol
    return Baseline(operator.symbol, closure.entry, symbol, binding, flags, closure.files)


def _settled(
    wanted: Wanted,
    project: Project,
    found: tuple[Operator, Closure, Draft],
    written: tuple[Baseline, dict[str, str]],
) -> Extracted:
    """Tries the problem; a reference that disagrees with the kernel gives way to the next one, and at last to the kernel.

    The one of a known kind comes before the framework's own: it has an answer in float64, and needs no torch.
    """
    operator, closure, draft = found
    baseline, texts = written
    notes = [*closure.notes, *draft.guesses]
    if wanted.cache is None:
        return Extracted(
            wanted.out, operator, tuple(closure.files), tuple(notes), None, draft.reference is None
        )
    bare = replace(
        draft, reference=None, description=draft.description.removesuffix(OWN_ORACLE) + OWN_ORACLE
    )
    own = (with_reference(bare, o) for o in own_references(project, operator.symbol, bare))
    for choice in (*([draft] if draft.reference is not None else []), *own, bare):
        trial = _rewritten(wanted, baseline, choice, texts)
        if trial.failure == "build_failed":
            choice = bare  # no reference was tried
            remove(wanted.out)
            write_problem(wanted.out, baseline, choice, texts)
        if choice.reference is None:
            break
        if trial.passed:
            said = f" The reference, {choice.kind}, was checked against the kernel on {trial.inputs} inputs."
            choice = replace(choice, description=choice.description + said)
            remove(wanted.out)
            write_problem(wanted.out, baseline, choice, texts)
            notes.append(
                f"reference: {choice.kind}, checked against the kernel on {trial.inputs} inputs"
            )
            break
        word = "disagrees with the kernel" if trial.failure == "incorrect" else "cannot be used"
        notes.append(f"the reference, {choice.kind}, {word}: {trial.said}")
    return Extracted(
        wanted.out, operator, tuple(closure.files), tuple(notes), trial, choice.reference is None
    )


def _rewritten(wanted: Wanted, baseline: Baseline, draft: Draft, texts: dict[str, str]) -> Trial:
    assert wanted.cache is not None
    remove(wanted.out)
    write_problem(wanted.out, baseline, draft, texts)
    return tried(wanted.out, wanted.cache)


def _reduced(project: Project, operator: Operator) -> str:
    """The operator's file without what it does not need, with its export at the end."""
    function = operator.function
    text = pruned(project.read(function.path), [operator.defined])
    if operator.binding != "tvm-ffi":
        return text
    if function.template and operator.instance is None:
        raise UserError(
            f"{function.place}: {function.name} is a template {function.template}: name an instance of it, such as "
            f"'{function.name}<half>'"
        )
    export = f"\nTVM_FFI_DLL_EXPORT_TYPED_FUNC({operator.symbol}, {operator.called});\n"
    includes = "" if "tvm" in text else "#include <tvm/ffi/tvm_ffi.h>\n"
    return f"{includes}{text}{export}"


def _flags(project: Project, operator: Operator) -> tuple[str, ...]:
    given = project.flags(operator.function.path)
    if project.release.name.startswith("flashinfer"):
        given = (*flashinfer.FLAGS, *given)
    return tuple(dict.fromkeys(given))


def sources_of(symbol: str, source: str, at: str | None = None) -> dict[str, str]:
    """The sources of an operator as `extract` takes them out, by path; the entry file has the name of its original.

    Raises:
        UserError: as `extract` does.
        SetupError: a compiler or a framework's package is missing.
    """
    project = open_project(source)
    operator = find_operator(project, symbol, at)
    toolchain = find_toolchain(os.environ)
    newer = flashinfer.newer_libraries(project.root, toolchain)
    users = flashinfer.NEWER_USERS if newer else ()
    flags = _flags(project, operator)
    preprocessor = Preprocessor(toolchain, flags, operator.binding, newer, users)
    reduced = _reduced(project, operator)
    return collect(project, operator.function.path, reduced, preprocessor).files
