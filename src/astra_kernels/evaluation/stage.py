"""Writes the self-contained job directory for one evaluation."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from astra_kernels.errors import MachineFault
from astra_kernels.evaluation.hidden import draw_hidden
from astra_kernels.jobs.spec import (
    ArgumentSpec,
    InputSpec,
    JobSpec,
    Limits,
    ProgramSpec,
    SmallerBatch,
    TensorSpec,
    ToleranceSpec,
    WorkloadSpec,
    write_spec,
)
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.definition import TensorSpec as DefinedTensor
from astra_kernels.records.definition import Tolerance
from astra_kernels.records.evaluation import Consistency, OutputAccuracy
from astra_kernels.records.expressions import evaluate
from astra_kernels.records.problem import Problem
from astra_kernels.records.sizes import batch_axis
from astra_kernels.records.solution import Argument
from astra_kernels.records.workload import (
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Workload,
)

ORACLE_FILE = "reference.py"


@dataclass(frozen=True)
class KnownBaseline:
    """What an earlier job on the same device and seed established about the baseline, by workload."""

    accuracy: dict[str, tuple[OutputAccuracy, ...]] = field(default_factory=dict)
    modelled_us: dict[str, float] = field(default_factory=dict)
    consistency: Consistency | None = None


@dataclass(frozen=True)
class JobRequest:
    """One evaluation to stage."""

    device: str
    candidate: Candidate
    workloads: tuple[Workload, ...]
    seed: int
    known: KnownBaseline = field(default_factory=KnownBaseline)
    limits: Limits = field(default_factory=Limits)
    profile: bool = True
    safety: bool = False
    """Whether compute-sanitizer's tools run too, on a real device."""
    hidden_seed: int | None = None
    """A secret from which hidden workloads are drawn; None draws none."""


def stage_job(problem: Problem, data_root: Path, request: JobRequest, directory: Path) -> JobSpec:
    """Write the job directory; returns its specification.

    Raises:
        MachineFault: when the disk is full or read-only.
    """
    try:
        directory.mkdir(parents=True)
        baseline = _write_program(problem, problem.baseline, directory, "baseline")
        judged: ProgramSpec | None = None
        if request.candidate.id != problem.baseline.id:
            judged = _write_program(problem, request.candidate, directory, "candidate")
        (directory / ORACLE_FILE).write_text(problem.reference, encoding="utf-8")
        for item in problem.data:
            target = directory / "data" / item.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(data_root / item.path, target)
        spec = _spec(problem, request, baseline, judged)
        write_spec(directory, spec)
    except OSError as error:
        raise MachineFault(
            f"{directory}: the job could not be written: {error.strerror or error}"
        ) from None
    return spec


def _write_program(
    problem: Problem, candidate: Candidate, directory: Path, name: str
) -> ProgramSpec:
    for path, text in candidate.sources.items():
        target = directory / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
    options = problem.spec.compile_options
    return ProgramSpec(
        directory=name,
        sources=tuple(candidate.sources),
        entry_symbol=problem.spec.entry_symbol,
        entry_file=problem.spec.entry_file,
        flags=(*options.cuda_cflags, *options.cflags),
    )


def _spec(
    problem: Problem, request: JobRequest, baseline: ProgramSpec, candidate: ProgramSpec | None
) -> JobSpec:
    definition = problem.definition
    return JobSpec(
        device=request.device,
        baseline=baseline,
        candidate=candidate,
        arguments=tuple(
            ArgumentSpec(name=a.name, kind=_kind(problem, a), ctype=a.ctype, value=a.value)
            for a in problem.spec.resolved_arguments(definition)
        ),
        inputs=tuple(_tensor(n, t) for n, t in definition.inputs.items()),
        outputs=tuple(
            TensorSpec(
                name=n,
                dtype=o.dtype,
                shape=o.shape,
                in_place_of=o.in_place_of,
                compare=o.comparison,
            )
            for n, o in definition.outputs.items()
        ),
        workloads=(
            *(_workload(problem, w, request) for w in request.workloads),
            *_hidden(problem, request),
        ),
        batch_axis=batch_axis(definition),
        baseline_consistency=request.known.consistency,
        custom_inputs_entrypoint=definition.custom_inputs_entrypoint,
        profile=request.profile,
        binding=problem.spec.binding or "c",
        oracle=definition.oracle,
        safety=request.safety,
        limits=request.limits,
    )


def _kind(problem: Problem, argument: Argument) -> str:
    definition, name = problem.definition, argument.name
    if argument.constant:
        return "constant"
    if name in ("stream", "workspace"):
        return name
    if name in definition.outputs and definition.outputs[name].in_place_of is None:
        return "output"
    if name in definition.inputs:
        return "input" if definition.inputs[name].shape is not None else "scalar"
    return "axis"


def _tensor(name: str, tensor: DefinedTensor) -> TensorSpec:
    return TensorSpec(name=name, dtype=tensor.dtype, shape=tensor.shape)


def _hidden(problem: Problem, request: JobRequest) -> tuple[WorkloadSpec, ...]:
    """The hidden workloads, each with a seed of its own."""
    if request.hidden_seed is None:
        return ()
    simulated = request.device.startswith("sim:")
    drawn = draw_hidden(problem, request.hidden_seed, simulated=simulated)
    found: list[WorkloadSpec] = []
    for item in drawn:
        spec = _workload(problem, item.workload, request)
        inputs = dict(spec.inputs)
        if item.rare_made_common:
            inputs = dict.fromkeys(inputs, InputSpec(type="custom", distribution="extremes"))
        found.append(replace(spec, inputs=inputs, seed=item.seed, hidden=True, kind=item.kind))
    return tuple(found)


def _smaller(problem: Problem, workload: Workload) -> tuple[SmallerBatch, ...]:
    """The same workload with its first row, and with the first half of its rows, as far as the definition allows."""
    axis = batch_axis(problem.definition)
    found: list[SmallerBatch] = []
    if axis is not None:
        rows = workload.axes[axis]
        for fewer in sorted({1, rows // 2} - {0, rows}):
            try:
                axes = problem.definition.resolve_axes({**workload.axes, axis: fewer})
            except ValueError:
                continue
            found.append(SmallerBatch(axes=axes, workspace_bytes=_workspace_bytes(problem, axes)))
    return tuple(found)


def _workspace_bytes(problem: Problem, axes: Mapping[str, int]) -> int:
    workspace = problem.spec.workspace
    return 0 if workspace is None else int(evaluate(workspace.bytes, axes))


def _workload(problem: Problem, workload: Workload, request: JobRequest) -> WorkloadSpec:
    definition = problem.definition
    axes = definition.resolve_axes(workload.axes)
    return WorkloadSpec(
        uuid=workload.uuid,
        axes=axes,
        seed=request.seed,
        inputs={n: _input(s) for n, s in workload.inputs.items()},
        timed=workload.timed,
        weight=workload.weight,
        tolerance=_tolerance(workload.tolerance or definition.tolerance),
        minimum_bytes=definition.minimum_bytes(axes),
        workspace_bytes=_workspace_bytes(problem, axes),
        smaller=_smaller(problem, workload),
        baseline_accuracy=request.known.accuracy.get(workload.uuid),
        baseline_modelled_us=request.known.modelled_us.get(workload.uuid),
    )


def _input(source: object) -> InputSpec:
    match source:
        case RandomInput(distribution=distribution):
            return InputSpec(type="random", distribution=distribution)
        case ScalarInput(value=value):
            return InputSpec(type="scalar", value=value)
        case SafetensorsInput(path=path, tensor_key=key):
            return InputSpec(type="safetensors", path=path, tensor_key=key)
    return InputSpec(type="custom")


def _tolerance(tolerance: Tolerance | None) -> ToleranceSpec | None:
    if tolerance is None:
        return None
    return ToleranceSpec(**tolerance.model_dump())
