"""Whether a candidate keeps to what a kernel launcher needs: its symbols, its binary, its sources.

Each rule is relative to the baseline: what the baseline does, a candidate may do. A rule that can tell
an honest candidate from a cheat rejects; one that cannot only shows what it found.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from astra_kernels.languages.bindings.own_calls import is_own_call, is_own_library
from astra_kernels.languages.cuda.device_memory import device_memory_findings, kept_variables
from astra_kernels.languages.cuda.elf import LibrarySymbols
from astra_kernels.languages.cuda.findings import Finding, Weight
from astra_kernels.languages.cuda.load_time import load_time_findings, read_load_time
from astra_kernels.languages.cuda.source_rules import source_findings


def _names(text: str, suffixes: tuple[str, ...] = ("",)) -> frozenset[str]:
    return frozenset(name + suffix for name in text.split() for suffix in suffixes)


_CUDA_RUNTIME = _names(
    """
    cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel __cudaLaunchKernel
    cudaMemsetAsync cudaMemcpyAsync cudaMallocAsync cudaFreeAsync
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
    __libc_single_threaded malloc calloc realloc free aligned_alloc posix_memalign abort snprintf vsnprintf
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

_OWN_FINALISERS = ("__do_global_dtors_aux",)
_ONCE = ("frame_dummy", "__do_global_dtors_aux")
_IOSTREAM_INITIALISER = "_ZNSt8ios_base4InitC1Ev"  # what including <iostream> alone imports

_IOSTREAM_FINALISER = "_ZNSt8ios_base4InitD1Ev"


@dataclass(frozen=True, slots=True)
class Submission:
    """A program as the rules see it.

    Attributes:
        sources: text by path.
        library: the bytes of what was built from them; None for a baseline that was not built.
        symbols: its dynamic symbols; None likewise.
        framework: whether it is an operator of a framework, not a C function.
    """

    sources: Mapping[str, str]
    library: bytes | None = None
    symbols: LibrarySymbols | None = None
    framework: bool = False

    @property
    def cuda_files(self) -> int:
        """How many files nvcc compiles as CUDA."""
        return sum(path.endswith(".cu") for path in self.sources)


def examine(candidate: Submission, baseline: Submission | None) -> tuple[Finding, ...]:
    """Lists what a candidate asks for beyond a launcher's needs and what its baseline does.

    Args:
        candidate: sources and library of the candidate.
        baseline: those of the baseline; None when the baseline itself is examined.

    Raises:
        ElfError: a library is damaged.
    """
    findings = [*source_findings(candidate.sources, baseline.sources if baseline else {})]
    if candidate.symbols is not None:
        theirs = baseline.symbols if baseline else None
        findings += examine_symbols(candidate.symbols, theirs, framework=candidate.framework)
    if candidate.library is not None:
        other = baseline.library if baseline else None
        runs = None if other is None else read_load_time(other)
        load_time = read_load_time(candidate.library)
        findings += load_time_findings(load_time, candidate.cuda_files, runs)
        kept = kept_variables(candidate.library)
        findings += device_memory_findings(kept, kept_variables(other) if other else ())
    return tuple(findings)


def examine_symbols(
    candidate: LibrarySymbols, baseline: LibrarySymbols | None, *, framework: bool = False
) -> tuple[Finding, ...]:
    """Lists what a library imports, loads and resolves beyond a launcher's needs.

    Args:
        candidate: symbols of the candidate's library.
        baseline: symbols of the baseline's library, whose imports are always allowed; None when the
            baseline itself is examined.
        framework: whether Astra links a framework's libraries, whose calls belong to the binding.
    """
    return (
        *_imports(candidate, baseline, framework),
        *_libraries(candidate, baseline, framework),
        *_unloading(candidate, baseline),
    )


# nvcc's host stub of a `__device__` function with external linkage calls it, so honest code imports
# it; a launcher that really exits ends its own process, and that is a crash.
_STUB_EXIT = "exit"
_CAPTURE = _names("cudaStreamIsCapturing", suffixes=("", "_ptsz"))


def _imports(
    candidate: LibrarySymbols, baseline: LibrarySymbols | None, framework: bool
) -> Iterator[Finding]:
    known = {*baseline.imported, *baseline.imported_weak} if baseline else set()
    for symbol in (*candidate.imported, *candidate.imported_weak):
        if symbol in known or (framework and is_own_call(symbol)):
            continue
        weight = _weight(symbol)
        if symbol in _CAPTURE:
            reason = "the launcher may behave differently while it is captured"
            yield Finding("imported-symbol", symbol, "suspicious", reason)
        elif symbol == _STUB_EXIT:
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


def _libraries(
    candidate: LibrarySymbols, baseline: LibrarySymbols | None, framework: bool
) -> Iterator[Finding]:
    known = set(baseline.needed) if baseline else set()
    for name in candidate.needed:
        ours = _LIBRARIES.fullmatch(name) is not None or (framework and is_own_library(name))
        if name not in known and not ours:
            reason = "the library is neither the CUDA runtime, nor C or C++'s, nor the baseline's"
            yield Finding("needed-library", name, "rejecting", reason)


def _unloading(candidate: LibrarySymbols, baseline: LibrarySymbols | None) -> Iterator[Finding]:
    """Finds destructors and resolvers that the C runtime does not account for."""
    known = {*baseline.finalisers, *baseline.resolvers} if baseline else set()
    for symbol in (*candidate.finalisers, *candidate.resolvers):
        if symbol not in known and symbol not in _OWN_FINALISERS:
            reason = "code of its own runs when the library is loaded or unloaded"
            yield Finding("load-time-code", symbol, "rejecting", reason)
    functions = (*candidate.initialisers, *candidate.finalisers)
    for symbol in _ONCE:
        if functions.count(symbol) > 1:
            reason = "a second function carries the name of the C runtime's own"
            yield Finding("load-time-code", symbol, "rejecting", reason)
