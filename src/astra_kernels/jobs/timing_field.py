"""Buffer sets of one call on a real GPU, and the graphs that work on them.

Cold: together the sets exceed three times the L2 cache, and the cache is swept before a replay. Warm: a
few sets that fit in half of it, just written. Every filling has a key of its own (perturb.py), so that no
two calls see the same inputs where chance may change them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from astra_kernels.devices.cuda import CudaDevice, driver_call
from astra_kernels.devices.cuda_graph import Graph, NotCapturable, Step, Stopwatch, capture
from astra_kernels.devices.cuda_harness import Harness, Pattern
from astra_kernels.devices.device import Entry, c_value
from astra_kernels.errors import MachineFault
from astra_kernels.jobs.calling import addresses_in, bound_arguments
from astra_kernels.jobs.memory import mapped
from astra_kernels.jobs.perturb import flip_image
from astra_kernels.jobs.wire import Call, Turn

_CACHES = 3
_MOST_SETS, _FEWEST_SETS = 512, 2
_CHAINED_SETS = 64
_MOST_BYTES = 16 << 30


@dataclass(frozen=True)
class Leg:
    """One timed pass over the sets."""

    us: float
    """Microseconds per call."""
    key: int


class Field:
    """Memory for one call; `close` gives it back."""

    def __init__(
        self, device: CudaDevice, harness: Harness, call: Call, entries: list[Entry]
    ) -> None:
        self.device, self.call = device, call
        self._harness, self._entries = harness, entries
        l2_bytes = device.facts.l2_bytes
        budget = min(_MOST_BYTES, device.free_bytes() * 3 // 4 - 2 * l2_bytes - 2 * call.size)
        wanted = min(_MOST_SETS, -(-_CACHES * l2_bytes // call.size))
        self.cold_sets = min(max(_FEWEST_SETS, wanted), budget // call.size)
        self.warm_sets = min(self.cold_sets, l2_bytes // 2 // call.size)
        if self.cold_sets < 1:
            raise MachineFault(f"no device memory for two copies of {call.size} bytes")
        self._sweep_bytes = 2 * l2_bytes
        spans = [(slice(b.offset, b.offset + b.size), b.flips) for b in call.buffers]
        self._memory = [
            self._written(mapped(call.image_fd)),
            self._written(flip_image(call.size, spans)),
            device.allocate(self.cold_sets * call.size),
            device.allocate(self._sweep_bytes),
        ]
        self._pattern = Pattern(self._memory[0], self._memory[1], call.size)
        self.watch = Stopwatch(device.stream)
        self._restore = {
            sets: capture(device.stream, [partial(self._enqueue_restore, sets)])
            for sets in {self.cold_sets, self.warm_sets} - {0}
        }

    def capture_calls(self, program: int, sets: int) -> Graph:
        """Captures one call alone, then one per set; the second holds as many kernels per call.

        Raises:
            NotCapturable: the program cannot be captured or launches a varying number of kernels.
        """
        one = capture(self.device.stream, [self._call(program, 0)])
        one.close()
        every = capture(self.device.stream, [self._call(program, s) for s in range(sets)])
        if one.kernel_nodes == 0:
            raise NotCapturable("a call launches no kernel")
        if every.kernel_nodes != sets * one.kernel_nodes:
            raise NotCapturable(
                f"one call launches {one.kernel_nodes} kernels, {sets} calls launch {every.kernel_nodes}"
            )
        return every

    def capture_chain(self, program: int, delay_ns: int) -> Graph:
        """Captures producer, call and consumer for each of some sets.

        Raises:
            NotCapturable: the program cannot be captured.
        """
        steps: list[Step] = []
        for index in range(self.chained_sets):
            steps += [
                self._neighbour(self._harness.produce, index, delay_ns),
                self._call(program, index),
                self._neighbour(self._harness.consume, index),
            ]
        return capture(self.device.stream, steps)

    @property
    def chained_sets(self) -> int:
        """How many sets a chain goes over."""
        return min(self.cold_sets, _CHAINED_SETS)

    def leg(self, run: Callable[[], None], sets: int) -> Leg:
        """One timed pass over freshly filled sets; all of them cold, few of them warm."""
        key = self._harness.new_key()
        self._restore[sets].launch(self.device.stream)
        self.watch.start()
        run()
        return Leg(self.watch.stop_us() / sets, key)

    def chain_leg(self, graph: Callable[[int], None]) -> Leg:
        """One timed pass of a chain; what the sets held before is of another key."""
        self._harness.new_key()
        self._restore[self.cold_sets].launch(self.device.stream)
        self.device.settle()
        key = self._harness.new_key()
        self.watch.start()
        graph(self.device.stream)
        return Leg(self.watch.stop_us() / self.chained_sets, key)

    def read_back(self, leg: Leg, sets: int, result_fd: int) -> Turn:
        """Copies a set chosen by chance into a result."""
        index = secrets.randbelow(sets)
        chosen = self._slab + index * self.call.size
        self.device.read(chosen, mapped(result_fd, writable=True))
        return Turn(leg.key, index)

    def call_all(self, program: int) -> int:
        """Calls a program on every set without a graph; returns the first code that is not 0."""
        return next((c for s in range(self.cold_sets) if (c := self._call(program, s)())), 0)

    def close(self) -> None:
        """Gives everything back."""
        for graph in self._restore.values():
            graph.close()
        for address in self._memory:
            self.device.free(address)

    @property
    def _slab(self) -> int:
        return self._memory[2]

    def _written(self, content: np.ndarray) -> int:
        address = self.device.allocate(content.size)
        self.device.write(address, content)
        return address

    def _enqueue_restore(self, sets: int) -> int:
        self._harness.restore_sets(self._slab, self._pattern, sets)
        if sets == self.cold_sets:
            stream = self.device.stream
            driver_call("cuMemsetD8Async", self._memory[3], 0xA5, self._sweep_bytes, stream)
        return 0

    def _call(self, program: int, index: int) -> Step:
        def step() -> int:
            base = self._slab + index * self.call.size
            arguments = bound_arguments(self.call, addresses_in(base, self.call), self.device)
            return int(self._entries[program](*(c_value(a) for a in arguments)))

        return step

    def _neighbour(self, launch: Callable[..., None], index: int, *more: int) -> Step:
        def step() -> int:
            launch(self._slab, self._pattern, index, *more)
            return 0

        return step
