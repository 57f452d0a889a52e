"""A technique table: what to try against which bottleneck, and what it usually brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from astra_kernels.records.candidate import Candidate
from astra_kernels.records.history import History
from astra_kernels.records.plan import Bottleneck, Diagnosis, Plan


@dataclass(frozen=True)
class Technique:
    """One row: a technique, why it helps, what can go wrong, and the gain to expect by bottleneck."""

    name: str
    hypothesis: str
    risk: str
    expected: Mapping[Bottleneck, float]
    otherwise: float
    """Expected gain against any other bottleneck."""


TECHNIQUES: tuple[Technique, ...] = (
    Technique(
        name="launch_geometry",
        hypothesis="another block size, or several blocks a row, fills the multiprocessors better",
        risk="more blocks cost more scheduling; per-block work may become too small",
        expected={
            "parallelism": 1.40,
            "occupancy": 1.15,
            "memory_latency": 1.12,
            "memory_bandwidth": 1.04,
        },
        otherwise=1.05,
    ),
    Technique(
        name="vectorized_access",
        hypothesis="wider loads put more bytes in flight with fewer instructions",
        risk="more registers; unaligned or short rows take the fallback path",
        expected={
            "memory_latency": 1.25,
            "instruction_issue": 1.20,
            "occupancy": 1.06,
            "memory_bandwidth": 1.05,
        },
        otherwise=1.03,
    ),
    Technique(
        name="fast_math",
        hypothesis="intrinsics replace multi-instruction exponentials, divisions and roots",
        risk="a few ulp of accuracy, which the error rule may refuse",
        expected={"special_functions": 1.20, "instruction_issue": 1.15},
        otherwise=1.05,
    ),
    # Modelled to bring next to nothing on the examples (docs/rewrites.md), where they apply: cache
    # policies, unrolling, launch bounds and early launches wait for second tries of the first three.
    Technique(
        name="cache_policy",
        hypothesis="streams that are read or written once leave the caches to data that is used again",
        risk="data that is needed again comes from further away; the compiler may have seen it already",
        expected={"memory_bandwidth": 1.004},
        otherwise=1.003,
    ),
    Technique(
        name="warp_shuffle_reduction",
        hypothesis="shuffles within warps need two barriers where a tree in shared memory needs one a halving",
        risk="sums of floats associate differently, which the error rule judges",
        expected={
            "memory_latency": 1.12,
            "occupancy": 1.10,
            "instruction_issue": 1.08,
            "parallelism": 1.08,
        },
        otherwise=1.02,
    ),
    Technique(
        name="hoist_invariants",
        hypothesis="divisions, roots and loads that are the same in every iteration are done once",
        risk="values that wait in registers; the compiler may have moved them already",
        expected={"special_functions": 1.10, "instruction_issue": 1.08, "memory_latency": 1.05},
        otherwise=1.02,
    ),
    Technique(
        name="unroll",
        hypothesis="loads of several iterations are under way at once, and the loop costs fewer instructions",
        risk="more registers; short rows never reach the unrolled part",
        expected={"memory_latency": 1.01, "occupancy": 1.005},
        otherwise=1.003,
    ),
    Technique(
        name="launch_bounds",
        hypothesis="registers fit the block that is launched, so that more blocks are resident",
        risk="too tight a bound spills registers to local memory",
        expected={"occupancy": 1.005},
        otherwise=1.003,
    ),
    Technique(
        name="programmatic_launch",
        hypothesis="the launch overlaps with the end of the kernel before it",
        risk="it only shows in a stream of kernels; blocks that wait hold their places",
        expected={"launch": 1.10},
        otherwise=1.003,
    ),
)

_DISCOUNT = 0.1
"""What is left of the expected gain for each round in which a technique was tried already."""


class RulePlanner:
    """Ranks the table's rows for the diagnosis, discounting what history has already tried."""

    def plan(
        self, parent: Candidate, diagnosis: Diagnosis | None, history: History
    ) -> tuple[Plan, ...]:
        """Plans for `parent`, best first; empty when every technique was refused on it."""
        bottleneck: Bottleneck = diagnosis.bottleneck if diagnosis else "unknown"
        refused = {r.plan.technique for r in history.refusals if r.plan.parent == parent.id}
        plans = [
            Plan(
                id=f"r{history.rounds_ended + 1}-{technique.name}-{parent.id[:6]}",
                parent=parent.id,
                technique=technique.name,
                hypothesis=technique.hypothesis,
                predicted_gain=_predicted(technique, bottleneck, history),
                risk=technique.risk,
            )
            for technique in TECHNIQUES
            if technique.name not in refused
        ]
        return tuple(sorted(plans, key=lambda p: -p.predicted_gain))


def _predicted(technique: Technique, bottleneck: Bottleneck, history: History) -> float:
    expected = technique.expected.get(bottleneck, technique.otherwise)
    rounds = {a.round for a in history.attempts if a.plan.technique == technique.name}
    return 1.0 + (expected - 1.0) * _DISCOUNT ** len(rounds)
