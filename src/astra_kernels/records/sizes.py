"""What the axes of a definition mean for the memory of its tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping

from astra_kernels.records.definition import AxisExpr, Definition, TensorSpec
from astra_kernels.records.expressions import names_in


def contiguous_axes(definition: Definition) -> frozenset[str]:
    """Var axes that determine the innermost, contiguous dimension of some tensor."""
    innermost = {t.shape[-1] for t in _tensors(definition) if t.shape}
    found = frozenset[str]().union(*(_behind(definition, axis) for axis in innermost))
    return found & definition.var_axes.keys()


def batch_axis(definition: Definition) -> str | None:
    """The var axis that leads every output, and every tensor that depends on it; None if there is none."""
    leading = {(o.shape or (None,))[0] for o in definition.outputs.values()}
    axis = leading.pop() if len(leading) == 1 else None
    if axis is None or axis not in definition.var_axes:
        return None
    for tensor in _tensors(definition):
        behind = [_behind(definition, a) for a in tensor.shape or ()]
        if any(axis in names for names in behind[1:]):
            return None
        if behind and axis in behind[0] and (tensor.shape or ())[0] != axis:
            return None
    return axis


def total_elements(definition: Definition, axes: Mapping[str, int]) -> int:
    """Elements of all tensors, given every axis."""
    return sum(math.prod(axes[a] for a in t.shape or ()) for t in _tensors(definition))


def _tensors(definition: Definition) -> tuple[TensorSpec, ...]:
    return (*definition.inputs.values(), *definition.outputs.values())


def _behind(definition: Definition, name: str) -> frozenset[str]:
    """The axis itself and all that its size depends on."""
    found: set[str] = set()
    waiting = {name}
    while waiting:
        axis = waiting.pop()
        spec = definition.axes[axis]
        if isinstance(spec, AxisExpr):
            waiting |= names_in(spec.expression) - found
        found.add(axis)
    return frozenset(found)
