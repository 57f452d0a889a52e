"""A generated C function in front of an operator that is exported in a framework's own way.

Everything else in a job calls C functions that return an int. An operator that takes `TensorView` or
`at::Tensor` gets such a function beside it, in the same library: it makes tensors of addresses and sizes,
sets the framework's current stream, calls the operator, and writes down what the operator throws.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from astra_kernels.languages.cuda.outcome import BuildFailure

ENTRY = "astra_entry"
"""The generated function."""
MESSAGE_BYTES = 4096
"""Room for what an operator throws, its final zero included; as in the headers."""
HEADERS = Path(__file__).parent / "include"

_SCALARS = {
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "float32": "float",
    "float64": "double",
    "bool": "bool",
}
_ELEMENTS = {"bool": "boolean"}
_MAKERS = {"float32": "real", "float64": "real", "bool": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of an operator.

    Attributes:
        ctype: "pointer" for a tensor, "none" for an optional one that is not given, "string", or a scalar's type.
        dtype: element type of a tensor.
        shape: names of the axes of a tensor.
        value: of a constant that every call gets; None for what a call brings.
    """

    ctype: str
    dtype: str = ""
    shape: tuple[str, ...] = ()
    value: bool | int | float | str | None = None

    @property
    def brought(self) -> bool:
        """Whether every call brings it."""
        return self.value is None and self.ctype != "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What is added to a build so that a framework's operator can be called from C.

    Attributes:
        sources: generated text by path.
        appended: text that is added to the end of a source, by its path.
        include_dirs: the framework's headers, and Astra's.
        libraries: shared libraries to link, which a child loads before the candidate's.
        exports: symbols that the candidate's own sources have to define.
        advice: what to do when they do not.
        flags: for the compiler.
        mention: what sources have to mention, as a pattern, to be compiled with `mention_flags` as well.
        mention_flags: of headers that take a minute to compile and that few sources need.
        link_flags: last on its command line.
        readable: directories that the flags name.
        patience: how many times as long as a kernel with its launcher the build may take.
        explain: what a compiler's error means where it comes from the binding; "" where it does not.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    appended: Mapping[str, str] = field(default_factory=dict)
    include_dirs: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()
    exports: tuple[str, ...] = ()
    advice: str = ""
    flags: tuple[str, ...] = ()
    mention: re.Pattern[str] | None = None
    mention_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    readable: tuple[Path, ...] = ()
    patience: float = 1.0
    explain: Callable[[str], str] = lambda message: ""

    def added_to(self, sources: Mapping[str, str]) -> dict[str, str]:
        """A program's sources with what is generated."""
        together = {**sources, **self.sources}
        for path, text in self.appended.items():
            together[path] = f"{sources.get(path, '')}\n{text}"
        return together

    def flags_for(self, sources: Mapping[str, str]) -> tuple[str, ...]:
        """What the compiler is told of a program."""
        mentioned = self.mention and any(map(self.mention.search, sources.values()))
        return (*self.flags, *self.mention_flags) if mentioned else self.flags

    def explained(self, failure: BuildFailure) -> BuildFailure:
        """A failed build; what comes from the binding is said first, in its words."""
        for one in failure.diagnostics:
            said = self.explain(one.message) if one.severity == "error" else ""
            if said:
                first = replace(one, message=said, tool="request")
                others = tuple(d for d in failure.diagnostics if d is not one)
                return replace(failure, diagnostics=(first, *others))
        return failure


def entry_function(parameters: Sequence[Parameter], axes: Sequence[str], callee: str) -> str:
    """The generated function: the parameters that calls bring, the axes, the stream, room for a message.

    Args:
        parameters: the operator's.
        axes: every axis of a tensor's shape, in the order in which sizes are passed.
        callee: what is called, as C++.
    """
    places = {name: f"axis{index}" for index, name in enumerate(axes)}
    declared = [
        f"{_SCALARS.get(one.ctype, 'void*')} p{index}"
        for index, one in enumerate(parameters)
        if one.brought
    ]
    declared += [f"int64_t {name}" for name in places.values()]
    values = [_made(one, f"p{index}", places) for index, one in enumerate(parameters)]
    return (
        f'extern "C" __attribute__((visibility("default"))) int {ENTRY}(\n'
        f"    {', '.join([*declared, 'void* stream', 'char* message'])}) {{\n"
        f"  return astra::call({', '.join([callee, 'stream', 'message', *values])});\n"
        "}\n"
    )


def _made(parameter: Parameter, name: str, places: Mapping[str, str]) -> str:
    if parameter.ctype == "none":
        return "astra::none()"
    if parameter.ctype == "pointer":
        sizes = ", ".join(places[axis] for axis in parameter.shape)
        return f"astra::tensor({name}, astra::Element::{_ELEMENTS.get(parameter.dtype, parameter.dtype)}, {{{sizes}}})"
    value = name if parameter.value is None else _literal(parameter.value)
    if parameter.ctype == "string":
        return f"astra::text({value})"
    return f"astra::{_MAKERS.get(parameter.ctype, 'integer')}({value})"


def _literal(value: bool | int | float | str) -> str:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"INT64_C({value})"
    return json.dumps(value)
