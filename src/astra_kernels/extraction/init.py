"""`astra init`: a problem directory from one file and its entry point."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from astra_kernels.errors import UserError
from astra_kernels.extraction.closure import Preprocessor, collect
from astra_kernels.extraction.draft import Draft, from_kind
from astra_kernels.extraction.finding import Operator, find_operator
from astra_kernels.extraction.inferred import draft_of
from astra_kernels.extraction.launcher import launcher
from astra_kernels.extraction.pointers import pointer_shapes
from astra_kernels.extraction.project import Project, Release
from astra_kernels.extraction.signature import slots
from astra_kernels.extraction.stub import stub
from astra_kernels.extraction.syntax import Function, functions, without_comments
from astra_kernels.extraction.trial import Trial, tried
from astra_kernels.extraction.writing import Baseline, made_aside, remove, write_problem
from astra_kernels.languages.cuda.toolchain import find_toolchain

_OF_TORCH = re.compile(r'#\s*include\s*[<"](?:torch|ATen|c10)/')


@dataclass(frozen=True)
class Begun:
    """What was written, and what is worth knowing about it."""

    directory: Path
    operator: Operator
    notes: tuple[str, ...]
    trial: Trial | None
    own_oracle: bool


@dataclass(frozen=True)
class Beginning:
    """From what a problem is made, and where."""

    source: Path
    out: Path
    entry: str | None = None
    dtype: str = "float16"
    cache: Path | None = None
    """Where builds of the trial are kept; None skips the trial, and takes the first guess."""


def init(wanted: Beginning) -> Begun:
    """Writes the problem of a file's entry point.

    Raises:
        UserError: there is no entry point or there are several, it cannot be called, or the directory exists.
            Nothing is written then.
        SetupError: a compiler is missing.
    """
    with made_aside(wanted.out) as place:
        made = _begun(replace(wanted, out=place))
    return replace(made, directory=wanted.out)


def _begun(wanted: Beginning) -> Begun:
    if not wanted.source.is_file():
        raise UserError(f"{wanted.source}: no such file")
    text = wanted.source.read_bytes().decode(errors="replace")
    root = wanted.source.resolve().parent
    if _OF_TORCH.search(without_comments(text)):
        raise UserError(
            f"{wanted.source}: includes torch's headers; astra extract NAME --from {root} takes an operator on tensors out, "
            "with all that it needs"
        )
    project = Project(root, Release(wanted.source.name))
    alone = _Alone(project, wanted.source.name, text)
    name = wanted.entry or _only_entry(alone)
    operator = find_operator(alone.project, name)
    made = launcher(operator.function, slots(operator), wanted.dtype)
    whole = made.prepended + text + made.appended
    preprocessor = Preprocessor(find_toolchain(os.environ), (), operator.binding)
    closure = collect(project, wanted.source.name, whole, preprocessor)
    baseline = Baseline(operator.function.name, closure.entry, made.symbol, "c", (), closure.files)
    notes = (*made.notes, *closure.notes)
    best: tuple[Draft, Trial] | None = None
    for draft in _drafts(operator, made.slots, wanted.dtype):
        texts = {"reference.py": stub(draft)} if draft.reference is None else {}
        write_problem(wanted.out, baseline, draft, texts)
        if wanted.cache is None:
            return Begun(
                wanted.out, operator, (*notes, *draft.guesses), None, draft.reference is None
            )
        trial = tried(wanted.out, wanted.cache)
        if trial.passed:
            said = (*notes, *draft.guesses)
            return Begun(wanted.out, operator, said, trial, draft.reference is None)
        remove(wanted.out)
        if best is None or best[0].reference is not None:
            best = draft, trial
        if trial.failure == "build_failed":
            break
    assert best is not None
    write_problem(wanted.out, baseline, best[0], {"reference.py": stub(best[0])})
    said = (*notes, *best[0].guesses)
    return Begun(wanted.out, operator, said, best[1], own_oracle=best[0].reference is None)


class _Alone:
    """A project of which only one file counts for entry points."""

    def __init__(self, project: Project, name: str, text: str) -> None:
        self.project = Project(project.root, project.release)
        self.project.__dict__["units"] = {name: text}
        self.functions = tuple(functions(text, name))


def _only_entry(alone: _Alone) -> str:
    groups: Iterator[list[Function]] = iter(
        [
            [f for f in alone.functions if 'extern "C"' in _head(alone, f)],
            [f for f in alone.functions if "__" not in f.returns and "<<<" in f.text],
            [f for f in alone.functions if f.kernel],
        ]
    )
    for group in groups:
        names = list(dict.fromkeys(f.name for f in group))
        if len(names) == 1:
            return names[0]
        if names:
            listed = "".join(f"\n  {f.place}  {f.signature}" for f in group)
            raise UserError(f"several entry points; choose one with --entry NAME:{listed}")
    raise UserError(
        f"{alone.project.release.name}: no launcher and no __global__ kernel in this file"
    )


def _head(alone: _Alone, function: Function) -> str:
    text = alone.project.units[function.path]
    return text.splitlines()[function.line - 1] + function.returns


def _drafts(operator: Operator, given: tuple[object, ...], dtype: str) -> Iterator[Draft]:
    """What the operator may be: of a known kind, then by its signature alone."""
    known = from_kind(operator, dtype)
    if known is not None and known.reference is not None:
        yield _called(known, given)
        yield _called(replace(known, reference=None, guesses=[*known.guesses]), given)
    read = slots(operator)
    for shapes in pointer_shapes(read):
        yield _called(draft_of(operator, shapes, dtype, None), given)


def _called(draft: Draft, given: tuple[object, ...]) -> Draft:
    """The draft with the stream that a generated entry point takes last."""
    if len(given) > len(draft.arguments) and "stream" not in draft.arguments:
        return replace(draft, arguments=[*draft.arguments, "stream"])
    return draft
