"""The harness's own kernels on a real GPU: filling buffer sets, and the neighbours of a call in a chain.

Their source is harness.cu; scripts/harness compiles it to the PTX beside it, which the driver takes.
"""

from __future__ import annotations

import ctypes
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from astra_kernels.devices.cuda import CudaDevice, driver_call, driver_module

_THREADS = 256
_MOST_BLOCKS = 1024
WORD = 8


@dataclass(frozen=True)
class Pattern:
    """What a buffer set holds before a call: a master image, and the bits of it that chance decides.

    Attributes:
        master: address of the image.
        flips: address of as many bytes, with a 1 for each bit that may be turned over.
        size: bytes of both, a multiple of 8.
    """

    master: int
    flips: int
    size: int

    @property
    def words(self) -> int:
        """How many 64-bit words a set has."""
        return self.size // WORD

    @property
    def blocks(self) -> int:
        """How many blocks of a harness kernel work on a set."""
        return min(_MOST_BLOCKS, -(-self.words // _THREADS))


class Harness:
    """Launches the kernels on the device's stream; each call may be captured."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._key = device.allocate(WORD)
        self._sink = device.allocate(WORD)

    def new_key(self) -> int:
        """Draws the key of the next filling, and puts it on the device; returns it."""
        key = secrets.randbits(64)
        self._device.write(self._key, np.array([key], np.uint64).view(np.uint8))
        return key

    def restore_sets(self, slab: int, pattern: Pattern, sets: int) -> None:
        """Fills `sets` sets that lie one after the other at `slab`."""
        arguments = [slab, pattern.master, pattern.flips, pattern.words, self._key]
        self._launch(self._restore, (pattern.blocks, sets), arguments)

    def produce(self, slab: int, pattern: Pattern, index: int, delay_ns: int) -> None:
        """Fills set `index` from a kernel that lets the next one start early and writes `delay_ns` late."""
        arguments = [
            slab + index * pattern.size,
            pattern.master,
            pattern.flips,
            pattern.words,
            self._key,
            index * pattern.words,
            delay_ns,
        ]
        self._launch(self._produce, (pattern.blocks, 1), arguments)

    def consume(self, slab: int, pattern: Pattern, index: int) -> None:
        """Reads set `index` in a kernel that may start early and waits for the one before."""
        arguments = [slab + index * pattern.size, pattern.words, self._sink]
        self._launch(self._consume, (pattern.blocks, 1), arguments, early=True)

    @cached_property
    def _restore(self) -> Any:
        return driver_call("cuModuleGetFunction", _module("harness.ptx"), b"restore_sets")

    @cached_property
    def _chain(self) -> Any:
        return _module("chain.ptx")

    @cached_property
    def _produce(self) -> Any:
        return driver_call("cuModuleGetFunction", self._chain, b"produce")

    @cached_property
    def _consume(self) -> Any:
        return driver_call("cuModuleGetFunction", self._chain, b"consume")

    def _launch(
        self, kernel: Any, grid: tuple[int, int], arguments: list[int], *, early: bool = False
    ) -> None:
        driver = driver_module()
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = *grid, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = _THREADS, 1, 1
        config.sharedMemBytes = 0
        config.hStream = self._device.stream
        if early:
            attribute = driver.CUlaunchAttribute()
            names = driver.CUlaunchAttributeID
            attribute.id = names.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            config.attrs, config.numAttrs = [attribute], 1
        types = tuple(ctypes.c_uint64 for _ in arguments)
        driver_call("cuLaunchKernelEx", config, kernel, (tuple(arguments), types), 0)


class SharedMemory:
    """The multiprocessors' shared memory, which keeps what the kernel before left in it."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._bytes = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self._kernel = driver_call("cuModuleGetFunction", _module("harness.ptx"), b"spoil_shared")
        names = driver_module().CUfunction_attribute
        limit = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver_call("cuFuncSetAttribute", self._kernel, limit, self._bytes)

    def spoil(self) -> None:
        """Fills all of it with NaNs, so that reading what nobody wrote is seen in the outputs."""
        blocks = 2 * self._device.facts.multiprocessors
        values, types = (self._bytes,), (ctypes.c_uint32,)
        shape = (blocks, 1, 1, _THREADS, 1, 1, self._bytes)
        driver_call("cuLaunchKernel", self._kernel, *shape, self._device.stream, (values, types), 0)


def _module(name: str) -> Any:
    text = (Path(__file__).parent / name).read_bytes()
    return driver_call("cuModuleLoadData", text + b"\0")
