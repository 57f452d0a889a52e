"""The job directory's `job.json`: everything a machine needs to evaluate one candidate.

JOB/
  job.json            this specification
  baseline/           the baseline's sources
  candidate/          the candidate's sources (absent when the baseline itself is judged)
  reference.py        the oracle; never visible to a process that runs a candidate
  data/               safetensors files that workloads name
  result.json         written last and atomically, by `run_job`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from astra_kernels.errors import UserError
from astra_kernels.json_text import parse_json
from astra_kernels.records.evaluation import Consistency, OutputAccuracy

JOB_FILE = "job.json"
RESULT_FILE = "result.json"
STAGES_FILE = "stages.txt"
"""Stages that a job has been through so far, one a line."""
SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ArgumentSpec:
    """One parameter of the entry point: `kind` is input, output, axis, scalar, workspace, stream or constant."""

    name: str
    kind: str
    ctype: str
    value: bool | int | float | str | None = None
    """Of a constant."""


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """A tensor or scalar (`shape` None) by axis names and element type."""

    name: str
    dtype: str
    shape: tuple[str, ...] | None
    in_place_of: str | None = None
    compare: str = "float"


@dataclass(frozen=True, kw_only=True)
class ProgramSpec:
    """Sources under `directory`, and how they are built and called."""

    directory: str
    sources: tuple[str, ...]
    entry_symbol: str
    flags: tuple[str, ...]
    arch: str = "sm_90"
    entry_file: str = ""
    """The source that defines the entry point."""
    include_dirs: tuple[str, ...] = ()
    """Trusted absolute directories of headers on the machine that runs the job."""


@dataclass(frozen=True, kw_only=True)
class ToleranceSpec:
    """SOL-ExecBench's tolerance block."""

    max_atol: float
    max_rtol: float
    required_matched_ratio: float
    max_error_cap: float | None = None
    allow_negative_inf: bool = False


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """Where one input's values come from: `type` is random, scalar, safetensors or custom."""

    type: str
    distribution: str | None = None
    value: bool | int | float | None = None
    path: str | None = None
    tensor_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class SmallerBatch:
    """The same workload with its first rows only."""

    axes: Mapping[str, int]
    workspace_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class WorkloadSpec:
    """One workload with all axes resolved and a seed."""

    uuid: str
    axes: Mapping[str, int]
    seed: int
    inputs: Mapping[str, InputSpec]
    timed: bool
    weight: float | None = None
    """How often the workload is served, relative to the others; None when nobody said."""
    tolerance: ToleranceSpec | None = None
    minimum_bytes: int = 0
    workspace_bytes: int = 0
    baseline_accuracy: tuple[OutputAccuracy, ...] | None = None
    """The baseline's error on this workload and seed when known from an earlier job; else the job runs the baseline too."""
    baseline_modelled_us: float | None = None
    """The baseline's modelled time when known from an earlier job on the same simulated device."""
    hidden: bool = False
    """Judged after the others, never timed, and dropped when the baseline fails on it."""
    kind: str = ""
    """What a hidden workload is about, in words."""
    smaller: tuple[SmallerBatch, ...] = ()
    """Batches whose rows may be compared with this one's."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Deadlines in seconds, and caps."""

    build_s: float = 120.0
    correctness_s: float = 120.0
    time_s: float = 300.0
    safety_s: float = 90.0
    """Of one program under one tool of compute-sanitizer."""
    oracle_s: float = 120.0
    """Of one answer of the reference."""
    hidden_s: float = 30.0
    """Of a program on all hidden workloads."""
    checked_elements: int = 8_000_000
    """On a simulated device a workload with more tensor elements runs a sample of its blocks and is not checked."""
    target_interval: float = 0.005
    """A timing process repeats until half the interval of its ratio is this narrow, relative, or `max_rounds` ran."""
    min_rounds: int = 20
    max_rounds: int = 60
    processes: int = 2
    """Timing is repeated in as many processes; intervals resample them too."""
    warm: bool = False
    """Also time calls whose data lie in the L2 cache."""
    alone: bool = False
    """Also time each program in a process of its own, and compare the ratios."""


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """One evaluation."""

    device: str
    baseline: ProgramSpec
    candidate: ProgramSpec | None
    arguments: tuple[ArgumentSpec, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    workloads: tuple[WorkloadSpec, ...]
    custom_inputs_entrypoint: str | None = None
    batch_axis: str | None = None
    """The leading axis of every output, if each of its rows depends on the same rows of the inputs only."""
    baseline_consistency: Consistency | None = None
    """What an earlier job established about the baseline."""
    profile: bool = False
    safety: bool = False
    """Run compute-sanitizer's tools too (real devices; a simulated one checks every access anyway)."""
    limits: Limits = Limits()
    binding: str = "c"
    """How the entry point is called: c, tvm-ffi or torch."""
    oracle: str = "reference"
    """What outputs are compared with: the answers of reference.py, or the `baseline`'s own."""
    schema_version: int = SCHEMA_VERSION

    @property
    def subject(self) -> ProgramSpec:
        """The program under judgement."""
        return self.candidate or self.baseline


def write_spec(job_dir: Path, spec: JobSpec) -> None:
    """Write `job.json`."""
    text = json.dumps(asdict(spec), indent=1, allow_nan=False)
    (job_dir / JOB_FILE).write_text(text, encoding="utf-8")


def read_spec(job_dir: Path) -> JobSpec:
    """Read `job.json`.

    Raises:
        UserError: when it is missing, malformed, or of another schema version.
    """
    path = job_dir / JOB_FILE
    try:
        raw = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a job: {error}") from error
    if not isinstance(raw, dict) or raw.get("schema_version") != SCHEMA_VERSION:
        raise UserError(
            f"{path}: schema_version is not {SCHEMA_VERSION}; use the Astra version that wrote it"
        )
    try:
        return _decode(raw)
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: malformed job: {error}") from error


def _decode(raw: dict[str, Any]) -> JobSpec:
    candidate, agreed = raw["candidate"], raw["baseline_consistency"]
    return JobSpec(
        device=raw["device"],
        baseline=_program(raw["baseline"]),
        candidate=None if candidate is None else _program(candidate),
        arguments=tuple(ArgumentSpec(**a) for a in raw["arguments"]),
        inputs=tuple(_tensor(t) for t in raw["inputs"]),
        outputs=tuple(_tensor(t) for t in raw["outputs"]),
        workloads=tuple(_workload(w) for w in raw["workloads"]),
        custom_inputs_entrypoint=raw["custom_inputs_entrypoint"],
        batch_axis=raw["batch_axis"],
        baseline_consistency=None if agreed is None else Consistency(**agreed),
        profile=raw["profile"],
        safety=raw.get("safety", False),
        binding=raw.get("binding", "c"),
        oracle=raw.get("oracle", "reference"),
        limits=Limits(**raw["limits"]),
    )


def _program(raw: dict[str, Any]) -> ProgramSpec:
    lists = {name: tuple(raw[name]) for name in ("sources", "flags", "include_dirs")}
    return ProgramSpec(**{**raw, **lists})


def _tensor(raw: dict[str, Any]) -> TensorSpec:
    shape = raw["shape"]
    return TensorSpec(**{**raw, "shape": None if shape is None else tuple(shape)})


def _workload(raw: dict[str, Any]) -> WorkloadSpec:
    known = raw["baseline_accuracy"]
    changes = {
        "inputs": {n: InputSpec(**i) for n, i in raw["inputs"].items()},
        "tolerance": None if raw["tolerance"] is None else ToleranceSpec(**raw["tolerance"]),
        "baseline_accuracy": None if known is None else tuple(OutputAccuracy(**a) for a in known),
        "smaller": tuple(SmallerBatch(**s) for s in raw["smaller"]),
    }
    return WorkloadSpec(**{**raw, **changes})
