"""What a sandboxed command may see and use, as plain data."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SYSTEM_READABLE = tuple(
    Path(path)
    for path in (
        "/usr",
        "/bin",
        "/lib",
        "/lib32",
        "/lib64",
        "/etc/alternatives",
        "/etc/ld.so.cache",
        "/etc/localtime",
    )
)
"""Programs and libraries of the system; what a compiler or a linked program needs, and no secret."""

SYSTEM_DEVICES = tuple(Path("/dev", name) for name in ("null", "zero", "random", "urandom"))

_GPU_READABLE = tuple(
    Path(path)
    for path in (
        "/proc",
        "/sys",
        "/etc/nvidia",
        "/etc/OpenCL",
        "/opt/nvidia",
        "/run/nvidia-persistenced",
        "/run/nvidia-fabricmanager",
        "/var/run/nvidia-persistenced",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/passwd",
        "/etc/nsswitch.conf",
    )
)

_GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPolicy:
    """The limits of one sandboxed command.

    Attributes:
        scratch: a writable directory; it is the working directory, HOME and TMPDIR.
        deadline_s: wall-clock seconds after which everything is killed.
        readable: what may be read and executed besides the system's own directories.
        writable: what may be written besides `scratch`.
        devices: device files that may be opened for reading and writing.
        environment: added to the scrubbed default (PATH, HOME, TMPDIR, LANG); nothing is inherited.
        network: True keeps the network; otherwise no socket reaches out of the sandbox.
        unix_sockets: True allows sockets of the UNIX family, which the CUDA driver opens.
        file_bytes: the largest file that may be written.
        cpu_s: processor seconds of one process; four times the deadline by default.
        processes: processes and threads at one time, beyond those that the user already runs.
        pass_fds: file descriptors the command inherits besides the three standard ones.
    """

    scratch: Path
    deadline_s: float
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = SYSTEM_DEVICES
    environment: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    unix_sockets: bool = False
    file_bytes: int = _GIB
    cpu_s: int | None = None
    processes: int = 512
    pass_fds: tuple[int, ...] = ()

    def full_environment(self) -> dict[str, str]:
        """The exact environment of the command."""
        scrubbed = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.scratch),
            "TMPDIR": str(self.scratch),
            "LANG": "C.UTF-8",
        }
        return {**scrubbed, **self.environment}


def gpu_policy(
    scratch: Path,
    deadline_s: float,
    *,
    readable: tuple[Path, ...] = (),
    environment: Mapping[str, str] | None = None,
    pass_fds: tuple[int, ...] = (),
) -> SandboxPolicy:
    """The policy of a Python child that drives a real GPU.

    Reading is permissive (`/proc`, `/sys`, the driver's directories, this Python); writing is not.
    The driver's kernel cache goes to `scratch`.

    Args:
        scratch: the child's own directory.
        deadline_s: wall-clock seconds.
        readable: the job directory, libraries to load.
        environment: variables to add.
        pass_fds: result pipe and sealed memory.
    """
    nvidia = tuple(sorted(Path("/dev").glob("nvidia*")))
    nested = tuple(path for caps in nvidia if caps.is_dir() for path in sorted(caps.iterdir()))
    return SandboxPolicy(
        scratch=scratch,
        deadline_s=deadline_s,
        readable=(*_GPU_READABLE, *python_readable(), *readable),
        devices=(*SYSTEM_DEVICES, *(path for path in (*nvidia, *nested) if not path.is_dir())),
        environment={"CUDA_CACHE_PATH": str(scratch / "nv-cache"), **(environment or {})},
        unix_sockets=True,
        file_bytes=64 * _GIB,
        processes=4096,
        pass_fds=pass_fds,
    )


def python_readable() -> tuple[Path, ...]:
    """What a child that runs this interpreter with these packages must read.

    The directory that the user stands in is on `sys.path` when Python starts without `-P`; it is no part
    of that, unless this package itself lies there.
    """
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    here, own = Path.cwd(), Path(__file__).resolve().parents[3]
    searched = [Path(path) for path in sys.path if path and Path(path).is_absolute()]
    packages = [path for path in searched if path.resolve() != here or here == own]
    paths = [*(Path(path) for path in prefixes), *packages]
    return tuple(dict.fromkeys(path.resolve() for path in paths if path.exists()))
