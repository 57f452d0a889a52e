"""The executor and the stand-in CUDA runtime: built with g++ on first use, kept in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from astra_kernels.simulator.errors import SimulatorSetupError

# Results must not depend on how the host contracts or reorders floating-point operations.
_FLAGS = (
    "-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-pthread",
)  # fmt: skip
_NATIVE = "-march=native"
# Candidates name the CUDA runtime by this: the library that answers to it serves them.
_SONAME = "libcudart.so.13"
_WORK = "building-"


def _sources() -> list[Path]:
    here = Path(__file__).parent
    return sorted([*here.glob("executor/*.cpp"), *here.glob("runtime/*.cpp")])


def _cpu_features() -> str:
    """What decides which instructions `-march=native` may use."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    return next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")


def _cache_key() -> str:
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*here.glob("executor/*"), *here.glob("runtime/*")]):
        if path.suffix in (".cpp", ".h", ".inc", ".map"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(" ".join((*_FLAGS, _NATIVE, _cpu_features())).encode())
    return digest.hexdigest()[:20]


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "astra-kernels" / "simulator"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SimulatorSetupError(f"{' '.join(command)}\n{done.stderr[-4000:]}")


def _build(compiler: str, work: Path) -> Path:
    """Compile all sources in `work` and link them there.

    Raises:
        SimulatorSetupError: The compiler refused.
    """
    sources = _sources()
    objects = [work / f"{source.parent.name}_{source.stem}.o" for source in sources]
    probe = [compiler, _NATIVE, "-x", "c++", "-fsyntax-only", os.devnull]
    native = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    flags = [*_FLAGS, *([_NATIVE] if native else [])]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(
            pool.map(
                lambda pair: _run([compiler, *flags, "-c", str(pair[0]), "-o", str(pair[1])]),
                zip(sources, objects, strict=True),
            )
        )
    exports = Path(__file__).parent / "runtime" / "exports.map"
    library = work / _SONAME
    _run(
        [
            compiler, "-shared", "-pthread", "-o", str(library), *map(str, objects),
            f"-Wl,-soname,{_SONAME}", f"-Wl,--version-script={exports}", "-Wl,-z,defs",
        ]
    )  # fmt: skip
    return library


def _remove_abandoned(cache: Path) -> None:
    """What builds left behind that were killed; whoever calls this holds the lock, so no other build is going on."""
    for pattern in (f"{_WORK}*", "tmp*"):  # the second as earlier versions named them
        for left in cache.glob(pattern):
            shutil.rmtree(left, ignore_errors=True)


def native_library() -> Path:
    """The path of the built library; builds it when these sources were not built before.

    Of several processes at once one builds, for most of a minute, and the others wait for it.

    Raises:
        SimulatorSetupError: There is no g++, it fails, or the cache directory cannot be written.
    """
    folder = _cache_folder() / _cache_key()
    library = folder / _SONAME
    if library.exists():
        return library
    compiler = shutil.which("g++")
    if compiler is None:
        raise SimulatorSetupError(
            "the simulated device needs g++ to build its executor once; install it "
            "(Debian and Ubuntu: apt-get install g++)"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not library.exists():
                _remove_abandoned(folder.parent)
                with tempfile.TemporaryDirectory(dir=folder.parent, prefix=_WORK) as work:
                    built = _build(compiler, Path(work))
                    folder.mkdir(exist_ok=True)
                    built.replace(library)
    except OSError as error:
        raise SimulatorSetupError(
            f"the simulator's executor cannot be kept in {folder.parent}: {error.strerror or error}; "
            "set XDG_CACHE_HOME to a directory that can be written and has 50 MB to spare"
        ) from error
    return library
