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
                expected = case.reference(arguments)
                outputs = self._call(function, arguments, shift)
                wrong = outputs if isinstance(outputs, str) else difference(case, outputs, expected)
                if wrong:
                    return f"size {size}, shifted by {shift}: {wrong}"
        return ""

    def outputs(
        self, case: Case, sources: Mapping[str, str], size: tuple[int, ...]
    ) -> list[Argument]:
        """Returns the arguments after a call."""
        library = self.build(case, sources)
        assert isinstance(library, Path), library
        function = self.simulator.load(library).function(case.entry)
        outputs = self._call(function, case.make(np.random.default_rng(7), size), 0)
        assert not isinstance(outputs, str), outputs
        return outputs

    def _call(self, function, arguments: list[Argument], shift: int) -> list[Argument] | str:
        """Calls with every array `shift` elements behind an aligned address.

        Returns the arguments afterwards, or what went wrong.
        """
        sim, passed, places = self.simulator, [], []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                offset = shift * argument.itemsize
                base = sim.allocate(argument.nbytes + offset)
                sim.write(base + offset, argument)
                passed.append(ctypes.c_void_p(base + offset))
                places.append((argument, base, offset))
            else:
                kind = ctypes.c_float if isinstance(argument, float) else ctypes.c_int64
                passed.append(kind(argument))
        code = function(*passed, ctypes.c_void_p(0))
        faults = [launch.fault for launch in sim.take_launches() if launch.fault is not None]
        after = {}
        for argument, base, offset in places:
            after[id(argument)] = np.empty_like(argument)
            sim.read(base + offset, after[id(argument)])
            sim.free(base)
        if faults or code:
            return f"{faults or code}"
        return [after.get(id(argument), argument) for argument in arguments]
