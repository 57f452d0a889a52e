"""What a device expects of one call is forgotten with it."""

import ctypes

from astra_kernels.devices.device import CArgument
from astra_kernels.devices.opening import open_device
from tests.simulator.conftest import Device, compile_library

ADD = """
__global__ void one(int* y) { y[threadIdx.x] = 1; }
extern "C" int set(int* y, cudaStream_t s) { one<<<1, 32, 0, s>>>(y); return cudaGetLastError(); }
extern "C" int anywhere(int* y) { one<<<1, 32>>>(y); return cudaGetLastError(); }
"""


def test_another_device_may_use_another_stream_afterwards(toolchain, tmp_path):
    (tmp_path / "k.cu").write_text(ADD)
    built = compile_library(toolchain, tmp_path / "k.cu", tmp_path / "k.so", "--no-compress")
    device = open_device("sim:h200", tmp_path)
    address = device.allocate(128)
    arguments = [CArgument("pointer", address), CArgument("stream", device.stream)]
    assert device.call(device.load(built, "set", {}), arguments).code == 0
    other = Device()
    library = other.simulator.load(built)
    y = other.simulator.allocate(128)
    assert library.function("anywhere")(ctypes.c_void_p(y)) == 0
