"""How an implementation is built and called: FlashInfer-Bench's Solution, with the plain C binding as an extension.

C binding: the entry point is `extern "C" int f(...)` (0 = success, else a cudaError_t). Tensors are
device pointers, axes are `int64_t`, scalars take the C type of their dtype, and `stream` is a
`cudaStream_t`; `arguments` gives the order and other C types.
"""

from __future__ import annotations

import math
from pathlib import PurePosixPath
from typing import Literal, Self

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

from astra_kernels.records.base import Record
from astra_kernels.records.definition import Definition

CType = Literal[
    "pointer",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float32",
    "float64",
    "bool",
    "string",
    "none",
    "stream",
]
Constant = StrictBool | StrictInt | StrictFloat | StrictStr

_SCALAR_CTYPE: dict[str, CType] = {
    "float64": "float64",
    "int64": "int64",
    "int32": "int32",
    "int16": "int32",
    "int8": "int32",
    "uint8": "int32",
    "bool": "bool",
}


_CONSTANTS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("int32", "uint32", "int64", "uint64"), int),
    **dict.fromkeys(("float32", "float64"), (int, float)),
    "bool": bool,
    "string": str,
}
_RANGES: dict[str, range] = {
    "int32": range(-(1 << 31), 1 << 31),
    "uint32": range(1 << 32),
    "int64": range(-(1 << 63), 1 << 63),
    "uint64": range(1 << 64),
}


def check_source_path(value: str) -> str:
    """Return `value` if it is a relative path that stays inside its tree.

    Raises:
        ValueError: for an absolute path, a `..`, a backslash or an empty path.
    """
    path = PurePosixPath(value)
    if not value or path.is_absolute() or ".." in path.parts or "\\" in value or "\0" in value:
        raise ValueError(f"path {value!r} must be relative and stay inside the sources")
    return value


class Argument(Record):
    """One parameter of an entry point: a tensor, an axis, a scalar input, `workspace`, `stream` or a constant."""

    name: str
    ctype: CType
    value: Constant | None = None
    """Of a constant: what every call passes. Its name is for readers."""

    @property
    def constant(self) -> bool:
        """Whether it is the same in every call; ctype `none` is a parameter that may be absent, and is."""
        return self.value is not None or self.ctype == "none"

    @model_validator(mode="after")
    def _value_fits(self) -> Self:
        kind = _CONSTANTS.get(self.ctype)
        if self.value is None:
            if self.ctype == "string":
                raise ValueError(f"{self.name!r} is a string and needs a `value`")
            return self
        if kind is None or not isinstance(self.value, kind):
            raise ValueError(f"the value {self.value!r} of {self.name!r} is no {self.ctype}")
        if isinstance(self.value, bool) and self.ctype != "bool":
            raise ValueError(f"the value {self.value!r} of {self.name!r} is no {self.ctype}")
        if isinstance(self.value, float) and not math.isfinite(self.value):
            raise ValueError(f"the value of {self.name!r} is not finite")
        if self.ctype in _RANGES and self.value not in _RANGES[self.ctype]:
            raise ValueError(f"the value {self.value!r} of {self.name!r} does not fit {self.ctype}")
        return self


class SourceFile(Record):
    """One source file; without `content` it lies beside `solution.json`."""

    path: str
    content: str | None = None

    _path = field_validator("path")(check_source_path)


class HeaderPackage(Record):
    """Headers taken from an installed Python package, pruned to what the sources include *(extension)*."""

    distribution: str
    """The name on the package index, such as `flashinfer-python`."""
    version: str
    """The version that the problem was written for; another installed version is refused."""
    root: str
    """The include directory inside site-packages, such as `flashinfer/data/include`."""

    _root = field_validator("root")(check_source_path)


class CompileOptions(Record):
    """Extra compiler flags."""

    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ()
    ld_flags: tuple[str, ...] = ()


class Workspace(Record):
    """Scratch device memory that the caller provides as argument `workspace` *(extension)*."""

    bytes: str
    """Size as an expression over the axes."""


class SolutionSpec(Record):
    """Language, entry point and binding."""

    language: str | None = None
    languages: tuple[str, ...] = ()
    """SOL-ExecBench's spelling."""
    target_hardware: tuple[str, ...] = ()
    entry_point: str
    """`file::function`."""
    dependencies: tuple[str, ...] = ()
    destination_passing_style: bool = True
    binding: Literal["c", "tvm-ffi", "torch"] | None = None
    compile_options: CompileOptions = CompileOptions()
    arguments: tuple[Argument | str, ...] | None = None
    """Parameters in order *(extension)*; names alone take default C types; default: inputs, outputs, axes, stream."""
    workspace: Workspace | None = None
    headers: tuple[HeaderPackage, ...] = ()

    @field_validator("entry_point")
    @classmethod
    def _file_and_function(cls, value: str) -> str:
        path, separator, function = value.partition("::")
        if not separator or not all(part.isidentifier() for part in function.split("::")):
            raise ValueError(f"entry_point {value!r} must read 'file::function'")
        check_source_path(path)
        return value

    @model_validator(mode="after")
    def _only_torch_has_namespaces(self) -> Self:
        if self.binding != "torch" and "::" in self.entry_symbol:
            raise ValueError(f"entry_point {self.entry_point!r} must read 'file::function'")
        return self

    @field_validator("compile_options", mode="before")
    @classmethod
    def _null_is_default(cls, value: object) -> object:
        return CompileOptions() if value is None else value

    @property
    def entry_file(self) -> str:
        """Path of the file that defines the entry point."""
        return self.entry_point.partition("::")[0]

    @property
    def entry_symbol(self) -> str:
        """Name of the function to call."""
        return self.entry_point.partition("::")[2]

    @property
    def calls_c(self) -> bool:
        """Whether the entry point is a plain C function."""
        return self.binding in ("c", None)

    def resolved_arguments(self, definition: Definition) -> tuple[Argument, ...]:
        """The parameters with their C types.

        Raises:
            ValueError: a name that the definition does not know, or a tensor output that no argument carries.
        """
        separate = [n for n, o in definition.outputs.items() if o.in_place_of is None]
        in_c: tuple[str, ...] = (*definition.var_axes, "stream") if self.calls_c else ()
        names = self.arguments or (*definition.inputs, *separate, *in_c)
        resolved = tuple(self._resolve(item, definition, index) for index, item in enumerate(names))
        carried = {a.name for a in resolved}
        needed = [*separate, *(o.in_place_of for o in definition.outputs.values() if o.in_place_of)]
        for name in needed:
            if name not in carried:
                raise ValueError(f"arguments: output {name!r} is not among them")
        return resolved

    def _constant(self, item: Argument, definition: Definition, index: int) -> Argument:
        if item.name in (*definition.inputs, *definition.outputs, *definition.axes):
            raise ValueError(
                f"arguments[{index}]: {item.name!r} is part of the definition, so it cannot be a constant; "
                "give the parameter a name of its own"
            )
        if self.calls_c and item.ctype == "string":
            raise ValueError(f"arguments[{index}]: a string cannot be passed by the C binding")
        return item

    def _resolve(self, item: Argument | str, definition: Definition, index: int) -> Argument:
        if isinstance(item, Argument) and item.constant:
            return self._constant(item, definition, index)
        name = item if isinstance(item, str) else item.name
        if name == "stream" and not self.calls_c:
            raise ValueError(
                f"arguments[{index}]: binding {self.binding!r} takes the stream from its framework, "
                "not as a parameter"
            )
        spec = definition.inputs.get(name) or definition.outputs.get(name)
        if name == "stream":
            default: CType = "stream"
        elif name == "workspace" and self.workspace is not None:
            default = "pointer"
        elif spec is not None:
            default = (
                "pointer" if spec.shape is not None else _SCALAR_CTYPE.get(spec.dtype, "float32")
            )
        elif name in definition.axes:
            default = "int64"
        else:
            raise ValueError(
                f"arguments[{index}]: {name!r} is no input, output or axis of {definition.name!r}"
            )
        if isinstance(item, str):
            return Argument(name=name, ctype=default)
        if (item.ctype in ("pointer", "stream")) != (default in ("pointer", "stream")):
            raise ValueError(f"arguments[{index}]: {name!r} cannot be passed as {item.ctype}")
        return item


class Solution(Record):
    """An implementation of a definition: spec and sources."""

    name: str
    definition: str
    author: str = "unknown"
    description: str | None = None
    spec: SolutionSpec
    sources: tuple[SourceFile, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _entry_file_is_there(self) -> Self:
        paths = [s.path for s in self.sources]
        if len(set(paths)) != len(paths):
            raise ValueError("sources: the same path appears twice")
        if self.spec.entry_file not in paths:
            raise ValueError(
                f"spec.entry_point: {self.spec.entry_file!r} is not among the sources ({', '.join(paths)})"
            )
        return self
