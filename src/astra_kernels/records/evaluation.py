"""What happened to a candidate: a closed union of outcomes, told apart by their `outcome` field.

Standard library only: the job that runs on a GPU machine builds these, and `evaluation/` reads them
back with pydantic, so that one definition serves both sides. Every float is finite; what is not known
is None, never NaN or infinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Stage = Literal["build", "admission", "correctness", "time", "profile"]


@dataclass(frozen=True, kw_only=True)
class CompilerMessage:
    """One message of a compiler, assembler or linker."""

    severity: Literal["error", "warning", "note"]
    message: str
    file: str | None = None
    """Path relative to the sources, when the message names one of them."""
    line: int | None = None
    column: int | None = None
    tool: str = "nvcc"


@dataclass(frozen=True, kw_only=True)
class KernelResources:
    """What ptxas reports of one kernel."""

    kernel: str
    """Demangled where a demangler is at hand, else as in the binary."""
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    constant_bytes: int


@dataclass(frozen=True, kw_only=True)
class OutputAccuracy:
    """Error of one output against the oracle, over one workload."""

    output: str
    max_ulp: float
    """Largest error in units in the last place of the output type at the wanted value."""
    rms_ulp: float
    mismatches: int
    """Elements that differ at all from the oracle rounded to the output type."""
    elements: int
    max_abs: float


@dataclass(frozen=True, kw_only=True)
class LineProfile:
    """What the instructions of one source line did in a launch."""

    file: str
    line: int
    metrics: Mapping[str, float]
    """`inst_executed` is warp instructions; others by Nsight Compute's names."""


@dataclass(frozen=True, kw_only=True)
class KernelProfile:
    """Counters of one kernel launch, by Nsight Compute's metric names where the meaning is the same."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    metrics: Mapping[str, float]
    source: Literal["simulated", "ncu", "static"]
    sampled_blocks: tuple[int, int] | None = None
    """(executed, total) when only a sample of the blocks ran and the counters are scaled up."""
    lines: tuple[LineProfile, ...] = ()
    """The busiest source lines first; empty where the device does not count by line."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Device time on a real GPU, baseline and candidate interleaved."""

    kind: Literal["measured"] = "measured"
    baseline_us: float
    candidate_us: float
    ratio: float
    """Baseline time over candidate time: above 1 the candidate is faster."""
    ratio_low: float
    """95 % interval of the ratio."""
    ratio_high: float
    rounds: int
    baseline_spread: float
    """Relative interquartile range of the baseline's rounds."""
    candidate_spread: float
    cache: Literal["cold", "warm"] = "cold"
    discarded: int = 0
    """Rounds left out because the clock was held down or moved."""


@dataclass(frozen=True, kw_only=True)
class Modelled:
    """Time predicted by the simulator's model; never called a speedup."""

    kind: Literal["modelled"] = "modelled"
    baseline_us: float
    candidate_us: float
    gain: float
    """Modelled baseline time over modelled candidate time."""
    model_error: float
    """The model's stated relative error of a ratio, such as 0.15."""
    sampled: bool = False


@dataclass(frozen=True, kw_only=True)
class NotEstablished:
    """No time, and why."""

    kind: Literal["not_established"] = "not_established"
    reason: str


Timing = Measured | Modelled | NotEstablished


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Device time of a producer, one call and a consumer, where a kernel may start before its producer ends.

    Programmatic dependent launch gains only between kernels, so it is measured between kernels; the
    times of `Measured` are without it. The producer writes the call's inputs, the consumer reads its set.
    """

    baseline_us: float
    candidate_us: float
    ratio: float
    """The baseline's chain over the candidate's, each as its launcher launches it."""
    ratio_low: float
    """95 % interval of the ratio."""
    ratio_high: float
    baseline_waiting_us: float
    """The same chain with every kernel waiting for the whole one before."""
    candidate_waiting_us: float


@dataclass(frozen=True, kw_only=True)
class WorkloadResult:
    """One workload that passed: how exact, how fast."""

    uuid: str
    axes: Mapping[str, int]
    seed: int
    accuracy: tuple[OutputAccuracy, ...]
    """Empty when `checked` is false."""
    baseline_accuracy: tuple[OutputAccuracy, ...] = ()
    minimum_bytes: int = 0
    """Bytes that a call must move; 0 where the definition does not say."""
    checked: bool = True
    note: str = ""
    """Why it was not checked, or how far the oracle went."""
    timing: Timing | None = None
    """None for workloads that do not count for time. Cold: nothing of the data lies in a cache."""
    warm: Timing | None = None
    """With the data in the L2 cache; None where not asked for, or where they do not fit in half of it."""
    chain: Chain | None = None
    """None where no launch asks for programmatic dependent launch."""
    profiles: tuple[KernelProfile, ...] = ()
    hidden: bool = False
    """Drawn for this evaluation from a secret seed; never timed."""
    kind: str = ""
    """What a hidden workload is about, in words: `prime size, denormals`."""


@dataclass(frozen=True, kw_only=True)
class DroppedWorkload:
    """A hidden workload that counts for nobody, since the baseline or the reference fails on it."""

    uuid: str
    kind: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """Whether a program gives the same bits for the same values; None is not established."""

    repeatable: bool | None = None
    """Two calls on the same inputs, in fresh buffers, agree in every bit."""
    batch_invariant: bool | None = None
    """A row comes out the same whatever the number of rows beside it."""
    detail: str = ""
    """Where bits differ, or why something is not established."""


@dataclass(frozen=True, kw_only=True)
class SafetyCheck:
    """What one tool found of a candidate that passed it, or why it found nothing out."""

    tool: str
    """A tool of compute-sanitizer, or `simulator`."""
    verdict: Literal["held", "not_established"]
    detail: str
    """What was looked at, or the reason."""


@dataclass(frozen=True, kw_only=True)
class Common:
    """Facts that every outcome carries."""

    device: str
    """`cuda:0 NVIDIA H200` or `sim:h200`."""
    wall_s: float = 0.0
    safety_s: float = 0.0
    """Part of `wall_s`: under compute-sanitizer's tools."""
    sandbox: str = ""
    """How the build and the children were confined."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Versions: nvcc, driver, GPU, Python, NumPy."""
    hidden: str = ""
    """The kind of the hidden workload that decided the outcome; empty when none did."""
    hidden_seed: int | None = None
    """The secret seed of the hidden workloads, told when the job has ended; never to a search."""


@dataclass(frozen=True, kw_only=True)
class BuildFailed(Common):
    """The compiler, assembler or linker refused the sources."""

    outcome: Literal["build_failed"] = "build_failed"
    messages: tuple[CompilerMessage, ...]
    log: str = ""


@dataclass(frozen=True, kw_only=True)
class Rejected(Common):
    """An admission rule refused the binary or the sources."""

    outcome: Literal["rejected"] = "rejected"
    rule: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Crashed(Common):
    """The launcher or a kernel ended abnormally: an error code, a signal, an illegal address."""

    outcome: Literal["crashed"] = "crashed"
    stage: Stage
    detail: str
    workload: str | None = None


@dataclass(frozen=True, kw_only=True)
class TimedOut(Common):
    """A deadline or step limit ran out. `limit_s` is 0 where it was the simulated device's limit of steps."""

    outcome: Literal["timed_out"] = "timed_out"
    stage: Stage
    limit_s: float
    detail: str = ""
    workload: str | None = None


@dataclass(frozen=True, kw_only=True)
class Incorrect(Common):
    """An output differs from the oracle by more than the rule allows; the worst place is shown."""

    outcome: Literal["incorrect"] = "incorrect"
    workload: str
    axes: Mapping[str, int]
    output: str
    index: tuple[int, ...]
    expected: str
    got: str
    """Values as text, since they may be NaN or infinite."""
    rule: str
    """Which rule was broken and by how much, in words."""
    mismatches: int
    elements: int


@dataclass(frozen=True, kw_only=True)
class Unsafe(Common):
    """A check of the simulator or of compute-sanitizer found an illegal access or a race."""

    outcome: Literal["unsafe"] = "unsafe"
    kind: str
    kernel: str
    detail: str
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    file: str | None = None
    line: int | None = None
    workload: str | None = None


@dataclass(frozen=True, kw_only=True)
class Quarantined(Common):
    """Too good to be believed, or two clocks disagree; kept, never promoted."""

    outcome: Literal["quarantined"] = "quarantined"
    reason: str
    workload: str | None = None


@dataclass(frozen=True, kw_only=True)
class Passed(Common):
    """Built, admitted, correct on every checked workload, and timed as far as could be established."""

    outcome: Literal["passed"] = "passed"
    workloads: tuple[WorkloadResult, ...]
    resources: tuple[KernelResources, ...]
    sass_mix: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Static opcode counts by kernel; empty when no disassembler is installed."""
    findings: tuple[str, ...] = ()
    """Suspicious but not rejecting."""
    stage_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage: build, baseline (its errors, where unknown), correctness, time, profile."""
    safety: tuple[SafetyCheck, ...] = ()
    """Tools that looked for illegal accesses and races; empty when none was asked for."""
    oracle: str = ""
    """Which oracle decided: `reference_fp64`, `reference on float64 inputs`, `reference as it is`
    or `the baseline's own outputs`."""
    geomean: Timing | None = None
    """Geometric mean over the timed workloads: a `Measured` or `Modelled` whose times are geometric means."""
    weighted_geomean: Timing | None = None
    """The same weighted by how often each workload is served; None where no workload says."""
    warm_geomean: Timing | None = None
    """Geometric mean of the warm times, over the workloads that have one."""
    dropped: tuple[DroppedWorkload, ...] = ()
    """Hidden workloads on which the baseline itself fails."""
    consistency: Consistency | None = None
    baseline_consistency: Consistency | None = None


Evaluation = BuildFailed | Rejected | Crashed | TimedOut | Incorrect | Unsafe | Quarantined | Passed
