"""Modelled times and simulated profiles, from what a simulated device recorded of its launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_kernels.devices.device import Launch
from astra_kernels.jobs.statistics import geometric_mean
from astra_kernels.records.evaluation import KernelProfile, Modelled, NotEstablished, Timing
from astra_kernels.simulator import stated_error

Launches = Sequence[Launch]
"""What the process that ran the candidate says of its launches: claims, checked for type and size only."""


@dataclass(frozen=True)
class ModelledCall:
    """The model's time for all launches of one call."""

    us: float
    sampled: bool


def modelled_call(launches: Launches) -> ModelledCall | None:
    """Adds up the launches of a call; None when there is none or one could not be modelled."""
    times = [launch.modelled_us for launch in launches if launch.modelled_us is not None]
    if not times or len(times) < len(launches):
        return None
    return ModelledCall(
        us=sum(times),
        sampled=any(launch.sampled_blocks is not None for launch in launches),
    )


def modelled_timing(baseline_us: float | None, candidate: ModelledCall | None) -> Timing:
    """The modelled gain of a candidate; its error is the model's of one workload's gain."""
    if baseline_us is None or candidate is None or candidate.us <= 0:
        return NotEstablished(reason="no kernel was launched, or the model does not cover one")
    return Modelled(
        baseline_us=baseline_us,
        candidate_us=candidate.us,
        gain=baseline_us / candidate.us,
        model_error=stated_error().unseen_gain.root_mean_square,
        sampled=candidate.sampled,
    )


def modelled_geomean(timings: Sequence[Timing]) -> Timing | None:
    """Geometric mean over the timed workloads, if every one was modelled.

    Its error is the model's of geometric means: smaller than of one workload's gain, since some of the
    errors cancel.
    """
    if not timings:
        return None
    modelled = [t for t in timings if isinstance(t, Modelled)]
    if len(modelled) < len(timings):
        missing = len(timings) - len(modelled)
        return NotEstablished(reason=f"{missing} of {len(timings)} workloads have no modelled time")
    return Modelled(
        baseline_us=geometric_mean([m.baseline_us for m in modelled]),
        candidate_us=geometric_mean([m.candidate_us for m in modelled]),
        gain=geometric_mean([m.gain for m in modelled]),
        model_error=stated_error().unseen_gain.geomean_root_mean_square,
        sampled=any(m.sampled for m in modelled),
    )


def simulated_profiles(launches: Launches) -> tuple[KernelProfile, ...]:
    """The counters of a call's launches."""
    return tuple(_profile(launch) for launch in launches)


def _profile(launch: Launch) -> KernelProfile:
    return KernelProfile(
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        metrics=dict(launch.metrics),
        source="simulated",
        sampled_blocks=launch.sampled_blocks,
        lines=launch.lines,
    )
