"""What each kernel uses: what `ptxas -v` prints, and the constant banks of the machine code."""

import dataclasses
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from astra_kernels.languages.cuda.elf import embedded_cubins, read_sections

_FILTER_TIMEOUT_S = 10.0

_ENTRY = re.compile(
    r"ptxas info\s*: Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'"
)
_STACK = re.compile(
    r"\s*(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"ptxas info\s*: Used (?P<registers>\d+) registers(?P<rest>.*)")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_CONSTANT_SECTION = re.compile(r"\.nv\.constant\d+\.(?P<kernel>.+)")
_BARRIERS = re.compile(r"used (\d+) barriers")


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What one kernel uses on one architecture.

    Attributes:
        name: the mangled name.
        demangled: the name as C++ writes it, or `name` where it cannot be had.
        arch: the architecture it was compiled for, such as "sm_90".
        registers: 32-bit registers of a thread.
        barriers: named barriers of a block.
        spill_store_bytes: bytes stored to local memory for want of registers, of a thread.
        spill_load_bytes: likewise, loaded.
        stack_bytes: bytes of local memory of a thread, spills included.
        static_shared_bytes: bytes of shared memory declared in the kernel, of a block.
        constant_bytes: bytes of constant banks, parameters included.
    """

    name: str
    demangled: str
    arch: str
    registers: int
    barriers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    constant_bytes: int


def read_resources(log: str, library: bytes) -> tuple[KernelResources, ...]:
    """Reads what each kernel uses, in the order in which ptxas compiled them.

    Args:
        log: what `nvcc --resource-usage` printed.
        library: the library; newer versions of ptxas do not print constant banks.

    Raises:
        ElfError: the machine code in the library is damaged.
    """
    kernels = parse_log(log)
    names = _demangled([kernel.name for kernel in kernels])
    constants = _constant_bytes(library)
    return tuple(
        dataclasses.replace(
            kernel,
            demangled=names.get(kernel.name, kernel.name),
            constant_bytes=constants.get(kernel.name, 0),
        )
        for kernel in kernels
    )


def parse_log(log: str) -> tuple[KernelResources, ...]:
    """Reads the kernels of a build log, without what the log does not say."""
    kernels: list[KernelResources] = []
    name = arch = ""
    stack = stores = loads = 0
    for line in log.splitlines():
        if entry := _ENTRY.match(line):
            name, arch, stack, stores, loads = entry["name"], entry["arch"], 0, 0, 0
        elif frame := _STACK.match(line):
            stack, stores, loads = (int(frame[key]) for key in ("stack", "stores", "loads"))
        elif name and (used := _USED.match(line)):
            rest = used["rest"]
            kernels.append(
                KernelResources(
                    name=name,
                    demangled=name,
                    arch=arch,
                    registers=int(used["registers"]),
                    barriers=_sum(_BARRIERS, rest),
                    spill_store_bytes=stores,
                    spill_load_bytes=loads,
                    stack_bytes=stack,
                    static_shared_bytes=_sum(_SHARED, rest),
                    constant_bytes=0,
                )
            )
            name = ""
    return tuple(kernels)


def _demangled(names: Sequence[str]) -> dict[str, str]:
    """Demangles with c++filt of binutils; gives the names as they are where there is none."""
    if not names:
        return {}
    try:
        done = subprocess.run(
            ["/usr/bin/c++filt"],
            input="\n".join(names),
            capture_output=True,
            text=True,
            timeout=_FILTER_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return {name: name for name in names}
    return dict(zip(names, done.stdout.splitlines(), strict=False))


def _constant_bytes(library: bytes) -> dict[str, int]:
    totals: dict[str, int] = {}
    for cubin in embedded_cubins(library):
        for section in read_sections(cubin):
            if match := _CONSTANT_SECTION.fullmatch(section.name):
                kernel = match["kernel"]
                totals[kernel] = totals.get(kernel, 0) + section.size
    return totals


def _sum(pattern: re.Pattern[str], text: str) -> int:
    return sum(int(number) for number in pattern.findall(text))
