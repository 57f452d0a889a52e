"""Sizes for workloads: those of the framework's own tests and benchmarks where there are any, else usual ones."""

from __future__ import annotations

import ast

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
                found.setdefault(name.lower().removesuffix("s"), []).extend(numbers)
    return found


def _parametrizes(node: ast.Call) -> bool:
    called = node.func
    return isinstance(called, ast.Attribute) and called.attr == "parametrize" and len(node.args) > 1


def _numbers(node: ast.expr) -> list[int]:
    if not isinstance(node, (ast.List, ast.Tuple)):
        return []
    values = [n.value for n in node.elts if isinstance(n, ast.Constant)]
    return [v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0]


def usual_sizes(axes: list[str], stated: dict[str, list[int]]) -> tuple[tuple[Sizes, ...], str]:
    """Sets of sizes, small and odd ones first, and where they are from in words."""
    chosen: dict[str, list[int]] = {}
    known: list[str] = []
    for axis in axes:
        group = next((g for g in _SAME if axis in g), frozenset({axis}))
        listed = sorted({v for n, values in stated.items() if n in group | {axis} for v in values})
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
