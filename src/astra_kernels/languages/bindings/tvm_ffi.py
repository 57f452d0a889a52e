"""Functions with TensorView parameters, as FlashInfer's csrc and SGLang's jit kernels export them.

`TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, function)` exports `__tvm_ffi_name` with the calling convention of
`TVMFFISafeCallType` (tvm/ffi/c_api.h); the stream is the environment's (tvm/ffi/extra/c_env_api.h).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from astra_kernels.errors import SetupError
from astra_kernels.languages.bindings.adapter import (
    HEADERS,
    Adapter,
    Parameter,
    entry_function,
)

_SOURCE = "astra_entry.cpp"
_PATIENCE = 3.0
"""FlashInfer instantiates dozens of kernels for one operator: over a minute on a busy machine."""


def tvm_ffi_adapter(name: str, parameters: Sequence[Parameter], axes: Sequence[str]) -> Adapter:
    """What calls the function that is exported as `name`.

    Raises:
        SetupError: apache-tvm-ffi is not installed.
    """
    package = tvm_ffi_directory()
    symbol = f"__tvm_ffi_{name}"
    declared = (
        # Weak: a function that is missing is told by its name, not by the linker.
        f'extern "C" __attribute__((weak)) int {symbol}(\n'
        "    void*, const TVMFFIAny*, int32_t, TVMFFIAny*);\n"
    )
    text = f'#include "astra_tvm_ffi.h"\n\n{declared}\n{entry_function(parameters, axes, symbol)}'
    return Adapter(
        sources={_SOURCE: text},
        include_dirs=(HEADERS, package / "include"),
        libraries=(package / "lib" / "libtvm_ffi.so",),
        exports=(symbol,),
        patience=_PATIENCE,
        advice=f"the sources need TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, ...)",
    )


def tvm_ffi_directory() -> Path:
    """Where the package apache-tvm-ffi is installed; it is not imported.

    Raises:
        SetupError: it is not installed, or without its headers and library.
    """
    found = importlib.util.find_spec("tvm_ffi")
    for place in found.submodule_search_locations or () if found else ():
        package = Path(place)
        if (package / "include/tvm/ffi/c_api.h").is_file() and (
            package / "lib/libtvm_ffi.so"
        ).is_file():
            return package
    raise SetupError(
        "binding 'tvm-ffi' needs the headers and the library of the package apache-tvm-ffi: "
        "pip install 'astra-kernels[tvm-ffi]'"
    )
