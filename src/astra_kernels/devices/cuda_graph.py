"""Capturing calls into CUDA graphs, counting what they launch, and timing replays with events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from astra_kernels.devices.cuda import CudaError, driver_call, driver_module


class NotCapturable(Exception):
    """What was called cannot be captured: it synchronises, uses another stream, or fails."""


@dataclass(frozen=True)
class Graph:
    """An instantiated graph.

    Attributes:
        executable: what is replayed.
        kernel_nodes: kernels of one replay, those of child graphs included.
        nodes: all nodes.
        early: how many steps' first kernels may start before the step before them has ended
            (programmatic dependent launch).
        apart: the same work with every step waiting for the whole step before it; None when `early`
            is 0, or when the graph cannot be changed.
    """

    executable: Any
    kernel_nodes: int
    nodes: int
    early: int = 0
    apart: Any = None

    def launch(self, stream: int) -> None:
        """Enqueues one replay."""
        driver_call("cuGraphLaunch", self.executable, stream)

    def launch_apart(self, stream: int) -> None:
        """Enqueues one replay in which no step overlaps the one before."""
        driver_call("cuGraphLaunch", self.executable if self.apart is None else self.apart, stream)

    def close(self) -> None:
        """Destroys the executable graphs."""
        driver_call("cuGraphExecDestroy", self.executable)
        if self.apart is not None:
            driver_call("cuGraphExecDestroy", self.apart)


Step = Callable[[], int]


def capture(stream: int, steps: Sequence[Step]) -> Graph:
    """Captures what `steps` put on `stream`, one after the other; each returns 0 for success.

    The capture mode is the global one: unsafe calls of any thread, and launches on the legacy default
    stream, end the capture.

    Raises:
        NotCapturable: a step fails, or does what a capture forbids.
    """
    driver = driver_module()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    driver_call("cuStreamBeginCapture", stream, mode)
    ends: set[int] = set()
    code = 0
    try:
        for step in steps:
            code = code or step()
            ends |= {int(node) for node in driver_call("cuStreamGetCaptureInfo", stream)[3]}
    except CudaError as error:
        _abandon(stream)
        raise NotCapturable(str(error)) from error
    try:
        graph = driver_call("cuStreamEndCapture", stream)
    except CudaError as error:
        raise NotCapturable(str(error)) from error
    if code != 0:
        driver_call("cuGraphDestroy", graph)
        raise NotCapturable(f"the entry point returned {code} while it was captured")
    kernels, nodes, to_host = _count(graph, driver)
    if to_host:
        driver_call("cuGraphDestroy", graph)
        raise NotCapturable("a copy from or to host memory")
    executable = driver_call("cuGraphInstantiate", graph, 0)
    early, apart = _apart(graph, ends, driver)
    driver_call("cuGraphDestroy", graph)
    return Graph(executable, kernels, nodes, early, apart)


def _abandon(stream: int) -> None:
    with contextlib.suppress(CudaError):
        driver_call("cuStreamEndCapture", stream)


def _apart(graph: Any, ends: set[int], driver: Any) -> tuple[int, Any]:
    """Counts the programmatic edges that leave a step, and instantiates the graph without them."""
    count = int(driver_call("cuGraphGetEdges", graph, 0)[-1])
    if count == 0:
        return 0, None
    sources, targets, data, _ = driver_call("cuGraphGetEdges", graph, count)
    programmatic = int(driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
    crossing = [
        edge
        for edge in zip(sources, targets, data, strict=True)
        if int(edge[2].type) == programmatic and int(edge[0]) in ends
    ]
    if not crossing:
        return 0, None
    froms, tos, early = ([edge[k] for edge in crossing] for k in range(3))
    full = [driver.CUgraphEdgeData() for _ in crossing]
    try:
        driver_call("cuGraphRemoveDependencies", graph, froms, tos, early, len(crossing))
        driver_call("cuGraphAddDependencies", graph, froms, tos, full, len(crossing))
    except CudaError:
        return len(crossing), None  # graphs with allocations cannot be changed
    return len(crossing), driver_call("cuGraphInstantiate", graph, 0)


def _count(graph: Any, driver: Any) -> tuple[int, int, int]:
    """Kernel nodes, all nodes, and copies that touch host memory; child graphs count with what they hold."""
    count = int(driver_call("cuGraphGetNodes", graph, 0)[1])
    if count == 0:
        return 0, 0, 0
    kernels = nodes = to_host = 0
    types = driver.CUgraphNodeType
    for node in driver_call("cuGraphGetNodes", graph, count)[0]:
        kind = driver_call("cuGraphNodeGetType", node)
        nodes += 1
        if kind == types.CU_GRAPH_NODE_TYPE_KERNEL:
            kernels += 1
        elif kind == types.CU_GRAPH_NODE_TYPE_MEMCPY:
            to_host += _touches_host(driver_call("cuGraphMemcpyNodeGetParams", node), driver)
        elif kind == types.CU_GRAPH_NODE_TYPE_GRAPH:
            inner = _count(driver_call("cuGraphChildGraphNodeGetGraph", node), driver)
            kernels, nodes, to_host = (
                own + more for own, more in zip((kernels, nodes, to_host), inner, strict=True)
            )
    return kernels, nodes, to_host


def _touches_host(copy: Any, driver: Any) -> bool:
    host = driver.CUmemorytype.CU_MEMORYTYPE_HOST
    return host in (copy.srcMemoryType, copy.dstMemoryType)


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
