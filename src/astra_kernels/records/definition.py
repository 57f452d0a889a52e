"""What an operator computes: axes, inputs, outputs, reference and tolerance.

The schema is FlashInfer-Bench's and SOL-ExecBench's Definition. Extensions of ours, all optional, are marked *(extension)*.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Set
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from astra_kernels.records.base import Record
from astra_kernels.records.dtypes import DType, dtype_bytes, is_floating
from astra_kernels.records.expressions import evaluate, names_in

Compare = Literal["float", "exact", "quantised"]


class AxisDomain(Record):
    """The sizes that a var axis may take *(extension)*; hidden workloads are drawn from it."""

    min: int = Field(1, ge=0)
    max: int | None = None
    multiple_of: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        return self

    def problem_with(self, size: int) -> str | None:
        """Why `size` lies outside, or None when it does not."""
        if size < self.min:
            return f"{size} is below the minimum {self.min}"
        if self.max is not None and size > self.max:
            return f"{size} is above the maximum {self.max}"
        if size % self.multiple_of:
            return f"{size} is not a multiple of {self.multiple_of}"
        return None


class AxisConst(Record):
    """A dimension fixed by the definition."""

    type: Literal["const"] = "const"
    value: int = Field(ge=0)
    description: str | None = None


class AxisVar(Record):
    """A dimension that each workload sets."""

    type: Literal["var"] = "var"
    description: str | None = None
    domain: AxisDomain | None = None
    """Sizes the operator supports *(extension)*."""


class AxisExpr(Record):
    """A dimension computed from other axes."""

    type: Literal["expr"] = "expr"
    expression: str
    description: str | None = None


Axis = Annotated[AxisConst | AxisVar | AxisExpr, Field(discriminator="type")]


class TensorSpec(Record):
    """A tensor by shape (axis names; `[]` a 0-d tensor, null a scalar) and element type."""

    shape: tuple[str, ...] | None
    dtype: DType
    description: str | None = None


class OutputSpec(TensorSpec):
    """An output tensor and how it is compared."""

    in_place_of: str | None = None
    """The input that this output overwrites: no parameter of its own; the reference returns a new array *(extension)*."""
    compare: Compare | None = None
    """`float` (default for floats), `exact` (default for integers and bool) or `quantised` *(extension)*."""

    @property
    def comparison(self) -> Compare:
        """The comparison in force."""
        return self.compare or ("float" if is_floating(self.dtype) else "exact")


class Tolerance(Record):
    """SOL-ExecBench's tolerance block: |got - want| <= max_atol + max_rtol * |want| for enough elements."""

    max_atol: float = Field(1e-2, ge=0)
    max_rtol: float = Field(1e-2, ge=0)
    required_matched_ratio: float = Field(1.0, ge=0, le=1)
    max_error_cap: float | None = None
    allow_negative_inf: bool = False


class Definition(Record):
    """One operator at one element type: the single source of truth about what is computed."""

    name: str = Field(min_length=1)
    op_type: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    axes: dict[str, Axis]
    inputs: dict[str, TensorSpec]
    outputs: dict[str, OutputSpec]
    constraints: tuple[str, ...] = ()
    reference: str | None = None
    """Python source with `run`; empty when the problem directory has a `reference.py`."""
    oracle: Literal["reference", "baseline"] = "reference"
    """`baseline`: there is no reference, and outputs are compared with the original kernel's own *(extension)*."""
    custom_inputs_entrypoint: str | None = None
    tolerance: Tolerance | None = None
    """Holds for every workload that has none of its own *(extension)*."""
    bytes: str | None = None
    """Bytes that must move through device memory, as an expression over the axes *(extension)*; default: every tensor once."""
    flops: str | None = None
    """Floating-point operations, as an expression over the axes *(extension)*."""

    @field_validator("tags", "constraints", mode="before")
    @classmethod
    def _null_is_empty(cls, value: object) -> object:
        return () if value is None else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in (*self.axes, *self.inputs, *self.outputs):
            if not name.isidentifier() or keyword.iskeyword(name):
                raise ValueError(
                    f"{name!r} is not a usable name: names become parameters of the reference"
                )
        self._check_shapes()
        self._check_in_place()
        self._check_expressions()
        return self

    def _check_shapes(self) -> None:
        if not self.outputs:
            raise ValueError("outputs: at least one output is needed")
        for kind, specs in (("inputs", self.inputs), ("outputs", self.outputs)):
            for name, spec in specs.items():
                for axis in spec.shape or ():
                    if axis not in self.axes:
                        raise ValueError(
                            f"{kind}.{name}.shape: unknown axis {axis!r} (axes: {', '.join(self.axes)})"
                        )
        for name, spec in self.outputs.items():
            if spec.shape is None:
                raise ValueError(
                    f"outputs.{name}.shape: a scalar output cannot be written by a kernel; use [] for 0-d"
                )

    def _check_in_place(self) -> None:
        targets: set[str] = set()
        for name, spec in self.outputs.items():
            if spec.in_place_of is None:
                if name in self.inputs:
                    raise ValueError(
                        f"outputs.{name}: the name of an input; give it in_place_of or another name"
                    )
                continue
            target = self.inputs.get(spec.in_place_of)
            if target is None:
                raise ValueError(f"outputs.{name}.in_place_of: unknown input {spec.in_place_of!r}")
            if (target.shape, target.dtype) != (spec.shape, spec.dtype):
                raise ValueError(
                    f"outputs.{name}.in_place_of: shape and dtype differ from input {spec.in_place_of!r}"
                )
            if spec.in_place_of in targets:
                raise ValueError(
                    f"outputs.{name}.in_place_of: {spec.in_place_of!r} is overwritten twice"
                )
            targets.add(spec.in_place_of)

    def _check_expressions(self) -> None:
        scalars = {n for n, s in self.inputs.items() if s.shape is None}
        for axis, spec in self.axes.items():
            if isinstance(spec, AxisExpr):
                self._check_names(
                    f"axes.{axis}.expression", spec.expression, self.axes.keys() - {axis}
                )
        self._expr_order()
        for index, constraint in enumerate(self.constraints):
            self._check_names(f"constraints[{index}]", constraint, self.axes.keys() | scalars)
        for field, text in (("bytes", self.bytes), ("flops", self.flops)):
            if text is not None:
                self._check_names(field, text, self.axes.keys())

    @staticmethod
    def _check_names(field: str, expression: str, known: Set[str]) -> None:
        unknown = names_in(expression) - known
        if unknown:
            raise ValueError(f"{field}: unknown axis {sorted(unknown)[0]!r} in {expression!r}")

    def _expr_order(self) -> tuple[str, ...]:
        """Names of expr axes in an order in which each depends on earlier ones only."""
        waiting = {
            n: names_in(a.expression) for n, a in self.axes.items() if isinstance(a, AxisExpr)
        }
        order: list[str] = []
        while waiting:
            ready = [n for n, needs in waiting.items() if not needs & waiting.keys()]
            if not ready:
                raise ValueError(
                    f"axes: expressions refer to each other in a circle: {', '.join(waiting)}"
                )
            for name in ready:
                del waiting[name]
            order += ready
        return tuple(order)

    @property
    def var_axes(self) -> dict[str, AxisVar]:
        """The axes that a workload sets."""
        return {n: a for n, a in self.axes.items() if isinstance(a, AxisVar)}

    def resolve_axes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Every axis as a number, given the sizes of the var axes.

        Raises:
            ValueError: a var axis is missing or unknown, a size lies outside its domain, an expression is no whole
                number, or a constraint over axes alone does not hold.
        """
        unknown = sizes.keys() - self.var_axes.keys()
        if unknown:
            raise ValueError(
                f"axes: {sorted(unknown)[0]!r} is not a var axis (var axes: {', '.join(self.var_axes)})"
            )
        resolved: dict[str, int] = {}
        for name, axis in self.axes.items():
            if isinstance(axis, AxisConst):
                resolved[name] = axis.value
            elif isinstance(axis, AxisVar):
                resolved[name] = self._var_size(name, axis, sizes)
        for name in self._expr_order():
            axis = self.axes[name]
            assert isinstance(axis, AxisExpr)
            value = evaluate(axis.expression, resolved)
            if value != int(value) or value < 0:
                raise ValueError(f"axes.{name}: {axis.expression!r} gives {value}, not a size")
            resolved[name] = int(value)
        for constraint in self.constraints:
            if names_in(constraint) <= resolved.keys() and not evaluate(constraint, resolved):
                raise ValueError(f"constraint {constraint!r} does not hold for {dict(sizes)}")
        return resolved

    @staticmethod
    def _var_size(name: str, axis: AxisVar, sizes: Mapping[str, int]) -> int:
        if name not in sizes:
            raise ValueError(f"axes: the size of {name!r} is missing")
        trouble = axis.domain.problem_with(sizes[name]) if axis.domain else None
        if sizes[name] < 0 or trouble:
            raise ValueError(f"axes.{name}: {trouble or 'a size cannot be negative'}")
        return sizes[name]

    def minimum_bytes(self, axes: Mapping[str, int]) -> int:
        """Bytes that must move: the `bytes` expression, else each input read once and each output written once."""
        if self.bytes is not None:
            return int(evaluate(self.bytes, axes))
        total = 0
        for spec in (*self.inputs.values(), *self.outputs.values()):
            if spec.shape is not None:
                elements = 1
                for axis in spec.shape:
                    elements *= axes[axis]
                total += elements * dtype_bytes(spec.dtype)
        return total
