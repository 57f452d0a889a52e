"""CUDA files built with the real nvcc, and one simulated device for all tests."""

import ctypes
import importlib.util
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from astra_kernels.errors import ToolchainNotFound
from astra_kernels.languages.cuda.toolchain import find_toolchain
from astra_kernels.simulator import Simulator, SimulatorOptions

SOURCES = Path(__file__).parent / "cu"
PLAIN = (
    "norms", "warps", "faults", "ordering", "cooperative", "checks", "missing",
    "tensor", "system", "hosting",
)  # fmt: skip


def compile_library(toolchain, source, out, *flags, output=None):
    """Build a library; `output`, a list, receives what the compiler said."""
    command = [
        str(toolchain.nvcc), "-std=c++17", "-O3", "-shared", "-cudart", "shared", "-Xcompiler", "-fPIC",
        "-lineinfo", "-gencode", "arch=compute_90,code=compute_90",
        *(f"-L{folder}" for folder in toolchain.library_dirs), *flags, str(source), "-o", str(out),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if output is not None:
        output.append(done.stdout + done.stderr)
    return out


@pytest.fixture(scope="session")
def toolchain():
    try:
        return find_toolchain(os.environ)
    except ToolchainNotFound as reason:
        pytest.skip(str(reason))


def compile_all(toolchain, names, folder, *flags):
    def one(name):
        compile_library(
            toolchain, SOURCES / f"{name}.cu", folder / f"{name}.so", "--no-compress", *flags
        )

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, names))


@pytest.fixture(scope="session")
def built(toolchain, made_once):
    """Paths of the built libraries, by the name of their source."""
    folder = made_once("plain-kernels", lambda folder: compile_all(toolchain, PLAIN, folder))
    return {name: folder / f"{name}.so" for name in PLAIN}


@pytest.fixture(scope="session")
def flashinfer_built(toolchain, made_once):
    package = importlib.util.find_spec("flashinfer")
    include = Path(package.origin).parent / "data" / "include"
    names = ("flashinfer", "measured")

    def make(folder):
        for header in ("cublasLt.h", "cublas_v2.h", "curand_kernel.h"):
            (folder / header).touch()  # norm.cuh includes them and uses nothing of them
        compile_all(toolchain, names, folder, f"-I{folder}", f"-I{include}")

    folder = made_once("flashinfer-kernels", make)
    return {name: folder / f"{name}.so" for name in names}


@pytest.fixture(scope="session")
def flashinfer_library(flashinfer_built):
    return flashinfer_built["flashinfer"]


@pytest.fixture(scope="session")
def measured_library(flashinfer_built):
    return flashinfer_built["measured"]


class Device:
    """The simulator with arrays instead of addresses."""

    def __init__(self):
        self.simulator = Simulator("h200")
        self.launch = None

    def run(self, library, entry, *arguments, options=None):
        """Call a launcher; NumPy arrays become device buffers of their size and are read back.

        Gives the launcher's result; `launch` is the last launch.
        """
        self.simulator.options = options or SimulatorOptions()
        addresses, values = [], []
        for index, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                address = self.simulator.allocate(argument.nbytes, f"argument {index}")
                self.simulator.write(address, argument)
                addresses.append((address, argument))
                values.append(ctypes.c_void_p(address))
            elif isinstance(argument, ctypes._SimpleCData):
                values.append(argument)
            else:
                kind = ctypes.c_float if isinstance(argument, float) else ctypes.c_int
                values.append(kind(argument))
        try:
            code = library.function(entry)(*values)
            launches = self.simulator.take_launches()
            self.launch = launches[-1] if launches else None
        finally:
            for address, argument in addresses:
                self.simulator.read(address, argument)
                self.simulator.free(address)
        return code


@pytest.fixture(scope="module")
def device():
    """A process has one simulated device, the newest; other modules' tests make their own."""
    return Device()


@pytest.fixture(scope="module")
def norms(device, built):
    return device.simulator.load(built["norms"])


@pytest.fixture(scope="module")
def warps(device, built):
    return device.simulator.load(built["warps"])


@pytest.fixture(scope="module")
def faults(device, built):
    return device.simulator.load(built["faults"])


@pytest.fixture(scope="module")
def ordering(device, built):
    return device.simulator.load(built["ordering"])


def random(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
