"""The framework's own reference of an operator: a function of its tests that computes the same in torch or NumPy.

It is found by its name, or because a test calls it beside the operator; its parameters are matched with the operator's by
their names, else by their order. That it is right is not believed: it is compared with the kernel before it is used.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from astra_kernels.extraction.draft import OWN_ORACLE, Draft
from astra_kernels.extraction.own_source import Module, Taken
from astra_kernels.extraction.project import Project

_MOST = 3
_MARKS = frozenset(
    {"ref", "reference", "torch", "pytorch", "naive", "native", "golden", "numpy", "np", "py"}
    | {"cpu", "impl", "forward", "expected"}
)
"""Words of a function's name that say what it is, and not of what."""
_SAME = (
    frozenset({"input", "x", "inp", "hidden_states", "a", "q", "query", "inputs"}),
    frozenset({"weight", "w", "gamma", "g"}),
    frozenset({"eps", "epsilon", "variance_epsilon"}),
    frozenset({"residual", "res", "r"}),
)
"""Names that mean the same."""


@dataclass(frozen=True)
class OwnReference:
    """A function that may say what an operator computes."""

    place: str
    """`tests/test_norm.py:9`, in the framework's repository."""
    name: str
    text: str
    """A whole `reference.py`."""


def own_references(project: Project, symbol: str, draft: Draft) -> tuple[OwnReference, ...]:
    """The likeliest functions first; none where none can be called with the operator's inputs.

    Args:
        project: where tests and benchmarks are.
        symbol: the operator's name.
        draft: its inputs and outputs.
    """
    found: dict[str, tuple[int, OwnReference]] = {}
    for module in _modules(project, symbol):
        for name, rank in _named(module, symbol):
            taken = module.taken(name, symbol)
            call = None if taken is None else _call(taken.function, draft)
            if taken is not None and call is not None:
                place = f"{project.in_repository(module.path)}:{taken.function.lineno}"
                text = _written(taken, call, draft, place, str(project.release))
                found.setdefault(place, (rank, OwnReference(place, name, text)))
    ranked = sorted(found.values(), key=lambda pair: pair[0])
    return tuple(reference for _, reference in islice(ranked, _MOST))


def with_reference(draft: Draft, own: OwnReference) -> Draft:
    """The draft with this reference; types of eight bits may be off by a rounding, as the kernel's are."""
    outputs = {
        name: {**spec, "compare": "quantised"} if _is_narrow(str(spec["dtype"])) else spec
        for name, spec in draft.outputs.items()
    }
    return replace(
        draft,
        description=draft.description.removesuffix(OWN_ORACLE),
        reference=own.text,
        outputs=outputs,
        kind=f"{own.name} of {own.place}",
    )


def _is_narrow(dtype: str) -> bool:
    return dtype.startswith("float8") or dtype in ("int8", "uint8")


def _modules(project: Project, symbol: str) -> Iterator[Module]:
    for path, tree in project.python(symbol):
        if re.search(r"test|bench|ref", path.lower()):
            yield Module(path, (project.root / path).read_text(encoding="utf-8"), tree)


def _named(module: Module, symbol: str) -> Iterator[tuple[str, int]]:
    """Functions of a module, with how unlikely they are."""
    words = _words(symbol)
    for name in module.functions:
        if _words(name) == words and name != symbol:
            yield name, 0
        elif _words(name) in (words[1:], words[:-1]) and len(words) > 1:
            yield name, 1
    for name in module.called_beside(symbol):
        yield name, 2


def _words(name: str) -> list[str]:
    return [w for w in name.rpartition("::")[2].lower().split("_") if w and w not in _MARKS]


def _call(function: ast.FunctionDef, draft: Draft) -> str | None:
    """The arguments that the function is called with; None where it needs something that the operator does not have."""
    given = function.args
    parameters = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    positional = parameters[: len(given.posonlyargs) + len(given.args)]
    optional = set(positional[len(positional) - len(given.defaults) :] if given.defaults else ())
    optional |= {a.arg for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d}
    if given.vararg or given.kwarg or given.posonlyargs:
        return None
    matched = {name: found for name in draft.inputs if (found := _like(name, parameters))}
    left = [p for p in parameters if p not in matched.values() and p not in optional]
    for name in draft.inputs:
        if name not in matched and left:
            matched[name] = left.pop(0)
    if left or len(set(matched.values())) < len(draft.inputs):
        return None
    return ", ".join(f"{parameter}={name}" for name, parameter in matched.items())


def _like(name: str, parameters: list[str]) -> str | None:
    """The parameter that an input goes to by its name."""
    if name in parameters:
        return name
    same = next((group for group in _SAME if name in group), frozenset())
    fitting = [p for p in parameters if p in same]
    return fitting[0] if len(fitting) == 1 else None


def _written(taken: Taken, call: str, draft: Draft, place: str, release: str) -> str:
    changed = [str(o["in_place_of"]) for o in draft.outputs.values() if "in_place_of" in o]
    shapes = [_shape(draft, spec["shape"]) for spec in draft.outputs.values()]
    return _MODULE.format(
        head="".join(f"{line}\n" for line in taken.head),
        name=taken.function.name,
        place=place,
        release=release,
        text=taken.text,
        inputs=", ".join(draft.inputs),
        call=call,
        changed=_CHANGED.format(names=_tuple(changed)) if changed else "",
        shapes=_tuple(shapes),
    )


def _shape(draft: Draft, shape: object) -> str:
    """An output's shape, said by its inputs; `None` where they do not say it."""
    assert isinstance(shape, list)
    sizes: list[str] = []
    for axis in shape:
        constant = draft.axes.get(axis, {}).get("value")
        size = str(constant) if constant is not None else _size(draft, axis)
        if size is None:
            return "None"
        sizes.append(size)
    return _tuple(sizes)


def _tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _size(draft: Draft, axis: object) -> str | None:
    if isinstance(axis, int):
        return str(axis)
    for name, spec in draft.inputs.items():
        shape = spec["shape"]
        if isinstance(shape, list) and axis in shape:
            return f"{name}.shape[{shape.index(axis)}]"
    return None


_CHANGED = """\
    found = {names} if found is None else found  # changed in place
"""
_MODULE = '''{head}"""The framework's own reference: `{name}` of {place}, {release}, as it stands there."""

{text}


def run({inputs}):
    """Its results, in the shapes that the operator writes them in."""
    found = {name}({call})
{changed}    found = found if isinstance(found, (tuple, list)) else (found,)
    shapes = {shapes}
    return tuple(
        x if shape is None or tuple(x.shape) == shape else x.reshape(shape)
        for x, shape in zip(found, shapes, strict=True)
    )
'''
