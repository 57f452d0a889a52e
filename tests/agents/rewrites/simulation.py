"""Runs a corpus kernel on the simulated device and compares it with NumPy."""

import ctypes
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from corpus import Argument, Case, difference, flashinfer_include

from astra_kernels.languages.cuda.build import build
from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.request import BuildRequest
from astra_kernels.languages.cuda.toolchain import Toolchain
from astra_kernels.simulator import Simulator

STAND_INS = ("cublasLt.h", "cublas_v2.h", "curand_kernel.h")
"""Headers that FlashInfer's norm.cuh includes and does not need."""


class Bench:
    """Builds and runs the kernels of the corpus."""

    def __init__(self, toolchain: Toolchain, cache: Path) -> None:
        self.toolchain = toolchain
        self.cache = cache
        self.simulator = Simulator()

    def build(self, case: Case, sources: Mapping[str, str]) -> Path | str:
        """Returns the library, or what the compiler said."""
        include_dirs: tuple[Path, ...] = ()
        if case.header:
            root = flashinfer_include()
            assert root is not None
            include_dirs = (root, root / "flashinfer")
            sources = {**dict.fromkeys(STAND_INS, ""), **sources}
        request = BuildRequest(sources=dict(sources), include_dirs=include_dirs)
        built = build(request, self.toolchain, self.cache)
        return built.library if isinstance(built, Built) else str(built)

    def check(self, case: Case, sources: Mapping[str, str], sizes: int | None = None) -> str:
        """Returns what is wrong with these sources on the first sizes, or an empty string."""
        library = self.build(case, sources)
        if isinstance(library, str):
            return library
        function = self.simulator.load(library).function(case.entry)
        for size in case.sizes[:sizes]:
            for shift in (0, 1) if not case.header and "half2" not in case.file else (0,):
                arguments = case.make(np.random.default_rng(7), size)
                wrong = self._call(case, function, arguments, shift)
                if wrong:
                    return f"size {size}, shifted by {shift}: {wrong}"
        return ""

    def _call(self, case: Case, function, arguments: list[Argument], shift: int) -> str:
        """Calls with every array `shift` elements behind an aligned address."""
        expected = case.reference(arguments)
        sim, bases, passed = self.simulator, [], []
        for argument in arguments:
            if not isinstance(argument, np.ndarray):
                kind = ctypes.c_float if isinstance(argument, float) else ctypes.c_int64
                passed.append(kind(argument))
                continue
            offset = shift * argument.itemsize
            bases.append(sim.allocate(argument.nbytes + offset))
            sim.write(bases[-1] + offset, argument)
            passed.append(ctypes.c_void_p(bases[-1] + offset))
        code = function(*passed, ctypes.c_void_p(0))
        launches = sim.take_launches()
        pointers = [p.value for p in passed if isinstance(p, ctypes.c_void_p)]
        outputs: list[Argument] = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                out = np.empty_like(argument)
                sim.read(pointers[len([o for o in outputs if isinstance(o, np.ndarray)])], out)
                argument = out
            outputs.append(argument)
        for base in bases:
            sim.free(base)
        faults = [launch.fault for launch in launches if launch.fault is not None]
        if faults or code:
            return f"{faults or code}"
        return difference(case, outputs, expected)
