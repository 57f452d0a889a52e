"""What a real GPU gives at best: the time of an empty kernel in a graph, and the bandwidth of a copy."""

from __future__ import annotations

import statistics

from astra_kernels.devices.cuda import CudaDevice, driver_call
from astra_kernels.devices.cuda_graph import Stopwatch, capture

_EMPTY = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\n ret;\n}\n\0"
_CHAIN = 1000
_COPY_BYTES = 2 << 30
_REPEATS = 15


def launch_floor_us(device: CudaDevice) -> float:
    """Microseconds per empty kernel in a replayed graph of a thousand of them."""
    module = driver_call("cuModuleLoadData", _EMPTY)
    kernel = driver_call("cuModuleGetFunction", module, b"empty")
    stream = device.stream

    def enqueue() -> int:
        for _ in range(_CHAIN):
            driver_call("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0)
        return 0

    graph = capture(stream, [enqueue])
    watch = Stopwatch(stream)
    times = []
    for _ in range(_REPEATS):
        watch.start()
        graph.launch(stream)
        times.append(watch.stop_us() / _CHAIN)
    graph.close()
    return statistics.median(times)


def copy_bandwidth_gb_s(device: CudaDevice) -> float:
    """Bytes read plus bytes written per second of a large copy on the device, in 10^9."""
    size = min(_COPY_BYTES, device.free_bytes() // 4)
    source, target = device.allocate(size), device.allocate(size)
    driver_call("cuMemsetD8Async", source, 0x5A, size, device.stream)
    watch = Stopwatch(device.stream)
    times = []
    for _ in range(_REPEATS):
        watch.start()
        driver_call("cuMemcpyDtoDAsync", target, source, size, device.stream)
        times.append(watch.stop_us())
    device.free(source)
    device.free(target)
    return 2 * size / (statistics.median(times) * 1e-6) / 1e9
