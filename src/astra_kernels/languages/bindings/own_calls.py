"""What a library calls because of its binding: functions of the framework, and what its headers use to word errors."""

import re

_TVM_FFI = frozenset(
    (
        "TVMFFIAnyViewToOwnedAny",
        "TVMFFIBacktrace",
        "TVMFFIBytesFromByteArray",
        "TVMFFIDataTypeFromString",
        "TVMFFIDataTypeToString",
        "TVMFFIEnvGetStream",
        "TVMFFIEnvSetStream",
        "TVMFFIEnvTensorAlloc",
        "TVMFFIErrorCreate",
        "TVMFFIErrorCreateWithCauseAndExtraContext",
        "TVMFFIErrorMoveFromRaised",
        "TVMFFIErrorSetRaised",
        "TVMFFIErrorSetRaisedFromCStr",
        "TVMFFIErrorSetRaisedFromCStrParts",
        "TVMFFIGetTypeInfo",
        "TVMFFIObjectDecRef",
        "TVMFFIObjectIncRef",
        "TVMFFIStringFromByteArray",
        "TVMFFITensorFromDLPack",
        "TVMFFITensorFromDLPackVersioned",
        "TVMFFITypeGetOrAllocIndex",
        "TVMFFITypeKeyToIndex",
    )
)
"""Of apache-tvm-ffi: none of them finds a function by its name or loads code."""
_LIBRARIES = {"libtvm_ffi.so": _TVM_FFI}
_WORDING = re.compile(
    r"\w*(stringstream|stringbuf|streambuf|ios_base|basic_ios|ostream)\w*|_ZSt4cerr"
)


def is_own_library(name: str) -> bool:
    """Whether a needed library is a framework's, which only Astra links."""
    return name in _LIBRARIES


def is_own_call(symbol: str, needed: tuple[str, ...]) -> bool:
    """Whether a library that needs these others imports a symbol on account of its binding."""
    own = [_LIBRARIES[name] for name in needed if name in _LIBRARIES]
    return any(symbol in names for names in own) or bool(own and _WORDING.fullmatch(symbol))
