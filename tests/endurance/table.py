"""An evaluator that answers from the content of a candidate, and keeps what it was asked."""

from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import sha256

from astra_kernels.records.evaluation import (
    BuildFailed,
    CompilerMessage,
    Crashed,
    Incorrect,
    Modelled,
    Passed,
)

DEVICE = "sim:h200"


@dataclass
class ContentTable:
    """The judge is not on trial here: the same content has the same evaluation, whoever asks."""

    baseline: Passed
    """A recorded evaluation of the baseline, which the others are made from."""
    baseline_id: str
    gave: Counter = field(default_factory=Counter)
    """Evaluations for the search, by candidate."""
    looks: Counter = field(default_factory=Counter)

    def evaluate_all(self, candidates, workloads, seed, effort):
        return (self.evaluate(c, workloads, seed, effort) for c in candidates)

    def evaluate(self, candidate, workloads, seed, effort):
        (self.gave if effort == "search" else self.looks)[candidate.id] += 1
        if candidate.id == self.baseline_id:
            return self.baseline
        digest = sha256("".join(candidate.sources.values()).encode()).digest()
        draw = digest[0] / 256
        if draw < 0.15:
            return BuildFailed(device=DEVICE, messages=(_MESSAGE,))
        if draw < 0.3:
            return Incorrect(
                device=DEVICE, workload=workloads[0].uuid, axes=dict(workloads[0].axes), output="y", index=(0, 0),
                expected="1", got="2", rule="max ulp", mismatches=1, elements=8,
            )  # fmt: skip
        if draw < 0.35:
            return Crashed(device=DEVICE, stage="correctness", detail="signal 11")
        lucky = 1.0 if effort == "search" or digest[2] > 50 else 0.5
        return self._passed((0.7 + digest[1] / 256) * lucky)

    def _passed(self, gain):
        workloads = tuple(
            replace(w, timing=_faster(w.timing, gain)) if isinstance(w.timing, Modelled) else w
            for w in self.baseline.workloads
        )
        geomean = _faster(self.baseline.geomean, gain)
        return replace(self.baseline, workloads=workloads, geomean=geomean)


_MESSAGE = CompilerMessage(severity="error", message="expected a ;", file="sigmoid.cu", line=11)


def _faster(timing, gain):
    return replace(timing, candidate_us=timing.baseline_us / gain, gain=gain)
