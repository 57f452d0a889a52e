"""Capturing calls into CUDA graphs, counting what they launch, and timing replays with events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from astra_kernels.devices.cuda import CudaError, driver_call, driver_module


class NotCapturable(Exception):
    """What was called cannot be captured: it synchronises, uses another stream, or fails."""


@dataclass(frozen=True)
class Graph:
    """An instantiated graph."""

    executable: Any
    kernel_nodes: int
    nodes: int

    def launch(self, stream: int) -> None:
        """Enqueues one replay."""
        driver_call("cuGraphLaunch", self.executable, stream)

    def close(self) -> None:
        """Destroys the executable graph."""
        driver_call("cuGraphExecDestroy", self.executable)


def capture(stream: int, enqueue: Callable[[], int]) -> Graph:
    """Captures what `enqueue` puts on `stream`; it returns 0 for success.

    The capture mode is the global one: unsafe calls of any thread, and launches on the legacy default
    stream, end the capture.

    Raises:
        NotCapturable: `enqueue` fails, or does what a capture forbids.
    """
    driver = driver_module()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    driver_call("cuStreamBeginCapture", stream, mode)
    try:
        code = enqueue()
    except CudaError as error:
        _abandon(stream)
        raise NotCapturable(str(error)) from error
    try:
        graph = driver_call("cuStreamEndCapture", stream)
    except CudaError as error:
        raise NotCapturable(str(error)) from error
    if code != 0:
        raise NotCapturable(f"the entry point returned {code} while it was captured")
    kernels, nodes = _count(graph, driver)
    executable = driver_call("cuGraphInstantiate", graph, 0)
    driver_call("cuGraphDestroy", graph)
    return Graph(executable, kernels, nodes)


def _abandon(stream: int) -> None:
    with contextlib.suppress(CudaError):
        driver_call("cuStreamEndCapture", stream)


def _count(graph: Any, driver: Any) -> tuple[int, int]:
    """Kernel nodes and all nodes; child graphs count with what they hold."""
    count = int(driver_call("cuGraphGetNodes", graph, 0)[1])
    if count == 0:
        return 0, 0
    kernels = nodes = 0
    types = driver.CUgraphNodeType
    for node in driver_call("cuGraphGetNodes", graph, count)[0]:
        kind = driver_call("cuGraphNodeGetType", node)
        nodes += 1
        if kind == types.CU_GRAPH_NODE_TYPE_KERNEL:
            kernels += 1
        elif kind == types.CU_GRAPH_NODE_TYPE_GRAPH:
            inner = _count(driver_call("cuGraphChildGraphNodeGetGraph", node), driver)
            kernels, nodes = kernels + inner[0], nodes + inner[1]
    return kernels, nodes


class Stopwatch:
    """Two events around work on a stream."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._events = [driver_call("cuEventCreate", 0) for _ in range(2)]

    def start(self) -> None:
        """Marks the beginning."""
        driver_call("cuEventRecord", self._events[0], self._stream)

    def stop_us(self) -> float:
        """Marks the end, waits for the whole device, and gives the time between in microseconds."""
        driver_call("cuEventRecord", self._events[1], self._stream)
        driver_call("cuCtxSynchronize")
        return 1e3 * float(driver_call("cuEventElapsedTime", *self._events))
