"""What the tools are told and what they answer: typed, so that clients get schemas."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from astra_kernels.records.base import Record
from astra_kernels.records.plan import Bottleneck


class CandidateGiven(Record):
    """A kernel to judge: exactly one of `sources`, `path` and `id`."""

    sources: dict[str, str] | None = None
    """Whole text of each changed file, by its path among the sources. Files that are left out are those of `parent`."""
    path: str | None = None
    """A source file in place of the baseline's entry file, or a directory of sources; inside the server's roots."""
    id: str | None = None
    """A candidate of this run that was verified or benched before."""
    title: str = Field("", max_length=400)
    """What was changed, in one line."""
    hypothesis: str = Field("", max_length=4000)
    """Why it should be faster; kept in the log and shown in the report."""
    technique: str = Field("outside", max_length=100)
    """Key of the technique, such as `vector_width` or `cache_policy`."""
    predicted_gain: float = Field(1.0, gt=0, le=1000)
    """Expected time of `parent` over the time of this candidate; 1 promises nothing. Shown beside what came of it."""
    parent: str | None = None
    """Identifier of the candidate it was made from; default: the baseline."""


class Time(Record):
    """How long a call takes, beside the baseline."""

    kind: Literal["measured", "modelled"]
    """`modelled` is a simulator's prediction and no speedup."""
    baseline_us: float
    candidate_us: float
    ratio: float
    """Baseline time over candidate time: above 1 the candidate is faster."""
    low: float
    """Measured: the 95 % interval. Modelled: the ratio less the model's stated error, no confidence interval."""
    high: float


class WorkloadOutcome(Record):
    """A public workload that passed."""

    uuid: str
    axes: dict[str, int]
    checked: bool
    """False for workloads that are too large to check on a simulated device."""
    max_ulp: float | None
    """Largest error of any output, in units in the last place."""
    baseline_max_ulp: float | None
    time: Time | None
    """None for workloads that are checked and not timed."""


class Kernel(Record):
    """What the compiler reports."""

    name: str
    registers: int
    spill_bytes: int
    static_shared_bytes: int


class Judged(Record):
    """A verdict on a candidate."""

    run: str
    candidate: str
    """Identifier: the same sources have the same one."""
    parent: str | None
    title: str
    outcome: str
    """`passed`, or how it failed: `build_failed`, `rejected`, `crashed`, `timed_out`, `incorrect`, `unsafe`,
    `quarantined`."""
    passed: bool
    beats_baseline: bool
    """Measured: the whole interval is above 1. Modelled: the gain exceeds the model's error."""
    message: str
    """What happened, and what to mend."""
    time: Time | None
    """Geometric mean over the timed workloads."""
    workloads: tuple[WorkloadOutcome, ...]
    hidden: tuple[str, ...]
    """Kinds of the hidden workloads that it got right, drawn for this verdict; sizes and values are not told."""
    kernels: tuple[Kernel, ...]
    findings: tuple[str, ...]
    """Suspicious, but not rejecting."""
    device: str
    wall_s: float
    recorded: bool
    """True when these sources were judged before in this run: then this is that verdict."""


class WorkloadGiven(Record):
    """A workload that everybody knows."""

    uuid: str
    axes: dict[str, int]
    timed: bool


class LoadedProblem(Record):
    """What there is to know before the first candidate."""

    run: str
    """Name of the run; other tools take it where several are open."""
    run_directory: str
    problem: str
    digest: str
    """Of definition, workloads, reference and baseline: whoever wrote the problem can compare it."""
    device: str
    description: str
    """Operator, axes, inputs, outputs, tolerance, entry point, signature and reference, as Markdown."""
    entry_point: str
    """`FILE::function`, which every candidate has to keep."""
    sources: dict[str, str]
    """The baseline, by path."""
    workloads: tuple[WorkloadGiven, ...]
    rules: str
    """What is admitted, in words."""
    baseline: Judged
    confirmations_left: int


class EvidenceCited(Record):
    """A counter that a diagnosis rests on."""

    metric: str
    """Nsight Compute's name where the meaning is the same."""
    value: float
    meaning: str


class BusyLine(Record):
    """A source line that many instructions come from."""

    file: str
    line: int
    code: str
    metrics: dict[str, float]


class Diagnosed(Record):
    """What limits a kernel."""

    run: str
    candidate: str
    bottleneck: Bottleneck
    summary: str
    evidence: tuple[EvidenceCited, ...]
    lines: tuple[BusyLine, ...]
    """The busiest first; empty where the device does not count by line."""
    counters: str
    """Every counter of every launch, as a Markdown table."""


class ClaimMade(Record):
    """One thing that is said of a candidate."""

    verdict: Literal["held", "failed", "not established"]
    reason: str


class Confirmed(Record):
    """The verdict of a second look."""

    run: str
    candidate: str
    verdict: Literal["confirmed", "refuted", "not established"]
    claims: dict[str, ClaimMade]
    """`correct`, `safe` and `faster`."""
    reasons: tuple[str, ...]
    """Why it is not confirmed."""
    facts: tuple[str, ...]
    time: Time | None
    recorded: bool
    """True when it was looked at before: a candidate gets one second look in a run."""
    confirmations_left: int


class AttemptMade(Record):
    """One candidate of a run."""

    number: int
    candidate: str
    parent: str | None
    title: str
    outcome: str
    """In one line."""
    time: Time | None
    beats_baseline: bool
    verdict: str
    """Of its second look; empty where there was none."""


class HistoryTold(Record):
    """What was tried in a run."""

    run: str
    problem: str
    device: str
    attempts: tuple[AttemptMade, ...]
    verified: tuple[str, ...]
    """Candidates that passed `verify` and were not benched."""
    best: str | None
    """The fastest that passed with a time."""
    finished: str
    """Why the run ended; empty while it goes on."""


class Reported(Record):
    """Where a run's report lies, and what it says first."""

    run: str
    verdict: str
    sentence: str
    report: str
    """Path of the page."""
    best: str | None
    best_directory: str | None
    """Path of the winning files and `changes.diff`."""
