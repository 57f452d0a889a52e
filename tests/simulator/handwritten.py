"""Running PTX that was written by hand, without a compiler or a host launcher."""

import ctypes
import struct
import subprocess

import numpy as np
import pytest

from astra_kernels.simulator import SimulatorOptions
from astra_kernels.simulator.executor_interface import Executor
from astra_kernels.simulator.launching import Geometry, run_launch
from astra_kernels.simulator.module import LoadedModule
from astra_kernels.simulator.native import native_library

EXECUTOR = Executor(native_library())
HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"


def module_of(body, parameters=1, declarations="", functions=""):
    """A module with one kernel `k`, whose parameters `p0`, `p1`, ... are 64 bits wide."""
    listed = ", ".join(f".param .u64 p{index}" for index in range(parameters))
    return (
        f"{HEADER}{functions}\n.visible .entry k({listed})\n{{\n"
        "  .reg .pred %p<16>;\n  .reg .b16 %rs<64>;\n  .reg .b32 %r<256>;\n  .reg .b64 %rd<64>;\n"
        f"  .reg .f32 %f<64>;\n  .reg .f64 %fd<64>;\n{declarations}\n{body}\n  ret;\n}}\n"
    )


def load(text):
    """The module of a text, ready to be launched."""
    return LoadedModule(text, {}, EXECUTOR)


def run(text, *arrays, threads=32, blocks=1, shared=0, options=None):
    """Run the kernel `k` of a text; arrays become device buffers and are read back.

    Gives the launch.
    """
    module = load(text)
    kernel = module.kernel("k")
    addresses = [EXECUTOR.allocate(array.nbytes, f"argument {i}") for i, array in enumerate(arrays)]
    try:
        for address, array in zip(addresses, arrays, strict=True):
            _copy(address, array.ctypes.data, array.nbytes)
        size = kernel.lowered.frame.parameter_bytes
        packed = struct.pack(f"<{len(addresses)}Q", *addresses).ljust(max(size, 1), b"\0")
        return run_launch(
            EXECUTOR,
            kernel,
            Geometry((blocks, 1, 1), (threads, 1, 1), shared),
            packed[: max(size, 1)],
            module.symbols,
            options or SimulatorOptions(threads=1),
        )
    finally:
        for address, array in zip(addresses, arrays, strict=True):
            _copy(array.ctypes.data, address, array.nbytes)
            EXECUTOR.release(address)


def disassembled(toolchain, text, folder):
    """What nvdisasm prints of the machine code that ptxas makes of a text for compute_90."""
    if toolchain.nvdisasm is None:
        pytest.skip("nvdisasm is not installed")
    source, cubin = folder / "text.ptx", folder / "text.cubin"
    source.write_text(text)
    for command in (
        [toolchain.nvcc, "-arch=sm_90", "-cubin", source, "-o", cubin],
        [toolchain.nvdisasm, "-c", cubin],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return done.stdout


def _copy(to, source, size):
    ctypes.memmove(to, source, size)


def per_lane(*results):
    """Text that stores `%r` registers to p0, as an array of shape (len(results), 32)."""
    lines = [
        "  ld.param.u64 %rd60, [p0];",
        "  mov.u32 %r250, %laneid;",
        "  mul.wide.u32 %rd61, %r250, 4;",
    ]
    lines.append("  add.s64 %rd62, %rd60, %rd61;")
    lines += [f"  st.global.b32 [%rd62+{128 * i}], {name};" for i, name in enumerate(results)]
    return "\n".join(lines)


def lane_words(parameter, registers):
    """Text that loads `registers` from an array of shape (len(registers), 32) of words."""
    lines = [
        f"  ld.param.u64 %rd50, [{parameter}];",
        "  mov.u32 %r251, %laneid;",
        "  mul.wide.u32 %rd51, %r251, 4;",
        "  add.s64 %rd52, %rd50, %rd51;",
    ]
    lines += [f"  ld.global.b32 {name}, [%rd52+{128 * i}];" for i, name in enumerate(registers)]
    return "\n".join(lines)


def words(*shape, seed=0):
    """Random 32-bit words."""
    return np.random.default_rng(seed).integers(0, 2**32, shape, dtype=np.uint32)
