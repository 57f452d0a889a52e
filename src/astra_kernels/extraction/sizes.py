"""Sizes for workloads: those of the framework's own tests and benchmarks where there are any, else usual ones."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from astra_kernels.extraction.project import Project

Sizes = dict[str, int]

_SAME = (
    frozenset(
        {"tokens", "num_tokens", "batch_size", "batch", "rows", "m", "nnz", "seq_len", "num_rows"}
    ),
    frozenset(
        {"hidden", "hidden_size", "d", "dim", "cols", "columns", "n", "hidden_dim", "vocab_size"}
    ),
    frozenset({"heads", "num_heads", "num_qo_heads", "num_kv_heads"}),
    frozenset({"head_dim", "head_size"}),
    frozenset({"elements", "numel", "num_elements", "size", "length"}),
)
_USUAL = {
    "tokens": (1, 7, 33, 128),
    "hidden": (64, 136, 1024, 4096),
    "heads": (1, 3, 8, 16),
    "head_dim": (64, 64, 128, 128),
    "elements": (64, 1000, 65536, 1048576),
}
_OTHER = (1, 3, 8, 16)
_MOST = 6
_MOST_ELEMENTS = 1 << 21


def stated_sizes(project: Project, symbol: str) -> dict[str, list[int]]:
    """Lists of sizes by parameter name, from Python files that mention the operator."""
    found: dict[str, list[int]] = {}
    for path, tree in project.python(symbol):
        if not any(word in path.lower() for word in ("test", "bench")):
            continue
        constants = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _parametrizes(node):
                names, values = node.args[0], node.args[1]
                if isinstance(values, ast.Name):
                    values = constants.get(values.id, values)
                numbers = _numbers(values)
                if isinstance(names, ast.Constant) and isinstance(names.value, str) and numbers:
                    found.setdefault(names.value, []).extend(numbers)
        for name, value in constants.items():
            if numbers := _numbers(value):
                plural = name.lower()
                known = any(plural in group for group in _SAME)
                found.setdefault(plural if known else plural.removesuffix("s"), []).extend(numbers)
    return found


def _parametrizes(node: ast.Call) -> bool:
    called = node.func
    return isinstance(called, ast.Attribute) and called.attr == "parametrize" and len(node.args) > 1


def _numbers(node: ast.expr) -> list[int]:
    if not isinstance(node, (ast.List, ast.Tuple)):
        return []
    values = [n.value for n in node.elts if isinstance(n, ast.Constant)]
    return [v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0]


def with_stated(
    axes: Mapping[str, object],
    given: tuple[Sizes, ...],
    untimed: int,
    project: Project,
    symbol: str,
) -> tuple[tuple[Sizes, ...], int, str]:
    """The untimed ones of some sets of sizes, then those of the project's tests; the two largest of these are timed.

    Args:
        axes: the definition's, with the sizes that they may have.
        given: the sets that there are.
        untimed: how many of them come first and are not timed.
        project: where tests and benchmarks are.
        symbol: the operator that they mention.

    Returns:
        Sets of sizes, how many are not timed, and what was done in words; all as given and "" where no test
        states sizes that are allowed.
    """
    variable = {n: a for n, a in axes.items() if isinstance(a, dict) and a["type"] == "var"}
    stated = stated_sizes(project, symbol)
    if not all(_listed(name, stated) for name in variable) or not variable:
        return given, untimed, ""
    fitting = {n: [v for v in _listed(n, stated) if _allowed(v, a)] for n, a in variable.items()}
    if not all(fitting.values()):
        return given, untimed, ""
    found = [s for s in usual_sizes(list(variable), fitting)[0] if s not in given[:untimed]]
    if not found:
        return given, untimed, ""
    said = f"sizes are those of the project's tests and benchmarks for {', '.join(variable)}"
    sizes = (*given[:untimed], *found)
    return sizes, max(untimed, len(sizes) - 2), said


def _listed(axis: str, stated: dict[str, list[int]]) -> list[int]:
    group = next((g for g in _SAME if axis in g), frozenset({axis}))
    return sorted({v for n, values in stated.items() if n in group | {axis} for v in values})


def _allowed(size: int, axis: dict[str, Any]) -> bool:
    domain = axis.get("domain") or {}
    least, most = domain.get("min", 1), domain.get("max", size)
    return bool(least <= size <= most and size % domain.get("multiple_of", 1) == 0)


def usual_sizes(axes: list[str], stated: dict[str, list[int]]) -> tuple[tuple[Sizes, ...], str]:
    """Sets of sizes, small and odd ones first, and where they are from in words."""
    chosen: dict[str, list[int]] = {}
    known: list[str] = []
    for axis in axes:
        group = next((g for g in _SAME if axis in g), frozenset({axis}))
        listed = _listed(axis, stated)
        if listed:
            known.append(axis)
            chosen[axis] = _spread(listed)
        else:
            usual = next((n for n in _USUAL if n in group), "")
            chosen[axis] = list(_USUAL.get(usual, _OTHER))
    count = min(_MOST, max((len(v) for v in chosen.values()), default=1))
    rows = [{a: v[min(i, len(v) - 1)] for a, v in chosen.items()} for i in range(count)]
    kept: list[Sizes] = []
    for row in rows:
        product = 1
        for size in row.values():
            product *= size
        if product <= _MOST_ELEMENTS and row not in kept:
            kept.append(row)
    kept = kept or [dict.fromkeys(axes, 8)]
    source = "usual ones"
    if known:
        source = f"those of the project's tests and benchmarks for {', '.join(known)}"
    return tuple(kept), source


def _spread(values: list[int]) -> list[int]:
    if len(values) <= _MOST:
        return values
    return [values[round(i * (len(values) - 1) / (_MOST - 1))] for i in range(_MOST)]
