"""Finding a CUDA compiler: a path, `CUDA_HOME`, `PATH`, or the wheels of the `toolchain` extra.

An nvcc on `PATH` may be a script or a link that points elsewhere, so the root of the toolkit is not
guessed from the path: nvcc prints it (`TOP=`) when asked for a dry run.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.errors import ToolchainNotFound

OLDEST_SUPPORTED = (12, 8)
_ASK_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """The C++ compiler that nvcc drives for host code."""

    path: Path
    version: str

    def directories(self) -> tuple[Path, ...]:
        """What must be readable to run it, besides the system's own directories."""
        directory = self.path.resolve().parent
        prefix = directory.parent
        return (prefix,) if (prefix / "lib" / "gcc").is_dir() else (directory,)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One usable CUDA toolkit and the host compiler that goes with it.

    Attributes:
        nvcc: the compiler driver.
        version: nvcc's own version, such as "13.0.88".
        root: the toolkit's directory; a build must be able to read all of it.
        library_dirs: where libcudart lies (`lib64`, `lib` or `targets/*/lib`).
        include_dirs: where cuda_runtime.h lies; nvcc adds them by itself.
        cudart: file name of the shared CUDA runtime to link, such as "libcudart.so.13".
        host: the host compiler.
        nvdisasm: disassembles a cubin; None where it is not installed.
        origin: how it was found: "given", "CUDA_HOME", "CUDA_PATH", "PATH" or "wheels".
    """

    nvcc: Path
    version: str
    root: Path
    library_dirs: tuple[Path, ...]
    include_dirs: tuple[Path, ...]
    cudart: str
    host: HostCompiler
    nvdisasm: Path | None
    origin: str


def find_toolchain(
    environment: Mapping[str, str],
    *,
    nvcc: Path | None = None,
    site_packages: Sequence[Path] | None = None,
) -> Toolchain:
    """Finds the CUDA compiler to use.

    Args:
        environment: where `CUDA_HOME`, `CUDA_PATH` and `PATH` are looked up.
        nvcc: an explicit compiler, or a toolkit directory that holds one; nothing else is tried.
        site_packages: directories that may hold the `nvidia` wheels; the interpreter's by default.

    Raises:
        ToolchainNotFound: no nvcc, one that does not run, one older than 12.8, or no g++.
    """
    places = (
        [Path(entry) for entry in sys.path if entry] if site_packages is None else site_packages
    )
    host = find_host_compiler(environment)
    refusals: list[str] = []
    for origin, candidate in _candidates(environment, nvcc, places):
        try:
            return _inspect(candidate, origin, host, environment, places)
        except ToolchainNotFound as refusal:
            refusals.append(str(refusal))
    tried = "".join(f"\n  - {refusal}" for refusal in refusals)
    raise ToolchainNotFound(
        "no usable CUDA compiler: install one with `pip install 'astra-kernels[toolchain]'`, "
        "or put nvcc of CUDA 12.8 or newer on PATH, or set CUDA_HOME"
        + (tried and f"; tried:{tried}")
    )


def find_host_compiler(environment: Mapping[str, str]) -> HostCompiler:
    """Finds g++, which nvcc needs for host code and for linking.

    Raises:
        ToolchainNotFound: there is none on PATH, or it does not run.
    """
    found = shutil.which("g++", path=environment.get("PATH", ""))
    if found is None:
        raise ToolchainNotFound(
            "no C++ compiler on PATH: nvcc needs g++; install it (Debian: `apt install g++`)"
        )
    version = _ask([found, "-dumpfullversion"], environment).strip()
    return HostCompiler(Path(found), version)


def _candidates(
    environment: Mapping[str, str], given: Path | None, places: Sequence[Path]
) -> Iterator[tuple[str, Path]]:
    if given is not None:
        yield "given", given / "bin" / "nvcc" if given.is_dir() else given
        return
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if environment.get(variable):
            yield variable, Path(environment[variable], "bin", "nvcc")
    on_path = shutil.which("nvcc", path=environment.get("PATH", ""))
    if on_path is not None:
        yield "PATH", Path(on_path)
    for place in places:
        for wheel in sorted(place.glob("nvidia/*/bin/nvcc"), reverse=True):
            yield "wheels", wheel


def _inspect(
    nvcc: Path,
    origin: str,
    host: HostCompiler,
    environment: Mapping[str, str],
    places: Sequence[Path],
) -> Toolchain:
    if not nvcc.is_file():
        raise ToolchainNotFound(f"{origin}: {nvcc} does not exist")
    release = re.search(r"\bV(\d+)\.(\d+)\.(\d+)", _ask([str(nvcc), "--version"], environment))
    if release is None:
        raise ToolchainNotFound(f"{origin}: {nvcc} does not say its version")
    version = ".".join(release.groups())
    if (int(release[1]), int(release[2])) < OLDEST_SUPPORTED:
        raise ToolchainNotFound(f"{origin}: {nvcc} is CUDA {version}; 12.8 or newer is needed")
    said = _ask([str(nvcc), "--dryrun", "-E", "-x", "cu", "/dev/null"], environment)
    root = _variable(said, "TOP")
    target = root / str(_variable(said, "_TARGET_DIR_"))
    library_dirs = _existing(target / "lib", root / "lib64", root / "lib")
    return Toolchain(
        nvcc=root / "bin" / "nvcc" if (root / "bin" / "nvcc").is_file() else nvcc,
        version=version,
        root=root,
        library_dirs=library_dirs,
        include_dirs=_existing(target / "include", root / "include"),
        cudart=_cudart(library_dirs, origin, nvcc),
        host=host,
        nvdisasm=_tool("nvdisasm", root, environment, places),
        origin=origin,
    )


def _ask(command: list[str], environment: Mapping[str, str]) -> str:
    """Runs a version or dry-run query and returns everything it printed."""
    try:
        done = subprocess.run(
            command,
            env={"PATH": environment.get("PATH", ""), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainNotFound(f"{command[0]} does not run: {error}") from error
    if done.returncode != 0:
        raise ToolchainNotFound(f"{command[0]} fails: {(done.stderr or done.stdout).strip()[:300]}")
    return done.stdout + done.stderr


def _variable(dry_run: str, name: str) -> Path:
    """Reads the last `#$ NAME=value` of a dry run; an absent one is the empty relative path."""
    values = re.findall(rf"^#\$ {name}=(.*)$", dry_run, flags=re.MULTILINE)
    path = Path(values[-1].strip() if values else "")
    return path.resolve() if path.is_absolute() else path


def _existing(*directories: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path.resolve() for path in directories if path.is_dir()))


def _cudart(library_dirs: Sequence[Path], origin: str, nvcc: Path) -> str:
    """Names the shared runtime; the wheels have no `libcudart.so` link, only `libcudart.so.13`."""
    for directory in library_dirs:
        names = sorted(path.name for path in directory.glob("libcudart.so*"))
        if names:
            return names[0]
    raise ToolchainNotFound(
        f"{origin}: no libcudart.so beside {nvcc}; install the CUDA runtime of the same version"
    )


def _tool(
    name: str, root: Path, environment: Mapping[str, str], places: Sequence[Path]
) -> Path | None:
    beside = root / "bin" / name
    if beside.is_file():
        return beside
    on_path = shutil.which(name, path=environment.get("PATH", ""))
    if on_path is not None:
        return Path(on_path)
    wheels = (wheel for place in places for wheel in sorted(place.glob(f"nvidia/*/bin/{name}")))
    return next(wheels, None)
