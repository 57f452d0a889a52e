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
_TORCH = re.compile(
    r"_Z(TI|TS|TV)?NK?(3c10|6caffe28TypeMeta)\w+"  # types, errors, devices, streams; nothing that computes
    r"|_ZNK?2at(6Tensor|10TensorBase|11TensorMaker)\w+|_ZN2at9from_blob\w+"
    r"|_ZN2at4cuda(26getCurrentDeviceProperties|19getDeviceProperties)\w+"
)
_NOT_OURS = re.compile(r"StreamFromPool|setCurrent|synchroni[sz]e|Thread|Allocator|[gs]et_env")
"""What a kernel's launcher has no use for, though torch's core offers it."""
_LIBRARIES = re.compile(r"libtvm_ffi\.so|libc10(_cuda)?\.so|libtorch(_cpu|_cuda)?\.so")
_WORDING = re.compile(
    r"\w*(stringstream|stringbuf|streambuf|ios_base|basic_ios|ostream|_ZNSolsE)\w*|_ZSt4cerr"
)


def is_own_library(name: str) -> bool:
    """Whether a needed library is a framework's, which only Astra links."""
    return _LIBRARIES.fullmatch(name) is not None


def is_own_call(symbol: str) -> bool:
    """Whether an operator of a framework imports a symbol on account of its binding."""
    if symbol in _TVM_FFI or _WORDING.fullmatch(symbol):
        return True
    return _TORCH.fullmatch(symbol) is not None and _NOT_OURS.search(symbol) is None
