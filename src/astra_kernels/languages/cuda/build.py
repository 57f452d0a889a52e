"""Compiling a kernel: one nvcc call, in a sandbox, makes one library.

The library holds host code, PTX and machine code, and links the shared CUDA runtime, so that the
same file runs on a real device and, with a stand-in runtime, on a simulated one.
"""

import hashlib
import shutil
import time
from pathlib import Path

from astra_kernels.errors import MachineFault
from astra_kernels.languages.cuda.cache import BuildCache, cache_key, machine_faults
from astra_kernels.languages.cuda.diagnostics import Diagnostic, Tool, parse_log, tidy_log
from astra_kernels.languages.cuda.elf import ElfError, read_symbols
from astra_kernels.languages.cuda.outcome import BuildFailure, Built
from astra_kernels.languages.cuda.request import BuildRequest, flag_words, refusals
from astra_kernels.languages.cuda.resources import read_resources
from astra_kernels.languages.cuda.toolchain import Toolchain
from astra_kernels.languages.sandbox.policy import SandboxPolicy
from astra_kernels.languages.sandbox.run import Completed, run_sandboxed

DEFAULT_DEADLINE_S = 120.0

_OUTPUT_FILE_BYTES = 512 * 1024**2
_LIBRARY = "library.so"
_MOST_THREADS = 8
_DISK_FULL_BYTES = 32 * 1024**2
# Relocations are kept for `load_time`. Unique symbols would be shared by two libraries of one process.
_HOST_SETS = (
    *("-shared", "-cudart", "none", "-Xcompiler", "-fPIC", "-Xcompiler", "-fno-gnu-unique"),
    *("-Xlinker", "--no-undefined", "-Xlinker", "--emit-relocs"),
)
_DEVICE_SETS = ("-lineinfo", "--no-compress", "--resource-usage")


def build(
    request: BuildRequest,
    toolchain: Toolchain,
    cache_dir: Path,
    deadline_s: float = DEFAULT_DEADLINE_S,
) -> Built | BuildFailure:
    """Builds a kernel, or says why it cannot be built.

    Args:
        request: sources and flags, both untrusted.
        toolchain: what `find_toolchain` found.
        cache_dir: where finished builds are kept; an equal request is answered from there.
        deadline_s: wall-clock seconds for the compiler.

    Raises:
        MachineFault: `cache_dir` cannot be written, the disk is full, or no process can be started.
    """
    refused = tuple(_error(reason, "request", file) for file, reason in refusals(request))
    if refused:
        return BuildFailure(refused, _as_log(refused), timed_out=False, wall_s=0.0)
    cache = BuildCache(cache_dir)
    key = cache_key(request, toolchain)
    built: Built | BuildFailure | None = cache.read(key)
    if built is None:
        with cache.scratch() as scratch:
            built = _compile(request, toolchain, scratch, deadline_s)
            if isinstance(built, Built):
                built = cache.write(key, built)
    return _with_entries(built, request) if isinstance(built, Built) else built


def _compile(
    request: BuildRequest, toolchain: Toolchain, scratch: Path, deadline_s: float
) -> Built | BuildFailure:
    """Runs nvcc in `scratch` and reads what it left there."""
    started = time.monotonic()
    tree = scratch / "sources"
    with machine_faults(f"sources cannot be written to {scratch}"):
        for name, text in request.sources.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
    done = run_sandboxed(
        ["/bin/sh", "-c", 'cd sources && exec "$@"', "sh", *_command(request, toolchain)],
        policy=_policy(request, toolchain, scratch, deadline_s),
    )
    wall_s = time.monotonic() - started
    log = tidy_log(done.stderr + done.stdout, {f"{tree}/": "", f"{scratch}/": ""})
    if done.returncode != 0 and shutil.disk_usage(scratch).free < _DISK_FULL_BYTES:
        raise MachineFault(f"the disk of {scratch.parent} is full")  # nvcc may fail without a word
    diagnostics = parse_log(log)
    library = scratch / _LIBRARY
    if done.timed_out:
        late = _error(f"the build took longer than {deadline_s:g} s", "nvcc")
        return BuildFailure((*diagnostics, late), log, timed_out=True, wall_s=wall_s)
    if done.returncode != 0 or not library.is_file():
        diagnostics = diagnostics or (_unexplained(done),)
        return BuildFailure(diagnostics, log, timed_out=False, wall_s=wall_s)
    data = library.read_bytes()
    try:
        symbols, kernels = read_symbols(data), read_resources(log, data)
    except ElfError as error:
        damaged = _error(str(error), "linker")
        return BuildFailure((*diagnostics, damaged), log, timed_out=False, wall_s=wall_s)
    return Built(
        library=library,
        digest=hashlib.sha256(data).hexdigest(),
        kernels=kernels,
        warnings=tuple(one for one in diagnostics if one.severity == "warning"),
        symbols=symbols,
        wall_s=wall_s,
        cached=False,
        sandbox=done.sandbox,
        source_root=str(tree),
    )


def _command(request: BuildRequest, toolchain: Toolchain) -> list[str]:
    code = f"arch={request.compute},code=[{request.compute},{request.arch}]"
    threads = min(max(2, len(request.translation_units)), _MOST_THREADS)  # 2: host beside device
    includes = [word for path in request.include_dirs for word in ("-isystem", str(path))]
    given = flag_words(request.flags)
    defaults = [flag for flag in ("-std=c++17", "-O3") if not _overridden(flag, given)]
    return [
        str(toolchain.nvcc),
        *(*defaults, *given),
        *request.trusted_flags,
        *_HOST_SETS,
        *_DEVICE_SETS,
        *("-gencode", code),
        *("--threads", str(threads)),
        *("-I.", *includes),
        *request.translation_units,
        *(f"-L{path}" for path in toolchain.library_dirs),
        *(f"-l:{toolchain.cudart}", *_linked(request), "-o", f"../{_LIBRARY}"),
    ]


def _linked(request: BuildRequest) -> list[str]:
    directories = dict.fromkeys(f"-L{path.parent}" for path in request.libraries)
    return [*directories, *(f"-l:{path.name}" for path in request.libraries), *request.link_flags]


def _overridden(default: str, given: list[str]) -> bool:
    """Whether a flag is given another value: nvcc warns about two of them."""
    name = default.lstrip("-")[: 3 if default.startswith("-std") else 1]
    return any(word.startswith((f"-{name}", f"--{name}")) for word in given)


def _policy(
    request: BuildRequest, toolchain: Toolchain, scratch: Path, deadline_s: float
) -> SandboxPolicy:
    return SandboxPolicy(
        scratch=scratch,
        deadline_s=deadline_s,
        readable=(
            toolchain.root,
            *request.include_dirs,
            *request.libraries,
            *request.readable,
            *toolchain.host.directories(),
        ),
        environment={"PATH": f"{toolchain.host.path.parent}:/usr/bin:/bin", "LC_ALL": "C"},
        file_bytes=_OUTPUT_FILE_BYTES,
    )


def _unexplained(done: Completed) -> Diagnostic:
    code = done.returncode or 0
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code} and no message"
    return _error(f"nvcc ended with {how}", "nvcc")


def _with_entries(built: Built, request: BuildRequest) -> Built | BuildFailure:
    """Refuses a library that does not export what it will be called by."""
    missing = tuple(
        _error(f"the entry point {name} is not exported; {request.entry_advice}", "linker")
        for name in request.entry_symbols
        if name not in built.symbols.exported
    )
    if not missing:
        return built
    return BuildFailure(missing, _as_log(missing), timed_out=False, wall_s=built.wall_s)


def _error(message: str, tool: Tool, file: str = "") -> Diagnostic:
    return Diagnostic("error", file, 0, None, message, tool)


def _as_log(diagnostics: tuple[Diagnostic, ...]) -> str:
    return "".join(f"{one.file or 'request'}: error: {one.message}\n" for one in diagnostics)
