"""Building the corpus, and calling a point of it: the same libraries on the GPU and on the simulator."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.errors import AstraError
from astra_kernels.languages.cuda.build import build
from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.request import BuildRequest
from astra_kernels.languages.cuda.toolchain import Toolchain
from tests.simulator.validation.point import Array, Point

CU = Path(__file__).parent / "cu"
_DEADLINE_S = 150.0
_UNUSED_HEADERS = ("cublasLt.h", "cublas_v2.h", "curand_kernel.h")
"""norm.cuh includes them and uses nothing of them."""


@dataclass(frozen=True)
class Programs:
    """What was built, and why the rest was not, by the stem of the source."""

    built: dict[str, Built]
    missing: dict[str, str]

    def registers(self, source: str) -> dict[str, int]:
        """Registers of a thread by the kernels' mangled names."""
        return {kernel.name: kernel.registers for kernel in self.built[source].kernels}


def build_all(names: Iterable[str], toolchain: Toolchain, cache: Path, processes: int) -> Programs:
    """Builds sources side by side; FlashInfer's only where its headers are installed."""
    built: dict[str, Built] = {}
    missing: dict[str, str] = {}

    def one(name: str) -> None:
        try:
            result = build(_request(name), toolchain, cache, _DEADLINE_S)
        except (AstraError, FileNotFoundError) as error:
            missing[name] = str(error)
            return
        if isinstance(result, Built):
            built[name] = result
        else:
            missing[name] = result.log[-2000:]

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(one, names))
    return Programs(built, missing)


def _request(name: str) -> BuildRequest:
    sources = {f"{name}.cu": (CU / f"{name}.cu").read_text(encoding="utf-8")}
    includes: tuple[Path, ...] = ()
    if name == "flashinfer":
        package = importlib.util.find_spec("flashinfer")
        if package is None or package.origin is None:
            raise FileNotFoundError("FlashInfer's headers are not installed")
        includes = (Path(package.origin).parent / "data" / "include",)
        sources |= dict.fromkeys(_UNUSED_HEADERS, "")
    else:
        sources["common.cuh"] = (CU / "common.cuh").read_text(encoding="utf-8")
    return BuildRequest(sources=sources, include_dirs=includes)


def c_arguments(point: Point, addresses: Sequence[int], stream: int) -> list[object]:
    """A call's arguments as ctypes; `addresses` are those of its arrays."""
    remaining = iter(addresses)
    values: list[object] = []
    for argument in point.arguments:
        if isinstance(argument, Array):
            values.append(ctypes.c_void_p(next(remaining)))
        else:
            kind = ctypes.c_float if isinstance(argument, float) else ctypes.c_int
            values.append(kind(argument))
    last = (ctypes.c_int(point.block), ctypes.c_int(point.way_index), ctypes.c_void_p(stream))
    return [*values, *last]
