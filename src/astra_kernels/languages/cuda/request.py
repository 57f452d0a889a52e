"""What to build, and the rules that sources and flags given by a candidate must keep."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

TRANSLATION_UNITS = (".cu", ".cpp", ".cc", ".cxx")

_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+\-]*(/[A-Za-z0-9_][A-Za-z0-9_.+\-]*)*")
_ARCH = re.compile(r"sm_(\d{2,3}[af]?)")
_DEFINITION = r"[A-Za-z_]\w*(=[\w.+\-:]*)?"
_BOOLEAN = r"(true|false)"
_PTXAS_OPTION = (
    r"(-v|--verbose|-O[0-3]|--warn-on-spills|--warn-on-local-memory-usage|-d[ls]cm=c[agsv]"
    rf"|--def-(load|store)-cache=c[agsv]|-{{1,2}}(fmad|allow-expensive-optimizations)={_BOOLEAN})"
)
_HOST_OPTION = r"(-O[0-3]|-Wall|-Wextra|-Wno-[\w\-]+|-fno-strict-aliasing|-fPIC|-fvisibility=\w+)"
_ALLOWED = tuple(
    re.compile(pattern)
    for pattern in (
        r"-O[0-3]?",
        r"--?std[= ]c\+\+(14|17|20)",
        rf"(-D|-U|--define-macro=){_DEFINITION}",
        r"--?use_fast_math",
        rf"--?(ftz|prec-div|prec-sqrt|fmad)={_BOOLEAN}",
        r"--?maxrregcount[= ]?\d{1,3}",
        r"--?(extended-lambda|expt-extended-lambda|expt-relaxed-constexpr)",
        r"--?(extra-device-vectorization|restrict|Wno-deprecated-gpu-targets)",
        rf"(-rdc|--relocatable-device-code)={_BOOLEAN}",
        r"--?default-stream[= ](legacy|per-thread)",
        r"--?diag[-_]suppress[= ]?[\d,]+",
        r"-w|--disable-warnings|-lineinfo|--generate-line-info",
        rf"(-Xptxas|--ptxas-options)[= ]{_PTXAS_OPTION}(,{_PTXAS_OPTION})*",
        rf"(-Xcompiler|--compiler-options)[= ]{_HOST_OPTION}(,{_HOST_OPTION})*",
    )
)
_TAKES_VALUE = (
    frozenset(("-D", "-U", "-I", "-Xptxas", "-Xcompiler"))
    | {
        dashes + name
        for name in ("maxrregcount", "std", "default-stream", "diag-suppress")
        for dashes in ("-", "--")
    }
    | {"--ptxas-options", "--compiler-options"}
)
_PATH_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Sources of one kernel and how to compile them.

    Attributes:
        sources: text by path relative to the source tree; `.cu`, `.cpp`, `.cc` and `.cxx` files are
            translation units, others are headers that stay where they are.
        flags: flags of the candidate, checked against an allow-list.
        arch: the GPU, such as "sm_90" or "sm_90a".
        include_dirs: trusted absolute directories of a framework's headers; made readable.
        entry_symbols: names that the library must export.
        entry_advice: what to do about a name that it does not export.
        trusted_flags: flags of a framework, unchecked.
        link_flags: likewise, last on the command line.
        readable: directories that these flags name.
        libraries: trusted shared libraries of a framework, to link; made readable.
    """

    sources: Mapping[str, str]
    flags: tuple[str, ...] = ()
    arch: str = "sm_90"
    include_dirs: tuple[Path, ...] = ()
    entry_symbols: tuple[str, ...] = ()
    entry_advice: str = 'declare it extern "C"'
    trusted_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    readable: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()

    @property
    def translation_units(self) -> tuple[str, ...]:
        """The paths that are compiled, in a fixed order."""
        return tuple(sorted(path for path in self.sources if path.endswith(TRANSLATION_UNITS)))

    @property
    def compute(self) -> str:
        """The virtual architecture that goes with `arch`: "compute_90" for "sm_90"."""
        return self.arch.replace("sm_", "compute_")


def refusals(request: BuildRequest) -> Iterator[tuple[str, str]]:
    """Yields (file or "", reason) for everything in a request that is not allowed."""
    if _ARCH.fullmatch(request.arch) is None:
        yield "", f"architecture {request.arch!r} is not of the form sm_90 or sm_90a"
    if not request.translation_units:
        yield "", f"no source to compile: expected at least one of {', '.join(TRANSLATION_UNITS)}"
    for path, text in request.sources.items():
        if not _is_text(text):
            yield path, "the file is not text that can be written as UTF-8"
        if len(path) > _PATH_LIMIT:
            yield path, f"the path is longer than {_PATH_LIMIT} characters"
        elif _PATH.fullmatch(path) is None:
            yield path, "the path must be relative, without '..' and special characters"
        elif any(str(parent) in request.sources for parent in PurePosixPath(path).parents):
            yield path, "a directory of this path is itself a file"
    for directory in request.include_dirs:
        if not directory.is_absolute():
            yield "", f"include directory {directory} is not absolute"
    for flag in joined_flags(request.flags):
        if not _allowed(flag):
            yield "", f"the flag {flag!r} is not on the list of flags that a candidate may use"


def joined_flags(flags: tuple[str, ...]) -> list[str]:
    """Joins a flag and its separate value with a space: ("-Xptxas", "-v") is "-Xptxas -v"."""
    joined: list[str] = []
    waiting = False
    for flag in flags:
        if waiting:
            separator = "" if joined[-1] in ("-D", "-U", "-I") else " "
            joined[-1] = f"{joined[-1]}{separator}{flag}"
        else:
            joined.append(flag)
        waiting = not waiting and flag in _TAKES_VALUE
    return joined


def flag_words(flags: tuple[str, ...]) -> list[str]:
    """The words nvcc is given; the joined form keeps one value with one flag."""
    return [word for flag in joined_flags(flags) for word in _split(flag)]


def _is_text(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _split(flag: str) -> list[str]:
    name, space, value = flag.partition(" ")
    return [name, value] if space and name in _TAKES_VALUE else [flag]


def _allowed(flag: str) -> bool:
    if flag.startswith("-I"):
        directory = flag[2:].strip()
        return directory == "." or _PATH.fullmatch(directory) is not None
    return any(pattern.fullmatch(flag) for pattern in _ALLOWED)
