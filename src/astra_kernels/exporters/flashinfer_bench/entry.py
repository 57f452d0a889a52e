"""The function that FlashInfer-Bench calls: inputs in the definition's order, then outputs, no stream.

A kernel's own entry point is rarely that: its parameters have another order, some are constants or sizes, outputs
overwrite inputs. Then a generated function stands in front of it. An output in place of an input is copied there
first, so that FlashInfer-Bench's inputs stay as they are; that copy is then part of what is timed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from astra_kernels.errors import RunError
from astra_kernels.records.definition import AxisConst, Definition
from astra_kernels.records.problem import Problem
from astra_kernels.records.solution import Argument

SYMBOL = "astra_run"
_OWN_FILE = "astra_run.cu"
_C_TYPES = {
    "pointer": "void*",
    "stream": "void*",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "float32": "float",
    "float64": "double",
    "bool": "bool",
}
_TVM_HEADERS = """#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <cstdint>
#include <optional>
"""
_TVM_COPY = """
// What FlashInfer-Bench gives as an input stays as it is.
inline void astra_copy(tvm::ffi::TensorView to, tvm::ffi::TensorView from) {
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(to.device().device_type, to.device().device_id));
  const size_t bytes = static_cast<size_t>(from.numel()) * (from.dtype().bits * from.dtype().lanes / 8);
  const cudaError_t status = cudaMemcpyAsync(to.data_ptr(), from.data_ptr(), bytes, cudaMemcpyDeviceToDevice, stream);
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << cudaGetErrorString(status);
}
"""


@dataclass(frozen=True)
class Entry:
    """How a solution is called."""

    binding: Literal["tvm-ffi", "torch"]
    point: str
    """`file::symbol`."""
    sources: Mapping[str, str]


def entry_in_front(problem: Problem, sources: Mapping[str, str]) -> Entry:
    """The sources with a function that takes inputs and outputs in the definition's order.

    Args:
        problem: definition and binding.
        sources: of a candidate.

    Raises:
        RunError: it needs scratch memory, a size that no tensor has, or its export cannot be found.
    """
    spec, definition = problem.spec, problem.definition
    arguments = spec.resolved_arguments(definition)
    order = [*definition.inputs, *definition.outputs]
    plain = [a.name for a in arguments] == order and not any(a.constant for a in arguments)
    text = sources[spec.entry_file]
    if spec.binding == "tvm-ffi":
        if plain:
            return Entry("tvm-ffi", spec.entry_point, sources)
        callee = _exported(text, spec.entry_symbol)
        added = f"\n{_TVM_HEADERS}{_in_front_of_views(definition, arguments, callee)}"
        return _appended("tvm-ffi", spec.entry_file, sources, added)
    if spec.binding == "torch":
        if any("PYBIND11_MODULE" in t for t in sources.values()):
            raise RunError(
                f"{spec.entry_file}: FlashInfer-Bench's torch solutions are a module of pybind11, and the sources "
                "define one of their own; take it out of the problem"
            )
        added = f"\n#include <torch/extension.h>\n{_in_front_of_torch(definition, arguments, spec.entry_symbol)}"
        return _appended("torch", spec.entry_file, sources, added)
    declared = ", ".join(_C_TYPES[a.ctype] for a in arguments)
    head = f'{_TVM_HEADERS}\nextern "C" int {spec.entry_symbol}({declared});\n'
    body = _in_front_of_views(definition, arguments, spec.entry_symbol, in_c=True)
    if _OWN_FILE in sources:
        raise RunError(f"{_OWN_FILE}: a source of the candidate has this name already")
    return Entry("tvm-ffi", f"{_OWN_FILE}::{SYMBOL}", {**sources, _OWN_FILE: head + body})


def _appended(
    binding: Literal["tvm-ffi", "torch"], path: str, sources: Mapping[str, str], text: str
) -> Entry:
    return Entry(binding, f"{path}::{SYMBOL}", {**sources, path: f"{sources[path]}{text}"})


def _exported(text: str, symbol: str) -> str:
    found = re.search(
        rf"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*{re.escape(symbol)}\s*,\s*&?\s*([\w:]+)\s*\)", text
    )
    if found is None:
        raise RunError(f"{symbol}: its TVM_FFI_DLL_EXPORT_TYPED_FUNC is not in the entry file")
    return found[1]


def _in_front_of_torch(definition: Definition, arguments: tuple[Argument, ...], callee: str) -> str:
    parameters = ", ".join(_parameters(definition, "at::Tensor"))
    copies = [f"  {o}.copy_({i});\n" for o, i in _in_place(definition)]
    passed = ", ".join(_passed(definition, a) for a in arguments)
    return (
        f"\nstatic void {SYMBOL}({parameters}) {{\n{''.join(copies)}  ::{callee}({passed});\n}}\n\n"
        f'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{SYMBOL}", &{SYMBOL}); }}\n'
    )


def _in_front_of_views(
    definition: Definition, arguments: tuple[Argument, ...], callee: str, *, in_c: bool = False
) -> str:
    parameters = ", ".join(_parameters(definition, "tvm::ffi::TensorView"))
    pairs = list(_in_place(definition))
    copies = [f"  astra_copy({o}, {i});\n" for o, i in pairs]
    passed = ", ".join(_passed(definition, a, in_c=in_c) for a in arguments)
    call = f"  ::{callee}({passed});\n"
    if in_c:
        first = next(iter(definition.outputs))
        call = (
            f"  void* const stream = TVMFFIEnvGetStream({first}.device().device_type, {first}.device().device_id);\n"
            f"  const int code = {callee}({passed});\n"
            f'  if (code != 0) TVM_FFI_THROW(RuntimeError) << "{callee} returned " << code;\n'
        )
    return (
        f"{_TVM_COPY if pairs else ''}\nstatic void {SYMBOL}_typed({parameters}) {{\n{''.join(copies)}{call}}}\n\n"
        f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({SYMBOL}, {SYMBOL}_typed);\n"
    )


def _parameters(definition: Definition, tensor: str) -> Iterator[str]:
    for name, spec in (*definition.inputs.items(), *definition.outputs.items()):
        if spec.shape is not None:
            yield f"{tensor} {name}"
        elif spec.dtype == "bool":
            yield f"bool {name}"
        else:
            yield f"{'int64_t' if spec.dtype.startswith('int') else 'double'} {name}"


def _in_place(definition: Definition) -> Iterator[tuple[str, str]]:
    """Outputs and the inputs whose place they take."""
    for name, spec in definition.outputs.items():
        if spec.in_place_of is not None:
            yield name, spec.in_place_of


def _passed(definition: Definition, argument: Argument, *, in_c: bool = False) -> str:
    """What is passed for one parameter, as C++."""
    if argument.constant:
        return _literal(argument)
    name = argument.name
    taken = {i: o for o, i in _in_place(definition)}
    spec = definition.inputs.get(name) or definition.outputs.get(name)
    if spec is not None and spec.shape is not None:
        tensor = taken.get(name, name)
        return f"{tensor}.data_ptr()" if in_c else tensor
    if spec is not None:
        return f"static_cast<{_C_TYPES[argument.ctype]}>({name})"
    if name == "stream":
        return "stream"
    if name in definition.axes:
        return f"static_cast<{_C_TYPES[argument.ctype]}>({_size(definition, name)})"
    raise RunError(
        f"the kernel takes scratch memory ({name}), which FlashInfer-Bench does not give; it cannot be exported"
    )


def _literal(argument: Argument) -> str:
    value = argument.value
    if value is None:
        return "std::nullopt"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


def _size(definition: Definition, axis: str) -> str:
    spec = definition.axes[axis]
    if isinstance(spec, AxisConst):
        return str(spec.value)
    for name, tensor in (*definition.inputs.items(), *definition.outputs.items()):
        if tensor.shape is not None and axis in tensor.shape:
            return f"{name}.size({tensor.shape.index(axis)})"
    raise RunError(
        f"the kernel takes the size {axis}, which no tensor has; it cannot be exported to FlashInfer-Bench"
    )
