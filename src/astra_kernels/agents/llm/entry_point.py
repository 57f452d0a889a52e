"""Whether code still has the baseline's entry point, read as tokens: the compiler and the judge decide later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from astra_kernels.agents.rewrites.normalise import tokens
from astra_kernels.records.problem import Problem

_NO_TYPE = frozenset(("__restrict__", "__restrict", "restrict"))


def trouble_with_entry_point(problem: Problem, sources: Mapping[str, str]) -> str | None:
    """What is wrong with the entry point, in words for its author; None where nothing is, or nothing can be told.

    Names of parameters may change, their types and order may not. Where the baseline's own definition cannot be found
    (a macro makes it), nothing is said.
    """
    path, name = problem.spec.entry_file, problem.spec.entry_symbol
    wanted = _definitions(tokens(problem.baseline.sources[path]), name)
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
    if _is_c(problem.baseline.sources[path]) and not _is_c(sources[path]):
        return f'The entry point has lost its extern "C": it has to stay `{signature}`.'
    return None


def signature_text(problem: Problem) -> str:
    """The entry point's declaration as the baseline writes it; from the binding where its text cannot be found."""
    path, name = problem.spec.entry_file, problem.spec.entry_symbol
    found = _definitions(tokens(problem.baseline.sources[path]), name)
    if found:
        return f'extern "C" int {name}({_spaced(found[0])})'
    arguments = problem.spec.resolved_arguments(problem.definition)
    return f'extern "C" int {name}({", ".join(f"{a.ctype} {a.name}" for a in arguments)})'


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
