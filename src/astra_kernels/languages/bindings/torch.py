"""Operators with at::Tensor parameters, as sgl-kernel's and vLLM's sources define them.

The entry point is the C++ function itself. On a real device it is built with torch's own headers. On a simulated one
a small stand-in takes their place: what it lacks is told by name.
"""

from __future__ import annotations

import importlib.util
import re
import sysconfig
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from astra_kernels.errors import SetupError
from astra_kernels.languages.bindings.adapter import (
    HEADERS,
    Adapter,
    Parameter,
    entry_function,
)

STAND_IN = Path(__file__).parent / "torch_stand_in"
_HEADER = "astra_entry.cuh"
_FLAGS = ("--expt-relaxed-constexpr", "--expt-extended-lambda")
_REGISTERS = re.compile(
    r"\bTORCH_(LIBRARY|EXTENSION_NAME)|\bPYBIND11_MODULE\b|include\s*[<\"](torch|pybind11)/"
)
_LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_cuda.so")

_FILE = re.compile(
    r'(?:cannot open source file )?"?((?:torch|ATen|c10|caffe2)/[\w./]+)"?(?:: No such file.*)?'
)
_MEMBER = re.compile(
    r'(?:class|struct|namespace) "((?:at|c10|torch|caffe2|Tensor)\b[^"]*)".* has no member "(\w+)".*'
)
_NAME = re.compile(r'identifier "((?:AT|TORCH|C10|THC)_\w+|getCurrent\w+)" is undefined.*')
_OWN = re.compile(r'static assertion failed with "astra: (.*)"')
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined.*')


def torch_adapter(
    entry: tuple[str, str], parameters: Sequence[Parameter], axes: Sequence[str], *, simulated: bool
) -> Adapter:
    """What calls an operator's C++ function.

    Args:
        entry: the source that defines the function, and its name.
        parameters: the operator's.
        axes: the axes of its tensors.
        simulated: whether the stand-in takes the place of torch.

    Raises:
        SetupError: torch is needed and not installed.
    """
    path, name = entry
    text = f'#include "astra_torch.h"\n\n{entry_function(parameters, axes, f"&{name}")}'
    adapter = Adapter(
        sources={_HEADER: text},
        appended={path: f'#include "{_HEADER}"\n'},
        include_dirs=(HEADERS, STAND_IN),
        flags=_FLAGS,
        advice="its source has to end outside every #if and every function",
        explain=partial(_explanation, entry=name, simulated=simulated),
    )
    if simulated:
        return adapter
    package = _torch_directory()
    # Of cuBLAS and others, which torch includes and some compilers come without.
    headers = tuple(sorted(package.parent.glob("nvidia/*/include")))
    python = Path(sysconfig.get_path("include"))
    registration = HEADERS / "astra_torch_registration.h"
    return replace(
        adapter,
        include_dirs=(
            HEADERS,
            package / "include",
            package / "include" / "torch" / "csrc" / "api" / "include",
            *((python,) if (python / "Python.h").is_file() else ()),
        ),
        libraries=tuple(package / "lib" / library for library in _LIBRARIES),
        flags=(
            *_FLAGS,
            "-DTORCH_EXTENSION_NAME=astra",
            *(word for path in headers for word in ("-Xcompiler", f"-idirafter,{path}")),
        ),
        mention=_REGISTERS,
        mention_flags=("-include", str(registration)),
        # Sources that include torch/extension.h need Python's symbols, which the child's interpreter has.
        link_flags=("-Xlinker", "-z", "-Xlinker", "undefs"),
        readable=headers,
        patience=5.0,  # its headers take the compiler a minute or two
    )


def _torch_directory() -> Path:
    found = importlib.util.find_spec("torch")
    for place in found.submodule_search_locations or () if found else ():
        if (Path(place) / "lib" / "libtorch_cuda.so").is_file():
            return Path(place)
    raise SetupError(
        "binding 'torch' on a real device needs the package torch with CUDA: see https://pytorch.org; "
        "on a simulated device (--device sim:h200) a stand-in takes its place"
    )


def _explanation(message: str, entry: str, *, simulated: bool) -> str:
    """What a compiler's error means where it comes from the binding; "" where it does not."""
    if own := _OWN.fullmatch(message):
        return own[1]
    undefined = _UNDEFINED.fullmatch(message)
    if undefined and undefined[1] == entry:
        return f"the entry point {entry} is not defined: no function of this name is in its source"
    if not simulated:
        return ""
    if found := _MEMBER.fullmatch(message):
        lacking = f"{found[1]}::{found[2]}"
    elif found := _FILE.fullmatch(message) or _NAME.fullmatch(message):
        lacking = found[1]
    else:
        return ""
    return f"the stand-in for torch on simulated devices lacks {lacking}; a GPU with torch is needed (--device cuda:0)"
