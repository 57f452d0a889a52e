"""Whether code still has the baseline's entry point, read as tokens: the compiler and the judge decide later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from astra_kernels.agents.rewrites.exports import exported_function, exports
from astra_kernels.agents.rewrites.normalise import tokens
from astra_kernels.records.problem import Problem

_NO_TYPE = frozenset(("__restrict__", "__restrict", "restrict"))


def trouble_with_entry_point(problem: Problem, sources: Mapping[str, str]) -> str | None:
    """What is wrong with the entry point, in words for its author; None where nothing is, or nothing can be told.

    Names of parameters may change, their types and order may not. Where the baseline's own definition cannot be found
    (a macro makes it), nothing is said.
    """
    path, name = _place(problem)
    wanted = _definitions(tokens(problem.baseline.sources[path]), name)
    exported = problem.spec.entry_symbol
    if exports(problem.baseline.sources, exported) and not exports(sources, exported):
        return (
            f"The export is missing: the sources have to keep TVM_FFI_DLL_EXPORT_TYPED_FUNC({exported}, ...), "
            "by which the operator is called."
        )
    if not wanted:
        return None
    signature = signature_text(problem)
    found = _definitions(tokens(sources.get(path, "")), name)
    if not found:
        return f"The entry point is missing: {path} has to define `{signature}`."
    if not any(_types(one) == _types(other) for one in found for other in wanted):
        return (
            f"The entry point has other parameters: ({' '.join(found[0])}) in {path}. "
            f"It has to stay `{signature}`, since it is called from outside."
        )
    lost = _is_c(problem.baseline.sources[path]) and not _is_c(sources[path])
    if problem.spec.calls_c and lost:
        return f'The entry point has lost its extern "C": it has to stay `{signature}`.'
    return None


def signature_text(problem: Problem) -> str:
    """The entry point's declaration as the baseline writes it; from the binding where its text cannot be found."""
    path, name = _place(problem)
    found = _definitions(tokens(problem.baseline.sources[path]), name)
    front = 'extern "C" int' if problem.spec.calls_c else "void"
    if found:
        return f"{front} {name}({_spaced(found[0])})"
    arguments = problem.spec.resolved_arguments(problem.definition)
    return f"{front} {name}({', '.join(f'{a.ctype} {a.name}' for a in arguments)})"


def _place(problem: Problem) -> tuple[str, str]:
    """The file that defines the function behind the entry point, and its name."""
    sources, path = problem.baseline.sources, problem.spec.entry_file
    name = exported_function(sources, problem.spec.entry_symbol)
    if problem.spec.calls_c or _definitions(tokens(sources[path]), name):
        return path, name
    found = (other for other, text in sources.items() if _definitions(tokens(text), name))
    return next(found, path), name


def _definitions(code: Sequence[str], name: str) -> list[tuple[str, ...]]:
    """Tokens between the brackets of every definition (not declaration, not call) of a function."""
    found = []
    for index, token in enumerate(code[:-1]):
        if token != name or code[index + 1] != "(":
            continue
        depth, end = 0, index + 1
        while end < len(code):
            depth += (code[end] == "(") - (code[end] == ")")
            if depth == 0:
                break
            end += 1
        if end + 1 < len(code) and code[end + 1] in ("{", "noexcept"):
            found.append(tuple(code[index + 2 : end]))
    return found


def _types(parameters: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The parameters without their names."""
    found: list[list[str]] = [[]]
    for token in parameters:
        if token == ",":
            found.append([])
        elif token not in _NO_TYPE:
            found[-1].append(token)
    return [tuple(_without_name(one)) for one in found]


def _without_name(parameter: list[str]) -> list[str]:
    named = len(parameter) > 1 and parameter[-1].isidentifier()
    if named and parameter[:-1] not in (["const"], ["unsigned"], ["long"], ["struct"]):
        return parameter[:-1]
    return parameter


def _is_c(text: str) -> bool:
    code = tokens(text)
    return any(a == "extern" and b == '"C"' for a, b in pairwise(code))


def _spaced(parameters: tuple[str, ...]) -> str:
    text = " ".join(parameters)
    return text.replace(" ,", ",").replace(" *", "*").replace(" :: ", "::")
