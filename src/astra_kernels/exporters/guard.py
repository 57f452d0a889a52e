"""The C++ condition under which the new kernel is called: exactly what a run established, read off the arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from astra_kernels.errors import ExportRefused
from astra_kernels.exporters.regions import Region
from astra_kernels.extraction.syntax import Function, Parameter, words
from astra_kernels.records.definition import AxisConst, AxisExpr, AxisVar
from astra_kernels.records.definition import TensorSpec as Tensor
from astra_kernels.records.problem import Problem
from astra_kernels.records.solution import Argument
from astra_kernels.records.workload import ScalarInput

ALIGNMENT = 16
"""Bytes. Every tensor of every workload, hidden ones too, is aligned to more: less was never tested."""
_TORCH = {
    "float64": "Double",
    "float32": "Float",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float8_e4m3fn": "Float8_e4m3fn",
    "float8_e5m2": "Float8_e5m2",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}
_DLPACK = {
    "float64": ("kDLFloat", 64),
    "float32": ("kDLFloat", 32),
    "float16": ("kDLFloat", 16),
    "bfloat16": ("kDLBfloat", 16),
    "float8_e4m3fn": ("kDLFloat8_e4m3fn", 8),
    "float8_e5m2": ("kDLFloat8_e5m2", 8),
    "int64": ("kDLInt", 64),
    "int32": ("kDLInt", 32),
    "int16": ("kDLInt", 16),
    "int8": ("kDLInt", 8),
    "uint8": ("kDLUInt", 8),
    "bool": ("kDLBool", 8),
}


@dataclass(frozen=True)
class Guard:
    """The function that decides, and what it asks for in words."""

    parameters: tuple[Parameter, ...]
    """Those of the operator that it looks at."""
    conditions: tuple[str, ...]
    """Each has to hold; C++."""
    axes: tuple[tuple[str, str], ...]
    """Name and C++ value of every axis that the regions mention."""
    regions: tuple[Region, ...]
    capability: int
    device: str
    """C++ expression of the device's index."""
    words: tuple[str, ...]
    """What is asked for besides the sizes."""
    constants: tuple[str, ...]
    """Conditions on parameters that have the same value in every workload; C++."""

    def text(self) -> str:
        """The definition of `confirmed`."""
        given = ", ".join(f"{p.type} {p.name}" for p in self.parameters)
        lines = [
            "// Whether a call is one of those for which the kernel above was confirmed.",
            f"inline bool confirmed({given}) {{",
        ]
        lines += [f"  if (!({condition})) return false;" for condition in self.conditions]
        lines.append(f"  if (compute_capability({self.device}) != {self.capability}) return false;")
        taken = {p.name for p in self.parameters}
        local = {n: n if n == v or n not in taken else f"{n}_axis" for n, v in self.axes}
        lines += [f"  const int64_t {local[n]} = {v};" for n, v in self.axes if n != v]
        lines += [f"  if ({_condition(r, local)}) return true;" for r in self.regions]
        return "\n".join([*lines, "  return false;", "}"]) + "\n"

    def call(self) -> str:
        """The arguments that it is called with."""
        return ", ".join(p.name for p in self.parameters)


COMPUTE_CAPABILITY = """\
// Compute capability of a device as 10 * major + minor, asked for once; 0 where that fails.
inline int compute_capability(int device) {
  constexpr int kDevices = 64;
  static std::atomic<int> known[kDevices];
  if (device < 0 || device >= kDevices) return 0;
  int value = known[device].load(std::memory_order_relaxed);
  if (value == 0) {
    int major = 0;
    int minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
      return 0;
    }
    value = 10 * major + minor;
    known[device].store(value, std::memory_order_relaxed);
  }
  return value;
}
"""
CURRENT_DEVICE = """\
inline int current_device() {
  int device = -1;
  return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}
"""


def make_guard(
    problem: Problem, function: Function, regions: tuple[Region, ...], capability: int
) -> Guard:
    """The guard of an operator.

    Args:
        problem: what its parameters mean.
        function: its host function.
        regions: the sizes of confirmed wins.
        capability: compute capability of the GPU that confirmed them, as 90.

    Raises:
        ExportRefused: a parameter has no name, or an axis cannot be read off the arguments.
    """
    return _Making(problem, function).guard(regions, capability)


class _Making:
    """Reads a definition against a function's parameters."""

    def __init__(self, problem: Problem, function: Function) -> None:
        self._problem, self._function = problem, function
        self._definition = problem.definition
        arguments = problem.spec.resolved_arguments(problem.definition)
        if len(arguments) != len(function.parameters) or not all(
            p.name for p in function.parameters
        ):
            raise ExportRefused(
                f"{function.place}: {function.signature} does not have the {len(arguments)} named parameters of the "
                "problem; extract the operator again"
            )
        self._pairs = tuple(zip(arguments, function.parameters, strict=True))
        self._binding = problem.spec.binding or "c"
        self._values: dict[str, str] = {}
        """C++ of each axis."""

    def guard(self, regions: tuple[Region, ...], capability: int) -> Guard:
        conditions = [c for a, p in self._pairs for c in self._about(a, p)]
        conditions += self._sizes()
        conditions += self._domains()
        constants = tuple(self._constant())
        wanted = {n for r in regions for n in (*dict(r.exact), r.axis) if n}
        for name in sorted(wanted):
            if name not in self._values:
                raise ExportRefused(
                    f"axis {name} of {self._definition.name} cannot be read off the arguments of "
                    f"{self._function.name}, so no guard can be made"
                )
        conditions += self._distinct()
        used = words(" ".join((*conditions, *self._values.values(), self._device())))
        return Guard(
            tuple(p for _, p in self._pairs if p.name in used),
            tuple(dict.fromkeys(conditions)),
            tuple((n, v) for n, v in self._values.items() if n in wanted),
            regions,
            capability,
            self._device(),
            (*self._words(), *(f"`{c}`" for c in constants)),
            constants,
        )

    def _about(self, argument: Argument, parameter: Parameter) -> Iterator[str]:
        """What has to hold of one parameter by itself."""
        if argument.constant:
            yield from _is_constant(argument, parameter)
            return
        tensor = self._tensor(argument.name)
        if tensor is not None and tensor.shape is not None:
            yield from self._about_tensor(tensor, parameter)
        elif argument.name in self._definition.inputs:
            yield from self._about_scalar(argument, parameter)
        elif argument.name in self._definition.axes:
            self._values.setdefault(argument.name, parameter.name)

    def _about_tensor(self, tensor: Tensor, parameter: Parameter) -> Iterator[str]:
        one, shape = _value(parameter), tensor.shape or ()
        if _optional(parameter):
            yield f"{parameter.name}.has_value()"
        if self._binding == "torch":
            yield f"{one}.scalar_type() == at::ScalarType::{_TORCH[tensor.dtype]}"
            yield f"{one}.dim() == {len(shape)} && {one}.is_contiguous()"
        elif self._binding == "tvm-ffi":
            code, bits = _DLPACK[tensor.dtype]
            kind = f"{one}.dtype()"
            yield f"{kind}.code == {code} && {kind}.bits == {bits} && {kind}.lanes == 1"
            yield f"{one}.ndim() == {len(shape)} && {one}.IsContiguous()"
        yield f"reinterpret_cast<uintptr_t>({self._pointer(parameter)}) % {ALIGNMENT} == 0"

    def _about_scalar(self, argument: Argument, parameter: Parameter) -> Iterator[str]:
        """A scalar that had one value only is held to it, unless hidden workloads change it."""
        sources = [w.inputs[argument.name] for w in self._problem.workloads]
        values = {s.value for s in sources if isinstance(s, ScalarInput)}
        floating = argument.ctype in ("float32", "float64")
        if not floating and len(values) == 1 and all(isinstance(s, ScalarInput) for s in sources):
            (value,) = values
            yield f"{parameter.name} == {_literal(value)}"

    def _sizes(self) -> Iterator[str]:
        """Every dimension of every tensor fits the axes; an axis is what the first dimension of its name says."""
        if self._binding == "c":
            return
        dimensions = [
            (axis, f"{_value(parameter)}.size({index})")
            for argument, parameter in self._pairs
            if (tensor := self._tensor(argument.name)) is not None and not argument.constant
            for index, axis in enumerate(tensor.shape or ())
        ]
        for name, size in dimensions:
            axis = self._definition.axes[name]
            if isinstance(axis, AxisConst):
                yield f"{size} == {axis.value}"
            elif isinstance(axis, AxisVar):
                known = self._values.setdefault(name, size)
                if known != size:
                    yield f"{size} == {known}"
        for name, size in dimensions:
            axis = self._definition.axes[name]
            if isinstance(axis, AxisExpr):
                wanted = _in_cpp(axis.expression, {**self._values, **self._constants()})
                if wanted:
                    yield f"{size} == {wanted}"

    def _domains(self) -> Iterator[str]:
        for name, axis in self._definition.var_axes.items():
            if axis.domain is not None and axis.domain.multiple_of > 1 and name in self._values:
                yield f"({self._values[name]}) % {axis.domain.multiple_of} == 0"

    def _distinct(self) -> Iterator[str]:
        """What is written lies elsewhere than everything else, as in every test."""
        definition = self._definition
        written = {*definition.outputs, *(o.in_place_of for o in definition.outputs.values())}
        tensors = [
            (a.name in written, p)
            for a, p in self._pairs
            if (t := self._tensor(a.name)) is not None and t.shape is not None and not a.constant
        ]
        for (one_written, one), (other_written, other) in combinations(tensors, 2):
            if one_written or other_written:
                yield f"{self._address(one)} != {self._address(other)}"

    def _address(self, parameter: Parameter) -> str:
        return f"static_cast<const void*>({self._pointer(parameter)})"

    def _pointer(self, parameter: Parameter) -> str:
        return parameter.name if self._binding == "c" else f"{_value(parameter)}.data_ptr()"

    def _tensor(self, name: str) -> Tensor | None:
        return self._definition.inputs.get(name) or self._definition.outputs.get(name)

    def _constants(self) -> dict[str, str]:
        axes = self._definition.axes.items()
        return {n: str(a.value) for n, a in axes if isinstance(a, AxisConst)}

    def _device(self) -> str:
        first = next(
            (
                p
                for a, p in self._pairs
                if (t := self._tensor(a.name)) is not None and t.shape is not None
            ),
            None,
        )
        if self._binding == "c" or first is None:
            return "current_device()"
        if self._binding == "torch":
            return f"{_value(first)}.get_device()"
        return f"{_value(first)}.device().device_id"

    def _constant(self) -> Iterator[str]:
        """Conditions on parameters that have one value in all workloads."""
        for argument, parameter in self._pairs:
            tensor = self._tensor(argument.name)
            if argument.constant:
                yield from _is_constant(argument, parameter)
            elif tensor is not None and tensor.shape is None:
                yield from self._about_scalar(argument, parameter)

    def _words(self) -> tuple[str, ...]:
        named: list[str] = []
        kinds: dict[str, list[str]] = {}
        for argument, _ in self._pairs:
            tensor = self._tensor(argument.name)
            if tensor is not None and tensor.shape is not None and not argument.constant:
                kinds.setdefault(tensor.dtype, []).append(argument.name)
        listed = "; ".join(f"{', '.join(names)} of {dtype}" for dtype, names in kinds.items())
        if self._binding == "c":
            named.append(
                f"element types are those of the pointers, and cannot be looked at ({listed})"
            )
            named.append(
                "tensors are taken to be dense, which a pointer does not tell: so does the original"
            )
        else:
            named.append(f"element types: {listed}")
            named.append("every tensor is contiguous and has the rank of the definition")
        named.append(f"every pointer is a multiple of {ALIGNMENT} bytes")
        named.append("no tensor that is written starts where another one starts")
        return tuple(named)


def _optional(parameter: Parameter) -> bool:
    return "ptional<" in parameter.type.replace(" ", "")


def _value(parameter: Parameter) -> str:
    return f"(*{parameter.name})" if _optional(parameter) else parameter.name


def _is_constant(argument: Argument, parameter: Parameter) -> Iterator[str]:
    if argument.value is None:
        if _optional(parameter):
            yield f"!{parameter.name}.has_value()"
        else:
            yield f"{parameter.name} == nullptr"
    elif isinstance(argument.value, bool):
        yield parameter.name if argument.value else f"!{parameter.name}"
    else:
        yield f"{parameter.name} == {_literal(argument.value)}"


def _literal(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)


def _condition(region: Region, local: Mapping[str, str]) -> str:
    parts = [f"{local[name]} == {size}" for name, size in region.exact]
    axis = local.get(region.axis, "")
    if region.low == region.high:
        parts += [f"{axis} == {region.low}"] if axis else []
    else:
        parts += [f"{axis} >= {region.low}", f"{axis} <= {region.high}"]
    return " && ".join(parts) or "true"


_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
    ast.Mod: "%",
}


def _in_cpp(expression: str, values: Mapping[str, str]) -> str:
    """An expression over axes in C++; "" where it has more than sums, products and quotients of sizes."""

    def said(node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(value)):
                return str(value)
            case ast.Name(id=name) if name in values:
                return f"({values[name]})"
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATORS:
                one, other = said(left), said(right)
                return f"({one} {_OPERATORS[type(operation)]} {other})" if one and other else ""
        return ""

    return said(ast.parse(expression.strip(), mode="eval").body)
