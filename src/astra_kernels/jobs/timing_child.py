"""The timing child: baseline and candidate side by side on a real GPU, by CUDA graph replay.

One replay calls a program once on each of many buffer sets, after all were filled anew (outputs poisoned)
and the cache was swept. Rounds run the programs A B B A or B A A B by chance. The outputs that are verified
come from a round, a set and a filling that chance picks: any of them may be looked at. With one program
instead of two it is timed alone.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from astra_kernels.devices.cuda import CudaDevice, CudaError
from astra_kernels.devices.cuda_graph import Graph, NotCapturable
from astra_kernels.devices.cuda_harness import Harness
from astra_kernels.devices.cuda_probe import copy_bandwidth_gb_s, launch_floor_us
from astra_kernels.devices.device import Device
from astra_kernels.errors import MachineFault
from astra_kernels.jobs.calling import Channel, load_programs
from astra_kernels.jobs.statistics import ratio_of
from astra_kernels.jobs.timing_field import Field, Leg
from astra_kernels.jobs.wire import Event, Request, TimingPlan, Turn

_WARM_UP_S = 0.3
_WARM_UP_ROUNDS = 2
_WARM_ROUNDS = 15
_CHAIN_ROUNDS = 10
_LATE_NS = 20_000
"""How much later than its trigger a producer writes, to prove that a call waits for it."""
_CHECK_EVERY = 5

BASELINE, CANDIDATE = 0, 1
Runs = Sequence[Callable[[], None]]


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
    harness = Harness(device)
    for index, call in enumerate(request.calls):
        if not channel.may_go_on():
            return
        channel.tell(Event(kind="begin", index=index))
        try:
            sets = Field(device, harness, call, entries)
            data = _Timer(sets, index, request.timing, channel).time(len(entries))
            sets.close()
        except CudaError as fault:  # a faulted context serves no further call
            channel.tell(Event(kind="failed", index=index, detail=str(fault)))
            return
        channel.tell(Event(kind="done", index=index, data=data))


@dataclass
class _Series:
    """Rounds of a mode: microseconds of each program, and when each round ended."""

    rounds: list[tuple[float, ...]] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    """Seconds of the machine's monotonic clock."""
    turns: list[Turn] = field(default_factory=list)
    """What the verified calls found, by program."""


class _Timer:
    """The timing of one call."""

    def __init__(self, sets: Field, index: int, plan: TimingPlan, channel: Channel) -> None:
        self._field, self._index, self._plan, self._channel = sets, index, plan, channel

    def time(self, programs: int) -> dict[str, Any]:
        """Everything about one call, as `claims.timing_report` reads it."""
        refused = [""] * programs
        graphs: list[Graph] = []
        for program in range(programs):
            try:
                graphs.append(self._field.capture_calls(program, self._field.cold_sets))
            except NotCapturable as reason:
                refused[program] = str(reason)
        self._field.device.settle()
        if refused[-1] and not refused[BASELINE]:
            return _report(_Series(), refused)
        if any(refused):
            return _report(
                self._rounds([partial(self._called, p) for p in range(programs)]), refused
            )
        stream = self._field.device.stream
        cold = self._rounds([partial(g.launch_apart, stream) for g in graphs])
        found = _report(cold, refused)
        found["kernels"] = graphs[-1].kernel_nodes // self._field.cold_sets
        found["long_us"] = [self._long_replay(p, g, cold) for p, g in enumerate(graphs)]
        for graph in graphs:
            graph.close()
        try:
            if self._plan.warm and self._field.warm_sets:
                found["warm"] = self._warm(programs)
            if any(g.early for g in graphs):
                found["chain"] = self._chain(programs)
        except NotCapturable as reason:  # although it could be captured before
            return _report(_Series(), [*refused[:-1], str(reason)])
        return found

    def _called(self, program: int) -> None:
        if code := self._field.call_all(program):
            raise CudaError(f"return code {code}", "a timed call")

    def _warm(self, programs: int) -> list[tuple[float, ...]]:
        """Rounds of calls whose data lie in the L2 cache."""
        sets = self._field.warm_sets
        stream = self._field.device.stream
        graphs = [self._field.capture_calls(p, sets) for p in range(programs)]
        runs = [partial(g.launch_apart, stream) for g in graphs]
        series = _Series()
        for _ in range(_WARM_UP_ROUNDS + _WARM_ROUNDS):
            self._round(runs, sets, series)
        for graph in graphs:
            graph.close()
        return series.rounds[_WARM_UP_ROUNDS:]

    def _chain(self, programs: int) -> dict[str, Any]:
        """Chains of producer, call and consumer: the programs as they launch, and every kernel waiting."""
        late = self._field.capture_chain(programs - 1, _LATE_NS)
        leg = self._field.chain_leg(late.launch)
        turn = self._field.read_back(leg, self._field.chained_sets, self._field.call.result_fds[-1])
        late.close()
        graphs = [self._field.capture_chain(p, 0) for p in range(programs)]
        runs = [g.launch for g in graphs] + [g.launch_apart for g in graphs]
        rounds: list[tuple[float, ...]] = []
        for _ in range(_WARM_UP_ROUNDS + _CHAIN_ROUNDS):
            order = list(range(len(runs)))
            secrets.SystemRandom().shuffle(order)
            times = {k: self._field.chain_leg(runs[k]).us for k in order}
            rounds.append(tuple(times[k] for k in range(len(runs))))
        for graph in graphs:
            graph.close()
        return {
            "rounds": rounds[_WARM_UP_ROUNDS:],
            "turn": asdict(turn),
        }

    def _long_replay(self, program: int, graph: Graph, cold: _Series) -> float:
        """A replay that the supervisor times with its own clock, between two marks; microseconds."""
        estimate = self._field.cold_sets * cold.rounds[-1][program]
        repeats = max(1, int(self._plan.long_replay_us / estimate))
        stream, watch = self._field.device.stream, self._field.watch
        self._field.leg(partial(graph.launch_apart, stream), self._field.cold_sets)
        self._tell(f"{program} begins")
        watch.start()
        for _ in range(repeats):
            graph.launch_apart(stream)
        elapsed = watch.stop_us()
        self._tell(f"{program} ends")
        return elapsed

    def _tell(self, mark: str) -> None:
        self._channel.tell(Event(kind="mark", index=self._index, detail=mark))

    def _rounds(self, runs: Runs) -> _Series:
        """Warm-up, then rounds until the ratio is narrow enough or a cap is reached."""
        sets = self._field.cold_sets
        started = time.perf_counter()
        warm_up_s = _WARM_UP_S if self._index == 0 else 0.0
        count = 0
        while count < _WARM_UP_ROUNDS or time.perf_counter() - started < warm_up_s:
            self._round(runs, sets, _Series())
            count += 1
        started = time.perf_counter()
        series = _Series()
        while len(series.rounds) < self._plan.max_rounds:
            self._round(runs, sets, series, look=True)
            done = len(series.rounds)
            if done >= self._plan.min_rounds:
                if time.perf_counter() - started > self._plan.seconds:
                    break
                if len(runs) == 1 or (done % _CHECK_EVERY == 0 and self._narrow(series)):
                    break
        return series

    def _narrow(self, series: _Series) -> bool:
        pairs = [(r[BASELINE], r[CANDIDATE]) for r in series.rounds]
        return ratio_of([pairs]).relative_width < self._plan.target_interval

    def _round(self, runs: Runs, sets: int, series: _Series, *, look: bool = False) -> None:
        """Each program twice, in mirrored order; each round is as likely as any other to be looked at."""
        first = secrets.randbelow(len(runs))
        order = [first] if len(runs) == 1 else [first, 1 - first]
        chosen = look and secrets.randbelow(len(series.rounds) + 1) == 0
        legs: list[list[Leg]] = [[] for _ in runs]
        turns: dict[int, Turn] = {}
        for program in (*order, *reversed(order)):
            leg = self._field.leg(runs[program], sets)
            legs[program].append(leg)
            if chosen:
                result = self._field.call.result_fds[program]
                turns[program] = self._field.read_back(leg, sets, result)
        series.rounds.append(tuple(sum(leg.us for leg in own) / 2 for own in legs))
        series.ended.append(time.monotonic())
        if chosen:
            series.turns = [turns[p] for p in range(len(runs))]


def _report(series: _Series, refused: Sequence[str]) -> dict[str, Any]:
    return {
        "rounds": series.rounds,
        "ended": series.ended,
        "turns": [asdict(turn) for turn in series.turns],
        "refused": list(refused),
        "long_us": [],
        "kernels": 0,
        "warm": [],
        "chain": None,
    }
