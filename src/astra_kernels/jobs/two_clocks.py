"""A long replay by two clocks: the device's events in the child, and the supervisor's own.

A candidate that has its child in its hands can report any time it likes, but not how long it took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BASELINE, CANDIDATE = 0, 1

LONG_REPLAY_US, LONGER_REPLAY_US = 20_000.0, 250_000.0
"""How long a replay takes; and how long when the first was doubted, so that a supervisor who is told
late by some milliseconds, as on a busy machine, doubts nobody twice."""

_TIME_FACTOR, _SLACK_S = 1.25, 0.005
"""How far the candidate's replay may take longer or shorter by the supervisor's clock than by the device's events."""
_RATIO_FACTOR = 1.1

Clock = Mapping[str, float]
"""Seconds of each program's long replay by the supervisor's clock."""


def between(marks: Mapping[str, float]) -> Clock:
    """Seconds between the marks that a child sets before and after each program's long replay."""
    return {
        program: marks[f"{program} ends"] - marks[f"{program} begins"]
        for program in ("0", "1")
        if f"{program} ends" in marks and f"{program} begins" in marks
    }


def clocks_disagree(long_us: Sequence[float], clock: Clock) -> str | None:
    """Why a long replay of each program was not as long as the child says, or None; microseconds and seconds."""
    seconds = [clock.get(str(program), float("inf")) for program in (BASELINE, CANDIDATE)]
    events_s = long_us[CANDIDATE] * 1e-6
    if not events_s / _TIME_FACTOR < seconds[CANDIDATE] < events_s * _TIME_FACTOR + _SLACK_S:
        return (
            f"a long replay took {events_s * 1e3:.3g} ms by CUDA events, "
            f"{seconds[CANDIDATE] * 1e3:.3g} ms by the supervisor's clock"
        )
    by_events = long_us[BASELINE] / long_us[CANDIDATE]
    by_clock = seconds[BASELINE] / seconds[CANDIDATE]
    if not 1 / _RATIO_FACTOR < by_clock / by_events < _RATIO_FACTOR:
        return (
            f"the ratio of long replays is {by_events:.3f} by CUDA events, {by_clock:.3f} by the "
            "supervisor's clock"
        )
    return None
