"""Whether a built candidate keeps to what a kernel launcher needs, judged by its dynamic symbols.

The first version of gate 2: names only. It stops what is done openly (threads, clocks, files, other
CUDA libraries, code that runs on loading); raw system calls in inline assembly are for the sandbox.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from astra_kernels.languages.cuda.elf import LibrarySymbols

Rule = Literal["imported-symbol", "needed-library", "load-time-code"]
Weight = Literal["rejecting", "suspicious"]


def _names(text: str, suffixes: tuple[str, ...] = ("",)) -> frozenset[str]:
    return frozenset(name + suffix for name in text.split() for suffix in suffixes)


_CUDA_RUNTIME = _names(
    """
    cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel __cudaLaunchKernel
    cudaStreamIsCapturing cudaMemsetAsync cudaMemcpyAsync cudaMallocAsync cudaFreeAsync
    """,
    suffixes=("", "_ptsz"),  # the second is the per-thread default stream's
) | _names(
    """
    __cudaGetKernel __cudaPushCallConfiguration __cudaPopCallConfiguration __cudaInitModule
    __cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary
    __cudaRegisterFunction __cudaRegisterVar __cudaRegisterManagedVar
    cudaGetLastError cudaPeekAtLastError cudaGetErrorString cudaGetErrorName
    cudaGetDevice cudaGetDeviceCount cudaDeviceGetAttribute cudaGetDeviceProperties
    cudaGetDeviceProperties_v2 cudaRuntimeGetVersion cudaDriverGetVersion
    cudaFuncSetAttribute cudaFuncGetAttributes cudaFuncSetCacheConfig cudaGetSymbolAddress
    cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveClusters
    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaOccupancyMaxPotentialClusterSize
    cudaOccupancyAvailableDynamicSMemPerBlock
    """
)

_C_LIBRARY = _names(
    """
    memcpy memmove memset memcmp memchr strlen strcmp strncmp strcpy strncpy strchr strstr strerror
    malloc calloc realloc free aligned_alloc posix_memalign abort snprintf vsnprintf
    __memcpy_chk __memmove_chk __memset_chk __snprintf_chk __vsnprintf_chk
    __stack_chk_fail __assert_fail __errno_location __gmon_start__ __dso_handle
    _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable
    __gxx_personality_v0 _Unwind_Resume __dynamic_cast __tls_get_addr
    """
)

_MATHS = _names(
    """
    exp exp2 expm1 log log2 log10 log1p sqrt cbrt pow fmod floor ceil round rint nearbyint trunc
    lround lrint fma fmin fmax fabs tanh sinh cosh sin cos tan atan atan2 erf ldexp frexp scalbn
    """,
    suffixes=("", "f"),
)

_PRINTING = _names(
    """
    printf fprintf vfprintf __printf_chk __fprintf_chk __vfprintf_chk puts putchar putc fputs fputc
    fwrite fflush stderr stdout
    """
)

_CXX_RUNTIME = re.compile(
    r"__cxa_\w+|_Zn[wa]m\w*|_Zd[la]Pv\w*|_ZT[VISTC]\w*|_ZN?K?S[tsoid]\w*|_ZNK?9__gnu_cxx\w*"
)
_CXX_OTHER = re.compile(
    r"thread|future|async|filesystem|fstream|filebuf|condition_variable|chrono|random_device|mutex"
    r"|semaphore|latch|__cxa_thread_atexit"
)
_CXX_PRINTING = re.compile(
    r"ostream|ios_base|streambuf|_ZSt4(cout|cerr|clog)|stringstream|stringbuf"
)

_LIBRARIES = re.compile(
    r"libcudart\.so\.\d+|libstdc\+\+\.so\.6|libgcc_s\.so\.1|lib(c|m|pthread|dl|rt)\.so\.\d"
    r"|ld-linux-[\w\-]+\.so\.\d"
)

_OWN_INITIALISERS = ("frame_dummy", "_ZL24__sti____cudaRegisterAllv")
_OWN_FINALISERS = ("__do_global_dtors_aux",)
_ONCE = ("frame_dummy", "__do_global_dtors_aux")
_STATIC_OBJECTS = "_GLOBAL__sub_I_"
_IOSTREAM_INITIALISER = "_ZNSt8ios_base4InitC1Ev"  # what including <iostream> alone imports

_IOSTREAM_FINALISER = "_ZNSt8ios_base4InitD1Ev"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a library that an honest kernel does not need.

    Attributes:
        rule: which rule it breaks.
        symbol: the name at fault.
        weight: "rejecting" ends the candidate; "suspicious" is shown in reports.
        reason: what the rule says, in words.
    """

    rule: Rule
    symbol: str
    weight: Weight
    reason: str


def examine(candidate: LibrarySymbols, baseline: LibrarySymbols | None) -> tuple[Finding, ...]:
    """Lists what a candidate's library asks for beyond a launcher's needs and its baseline's.

    Args:
        candidate: symbols of the candidate's library.
        baseline: symbols of the baseline's library, whose imports are always allowed; None when the
            baseline itself is examined.
    """
    return (
        *_imports(candidate, baseline),
        *_libraries(candidate, baseline),
        *_load_time_code(candidate, baseline),
    )


# nvcc's host stub of a `__device__` function with external linkage calls it, so honest code imports
# it; a launcher that really exits ends its own process, and that is a crash.
_STUB_EXIT = "exit"


def _imports(candidate: LibrarySymbols, baseline: LibrarySymbols | None) -> Iterator[Finding]:
    known = {*baseline.imported, *baseline.imported_weak} if baseline else set()
    for symbol in (*candidate.imported, *candidate.imported_weak):
        if symbol in known:
            continue
        weight = _weight(symbol)
        if symbol == _STUB_EXIT:
            reason = (
                "nvcc's stub of a __device__ function that is not static, or a launcher that exits"
            )
            yield Finding("imported-symbol", symbol, "suspicious", reason)
        elif weight == "suspicious":
            reason = "a kernel launcher has no need to print"
            yield Finding("imported-symbol", symbol, weight, reason)
        elif weight == "rejecting":
            reason = "the symbol is neither on the list for kernel launchers nor in the baseline"
            yield Finding("imported-symbol", symbol, weight, reason)


def _weight(symbol: str) -> Weight | None:
    if symbol in (_IOSTREAM_INITIALISER, _IOSTREAM_FINALISER):
        return None
    if symbol in _CUDA_RUNTIME or symbol in _C_LIBRARY or symbol in _MATHS:
        return None
    if symbol in _PRINTING or symbol == _STUB_EXIT:
        return "suspicious"
    if _CXX_RUNTIME.fullmatch(symbol) and not _CXX_OTHER.search(symbol):
        return "suspicious" if _CXX_PRINTING.search(symbol) else None
    return "rejecting"


def _libraries(candidate: LibrarySymbols, baseline: LibrarySymbols | None) -> Iterator[Finding]:
    known = set(baseline.needed) if baseline else set()
    for name in candidate.needed:
        if name not in known and _LIBRARIES.fullmatch(name) is None:
            reason = "the library is neither the CUDA runtime, nor C or C++'s, nor the baseline's"
            yield Finding("needed-library", name, "rejecting", reason)


def _load_time_code(
    candidate: LibrarySymbols, baseline: LibrarySymbols | None
) -> Iterator[Finding]:
    """Finds constructors, destructors and resolvers that nvcc and iostream do not account for."""
    known = (
        {*baseline.initialisers, *baseline.finalisers, *baseline.resolvers} if baseline else set()
    )
    expected = {*_OWN_INITIALISERS, *_OWN_FINALISERS, *known}
    functions = (*candidate.initialisers, *candidate.finalisers, *candidate.resolvers)
    iostream = _IOSTREAM_INITIALISER in candidate.imported
    for symbol in functions:
        if symbol in expected:
            continue
        if not symbol.startswith(_STATIC_OBJECTS):
            reason = "code of its own runs when the library is loaded or unloaded"
            yield Finding("load-time-code", symbol, "rejecting", reason)
        elif not iostream:
            reason = "objects with constructors are built when the library is loaded"
            yield Finding("load-time-code", symbol, "suspicious", reason)
    for symbol in _ONCE:
        if functions.count(symbol) > 1:
            reason = "a second function carries the name of the C runtime's own"
            yield Finding("load-time-code", symbol, "rejecting", reason)
