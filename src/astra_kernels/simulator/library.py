"""Loading a candidate's shared library onto the simulated device."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from astra_kernels.simulator.elf import ElfFile
from astra_kernels.simulator.errors import CompressedFatbin, MissingSymbol, SimulatorRefusal
from astra_kernels.simulator.executor_interface import Executor
from astra_kernels.simulator.fatbin import find_ptx, holds_ptx, images

# Libraries of the CUDA toolkit and driver that have no stand-in.
_FOREIGN_LIBRARIES = ("libcuda.so", "libcublas", "libcudnn", "libnvrtc", "libcurand", "libcufft")


# Where nvcc -rdc=true puts its PTX. The device linker makes machine code of it, and no PTX.
_RELOCATABLE = "__nv_relfatbin"
_LINKED_LATER = "__cudaRegisterLinkedBinary"  # functions that the device linker writes
_NOT_LINKED = (
    "the library was built with -rdc=true: its PTX waits for a device link, which makes machine code only; "
    "put the device code into one translation unit and build it without -rdc"
)


def _is_cuda_symbol(name: str) -> bool:
    rest = name.removeprefix("__")
    if rest.startswith("cuda"):
        return True
    return rest.startswith("cu") and len(rest) > 2 and rest[2].isupper()


def check_library(path: Path, executor: Executor, architecture: int) -> list[str]:
    """Refuse what could not run, before loading it.

    Returns:
        The PTX of each translation unit.

    Raises:
        MissingSymbol: It calls CUDA functions that are not provided.
        CompressedFatbin: Its PTX cannot be read.
        DamagedLibrary: The file is cut short or damaged.
    """
    library = ElfFile.read(path)
    library.check_whole()
    missing = [
        name
        for name in library.undefined_symbols()
        if _is_cuda_symbol(name) and not executor.provides(name)
    ]
    if any(name.startswith(_LINKED_LATER) for name in missing):
        raise CompressedFatbin(_NOT_LINKED)
    if missing:
        raise MissingSymbol("not provided by the simulated runtime: " + ", ".join(missing))
    foreign = [n for n in library.needed_libraries() if n.startswith(_FOREIGN_LIBRARIES)]
    if foreign:
        raise MissingSymbol("not provided by the simulated runtime: " + ", ".join(foreign))
    found = images(library.section(".nv_fatbin"))
    with_ptx = [image for image in found if holds_ptx(image)]
    if not with_ptx and library.section(_RELOCATABLE):
        raise CompressedFatbin(_NOT_LINKED)
    return [find_ptx(image, architecture) for image in with_ptx or found[:1]]


class Library:
    """A loaded candidate."""

    def __init__(self, path: Path) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise SimulatorRefusal(f"{path} cannot be loaded: {error}") from error

    def function(self, entry: str) -> Any:
        """A host launcher as a ctypes function that returns an int.

        Raises:
            MissingSymbol: The library does not export it.
        """
        try:
            function = self._library[entry]
        except AttributeError as error:
            raise MissingSymbol(f"the library does not export {entry}") from error
        function.restype = ctypes.c_int
        return function
