"""What a build gives: a library with its facts, or the reasons why there is none."""

from dataclasses import dataclass
from pathlib import Path

from astra_kernels.languages.cuda.diagnostics import Diagnostic
from astra_kernels.languages.cuda.elf import LibrarySymbols
from astra_kernels.languages.cuda.resources import KernelResources


@dataclass(frozen=True, slots=True)
class Built:
    """A shared library that holds host launchers, PTX and machine code.

    Attributes:
        library: the file; it stays where it is as long as the cache directory does.
        digest: SHA-256 of the file, in hexadecimal.
        kernels: what each kernel uses.
        warnings: what the tools said without refusing.
        symbols: what the library exports and imports.
        wall_s: seconds that the build took; the first time, if `cached`.
        cached: whether it was taken from the cache.
        sandbox: what held the compiler.
        source_root: where the sources lay when they were compiled; line information names files
            below it, which are gone.
    """

    library: Path
    digest: str
    kernels: tuple[KernelResources, ...]
    warnings: tuple[Diagnostic, ...]
    symbols: LibrarySymbols
    wall_s: float
    cached: bool
    sandbox: str
    source_root: str


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """A candidate that could not be built, or took too long to build.

    Attributes:
        diagnostics: what the tools said, errors and warnings in order.
        log: everything they printed, bounded, with paths relative to the source tree.
        timed_out: whether the deadline ended the build.
        wall_s: seconds until then.
    """

    diagnostics: tuple[Diagnostic, ...]
    log: str
    timed_out: bool
    wall_s: float
