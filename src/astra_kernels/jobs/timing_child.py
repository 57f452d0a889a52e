"""The timing child: baseline and candidate side by side on a real GPU, by CUDA graph replay.

One replay calls a program once on each of many buffer sets, together over three times the L2 cache, after
all sets were restored from a master image (outputs poisoned) and the cache was swept. Rounds run the
programs A B B A or B A A B by chance. Which buffer set is read back for verification is chosen by chance
after the replay.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from astra_kernels.devices.cuda import CudaDevice, CudaError, driver_call
from astra_kernels.devices.cuda_graph import Graph, NotCapturable, Stopwatch, capture
from astra_kernels.devices.cuda_probe import copy_bandwidth_gb_s, launch_floor_us
from astra_kernels.devices.device import Device, Entry, c_value
from astra_kernels.errors import MachineFault
from astra_kernels.jobs.calling import Channel, addresses_in, bound_arguments, load_programs
from astra_kernels.jobs.memory import mapped
from astra_kernels.jobs.statistics import ratio_of
from astra_kernels.jobs.wire import Call, Event, Request, TimingPlan

_CACHES = 3
_MOST_SETS, _FEWEST_SETS = 512, 2
_MOST_BYTES = 16 << 30
_WARM_UP_S = 0.3
_WARM_UP_ROUNDS = 2
_LONG_REPLAY_US = 20_000.0
_CHECK_EVERY = 5

BASELINE, CANDIDATE = 0, 1


def time_calls(request: Request, device: Device, channel: Channel) -> None:
    """Times every call of the request."""
    if not isinstance(device, CudaDevice) or request.timing is None:
        raise MachineFault(f"{request.device} cannot be timed")
    ceilings = {
        "launch_floor_us": round(launch_floor_us(device), 4),
        "copy_gb_s": round(copy_bandwidth_gb_s(device), 1),
    }
    channel.tell(Event(kind="mark", detail="ceilings", data=ceilings))
    channel.tell(Event(kind="loading"))
    entries = load_programs(request, device)
    for index, call in enumerate(request.calls):
        if not channel.may_go_on():
            return
        channel.tell(Event(kind="begin", index=index))
        field = _Field(device, call, entries)
        try:
            data = _time_one(field, index, request.timing, channel)
        finally:
            field.close()
        channel.tell(Event(kind="done", index=index, data=data))


@dataclass(frozen=True)
class _Leg:
    program: int
    us: float


class _Field:
    """Buffer sets of one call, a master image, and the graphs that work on them."""

    def __init__(self, device: CudaDevice, call: Call, entries: list[Entry]) -> None:
        self.device, self.call, self._entries = device, call, entries
        l2_bytes = device.facts.l2_bytes
        budget = min(_MOST_BYTES, device.free_bytes() * 3 // 4 - 2 * l2_bytes - call.size)
        wanted = min(_MOST_SETS, -(-_CACHES * l2_bytes // call.size))
        self.sets = min(max(_FEWEST_SETS, wanted), budget // call.size)
        if self.sets < 1:
            raise MachineFault(f"no device memory for two copies of {call.size} bytes")
        self._sweep_bytes = 2 * l2_bytes
        self._master = device.allocate(call.size)
        self._slab = device.allocate(self.sets * call.size)
        self._sweep = device.allocate(self._sweep_bytes)
        device.write(self._master, mapped(call.image_fd))
        self.watch = Stopwatch(device.stream)
        self.restore = capture(device.stream, self._enqueue_restore)

    def capture_program(self, program: int) -> Graph:
        """Captures one call alone, then one per set; the second holds as many kernels per call.

        Raises:
            NotCapturable: the program cannot be captured or launches a varying number of kernels.
        """
        stream = self.device.stream
        one = capture(stream, lambda: self._enqueue(program, 0))
        every = capture(stream, lambda: self._enqueue_all(program))
        if one.kernel_nodes == 0:
            raise NotCapturable("a call launches no kernel")
        if every.kernel_nodes != self.sets * one.kernel_nodes:
            raise NotCapturable(
                f"one call launches {one.kernel_nodes} kernels, {self.sets} calls launch {every.kernel_nodes}"
            )
        one.close()
        return every

    def leg(self, program: int, run: Callable[[], None]) -> _Leg:
        """One restored, swept and timed pass over all sets."""
        self.restore.launch(self.device.stream)
        self.watch.start()
        run()
        return _Leg(program, self.watch.stop_us() / self.sets)

    def read_back(self, program: int) -> None:
        """Copies a set chosen by chance into the program's result."""
        chosen = self._slab + secrets.randbelow(self.sets) * self.call.size
        self.device.read(chosen, mapped(self.call.result_fds[program], writable=True))

    def call_all(self, program: int) -> None:
        """Calls a program on every set without a graph.

        Raises:
            CudaError: a call fails, although the same call was checked before.
        """
        if code := self._enqueue_all(program):
            raise CudaError(f"return code {code}", "a timed call")

    def close(self) -> None:
        """Gives everything back."""
        self.restore.close()
        for address in (self._master, self._slab, self._sweep):
            self.device.free(address)

    def _enqueue_restore(self) -> int:
        stream, size = self.device.stream, self.call.size
        for index in range(self.sets):
            driver_call("cuMemcpyDtoDAsync", self._slab + index * size, self._master, size, stream)
        driver_call("cuMemsetD8Async", self._sweep, 0xA5, self._sweep_bytes, stream)
        return 0

    def _enqueue(self, program: int, index: int) -> int:
        base = self._slab + index * self.call.size
        arguments = bound_arguments(self.call, addresses_in(base, self.call), self.device)
        return int(self._entries[program](*(c_value(a) for a in arguments)))

    def _enqueue_all(self, program: int) -> int:
        for index in range(self.sets):
            if code := self._enqueue(program, index):
                return code
        return 0


def _time_one(field: _Field, index: int, plan: TimingPlan, channel: Channel) -> dict[str, Any]:
    graphs: list[Graph] = []
    refused: list[str] = ["", ""]
    for program in (BASELINE, CANDIDATE):
        try:
            graphs.append(field.capture_program(program))
        except NotCapturable as reason:
            refused[program] = str(reason)
    field.device.settle()
    if refused[CANDIDATE] and not refused[BASELINE]:
        return {"rounds": [], "sets": field.sets, "refused": refused, "long_us": {}}
    if refused[BASELINE]:
        rounds = _rounds(field, [partial(field.call_all, p) for p in (0, 1)], plan, index)
        return {"rounds": rounds, "sets": field.sets, "refused": refused, "long_us": {}}
    stream = field.device.stream
    rounds = _rounds(field, [partial(g.launch, stream) for g in graphs], plan, index)
    long_us = {}
    for program, graph in enumerate(graphs):
        estimate = field.sets * rounds[-1][program]
        repeats = max(1, int(_LONG_REPLAY_US / estimate))
        long_us[str(program)] = _long_replay(field, (program, graph, repeats), index, channel)
        graph.close()
    return {
        "rounds": rounds,
        "sets": field.sets,
        "kernels": graphs[CANDIDATE].kernel_nodes // field.sets,
        "refused": refused,
        "long_us": long_us,
    }


def _long_replay(
    field: _Field, what: tuple[int, Graph, int], index: int, channel: Channel
) -> float:
    """A replay that the supervisor times with its own clock, between two marks."""
    program, graph, repeats = what
    field.restore.launch(field.device.stream)
    field.device.settle()
    channel.tell(Event(kind="mark", index=index, detail=f"{program} begins"))
    field.watch.start()
    for _ in range(repeats):
        graph.launch(field.device.stream)
    elapsed = field.watch.stop_us()
    channel.tell(Event(kind="mark", index=index, detail=f"{program} ends"))
    return elapsed


def _rounds(
    field: _Field, runs: list[Callable[[], None]], plan: TimingPlan, index: int
) -> list[tuple[float, float]]:
    """Warm-up, then rounds until the ratio is narrow enough or a cap is reached."""
    started = time.perf_counter()
    warm_up_s = _WARM_UP_S if index == 0 else 0.0
    count = 0
    while count < _WARM_UP_ROUNDS or time.perf_counter() - started < warm_up_s:
        _round(field, runs)
        count += 1
    started = time.perf_counter()
    rounds: list[tuple[float, float]] = []
    while len(rounds) < plan.max_rounds - 1:
        rounds.append(_round(field, runs))
        enough = len(rounds) >= plan.min_rounds
        if enough and time.perf_counter() - started > plan.seconds:
            break
        due = enough and len(rounds) % _CHECK_EVERY == 0
        if due and ratio_of([rounds]).relative_width < plan.target_interval:
            break
    rounds.append(_round(field, runs, read_back=True))
    return rounds


def _round(
    field: _Field, runs: list[Callable[[], None]], *, read_back: bool = False
) -> tuple[float, float]:
    first = secrets.randbelow(2)
    times: list[list[float]] = [[], []]
    for program in (first, 1 - first, 1 - first, first):
        times[program].append(field.leg(program, runs[program]).us)
        if read_back:
            field.read_back(program)
    return sum(times[BASELINE]) / 2, sum(times[CANDIDATE]) / 2
