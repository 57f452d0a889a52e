"""Building the corpus, and calling a point of it: the same libraries on the GPU and on the simulator."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from astra_kernels.devices.device import Device, Entry
from astra_kernels.errors import AstraError
from astra_kernels.jobs.wire import Argument
from astra_kernels.languages.cuda.build import build
from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.request import BuildRequest
from astra_kernels.languages.cuda.toolchain import Toolchain
from tests.simulator.validation.point import Array, Point

CU = Path(__file__).parent / "cu"
_DEADLINE_S = 150.0
_UNUSED_HEADERS = ("cublasLt.h", "cublas_v2.h", "curand_kernel.h")
"""norm.cuh includes them and uses nothing of them."""


class PointFailed(Exception):
    """A call of the corpus went wrong."""


@dataclass(frozen=True)
class Programs:
    """What was built, and why the rest was not, by the stem of the source."""

    built: dict[str, Built]
    missing: dict[str, str]

    def registers(self, source: str) -> dict[str, int]:
        """Registers of a thread by the kernels' mangled names."""
        return {kernel.name: kernel.registers for kernel in self.built[source].kernels}


def build_all(
    names: Iterable[str], toolchain: Toolchain, cache: Path, processes: int, flashinfer: Path | None
) -> Programs:
    """Builds sources side by side; FlashInfer's only where `flashinfer`, its headers, is given."""
    built: dict[str, Built] = {}
    missing: dict[str, str] = {}

    def one(name: str) -> None:
        try:
            result = build(_request(name, flashinfer), toolchain, cache, _DEADLINE_S)
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


def flashinfer_headers() -> Path | None:
    """Of the installed package; None where there is none."""
    package = importlib.util.find_spec("flashinfer")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "data" / "include"


def _request(name: str, flashinfer: Path | None) -> BuildRequest:
    sources = {f"{name}.cu": (CU / f"{name}.cu").read_text(encoding="utf-8")}
    includes: tuple[Path, ...] = ()
    if name == "flashinfer":
        if flashinfer is None or not flashinfer.is_dir():
            raise FileNotFoundError("FlashInfer's headers are not installed")
        includes = (flashinfer,)
        sources |= dict.fromkeys(_UNUSED_HEADERS, "")
    else:
        sources["common.cuh"] = (CU / "common.cuh").read_text(encoding="utf-8")
    return BuildRequest(sources=sources, include_dirs=includes)


def arguments(point: Point) -> tuple[Argument, ...]:
    """A call's arguments; its arrays are buffers in their order."""
    found: list[Argument] = []
    arrays = 0
    for argument in point.arguments:
        if isinstance(argument, Array):
            found.append(Argument(ctype="pointer", buffer=arrays))
            arrays += 1
        else:
            ctype = "float32" if isinstance(argument, float) else "int32"
            found.append(Argument(ctype=ctype, value=argument))
    last = (("int32", point.block), ("int32", point.way_index), ("stream", 0))
    return (*found, *(Argument(ctype=ctype, value=value) for ctype, value in last))


def run_point(device: Device, entry: Entry, point: Point) -> dict[str, np.ndarray]:
    """Calls a point once; gives its outputs by name, as they are stored.

    Raises:
        PointFailed: the call returns an error or the kernel faults.
    """
    buffers = point.inputs()
    addresses = [device.allocate(buffer.nbytes) for buffer in buffers]
    for address, buffer in zip(addresses, buffers, strict=True):
        device.write(address, buffer.view(np.uint8))
    bound = [argument.bound(addresses, device.stream) for argument in arguments(point)]
    report = device.call(entry, bound)
    if report.fault is not None or report.code:
        raise PointFailed(f"{point.name}: code {report.code}, {report.fault}")
    outputs: dict[str, np.ndarray] = {}
    for array, address, buffer in zip(point.arrays, addresses, buffers, strict=True):
        if array.output:
            device.read(address, buffer.view(np.uint8))
            outputs[array.name] = buffer
        device.free(address)
    return outputs
