"""The C function that a problem calls: the file's own, or a generated one in front of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_kernels.errors import UserError
from astra_kernels.extraction.signature import Slot
from astra_kernels.extraction.syntax import Function, Parameter, without_comments

_THREADS = 256
_C_NAMES = {
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float32": "float",
    "float64": "double",
    "int32": "int",
}
_INCLUDES = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}


@dataclass(frozen=True)
class Launcher:
    """How a function is called from C."""

    symbol: str
    appended: str
    """Text behind the source; nothing where the source has such a function."""
    prepended: str
    slots: tuple[Slot, ...]
    notes: tuple[str, ...]


def launcher(function: Function, slots: tuple[Slot, ...], dtype: str) -> Launcher:
    """What calls `function` in the manner of the C binding.

    Args:
        function: a host function or a kernel.
        slots: its parameters.
        dtype: the element type of a template's type parameter.

    Raises:
        UserError: it is a template with a parameter that cannot be guessed.
    """
    arguments, note = _template_arguments(function, dtype)
    notes = [note] if note else []
    has_stream = any(s.role == "stream" for s in slots)
    is_c = 'extern "C"' in function.returns
    if is_c and not function.kernel and re.search(r"\b(?:int|cudaError_t)\b", function.returns):
        return Launcher(function.name, "", "", slots, _stream_note(has_stream))
    symbol = f"{function.name}_entry"
    call = f"{function.qualified}{arguments}"
    if function.kernel:
        grid, said = _grid(function, slots)
        notes.append(f"{symbol} is generated: {said}; look at grid and block, they are guessed")
        call += f"<<<{grid}, {_THREADS}, 0, stream>>>"
    else:
        notes.append(
            f"{symbol} is generated: it calls {function.name} and returns cudaGetLastError()"
        )
        notes += _stream_note(has_stream)
    element = _C_NAMES.get(dtype, dtype)
    parameters = [_declared(p, element, function.template) for p in function.parameters]
    if not has_stream:
        parameters.append("cudaStream_t stream")
        slots = (*slots, Slot("stream", "stream"))
    passed = ", ".join(p.name for p in function.parameters)
    text = (
        f'\nextern "C" int {symbol}({", ".join(parameters)}) {{\n'
        f"  {call}({passed});\n  return cudaGetLastError();\n}}\n"
    )
    header = _INCLUDES.get(dtype) if function.template else None
    before = f"#include <{header}>\n" if header else ""
    return Launcher(symbol, text, before, slots, tuple(notes))


def _stream_note(has_stream: bool) -> tuple[str, ...]:
    if has_stream:
        return ()
    return (
        "it takes no stream, so it launches on the default one: problems want the stream that they pass",
    )


def _declared(parameter: Parameter, element: str, template: str) -> str:
    kind = parameter.type.replace("__restrict__", "").replace("__grid_constant__", "")
    for name in re.findall(r"(?:typename|class)\s+(\w+)", template):
        kind = re.sub(rf"\b{name}\b", element, kind)
    return f"{' '.join(kind.split())} {parameter.name}"


def _template_arguments(function: Function, dtype: str) -> tuple[str, str]:
    if not function.template:
        return "", ""
    given: list[str] = []
    for part in function.template.strip("<>").split(","):
        if "=" in part:
            break
        kind = part.split()
        if kind[0] in ("typename", "class"):
            given.append(_C_NAMES.get(dtype, dtype))
        elif kind[0] in ("int", "unsigned", "size_t", "uint32_t"):
            given.append(str(_THREADS if re.search("block|thread", part, re.IGNORECASE) else 1))
        elif kind[0] == "bool":
            given.append("false")
        else:
            raise UserError(
                f"{function.place}: {function.name} is a template {function.template}, and {part.strip()!r} cannot "
                'be guessed; add an extern "C" launcher of one instance, and name it with --entry'
            )
    listed = ", ".join(given)
    return f"<{listed}>", f"the template is instantiated as {function.name}<{listed}>"


def _grid(function: Function, slots: tuple[Slot, ...]) -> tuple[str, str]:
    body = " ".join(without_comments(function.text).split())
    sizes = [s.name for s in slots if s.role == "integer"]
    flat = re.search(r"blockIdx\.x \* (?:\w+[{(])?blockDim\.x|blockDim\.x \* blockIdx\.x", body)
    if not sizes:
        return "1", "one block of 256 threads"
    if flat or len(sizes) == 1:
        total = " * ".join(f"static_cast<long long>({s})" for s in sizes[:3])
        return (
            f"static_cast<unsigned>(({total} + {_THREADS - 1}) / {_THREADS})",
            f"a thread for each of {' * '.join(sizes[:3])} elements, 256 to a block",
        )
    return f"static_cast<unsigned>({sizes[0]})", f"a block of 256 threads for each of {sizes[0]}"
