"""A run's winner as a FlashInfer-Bench dataset: definition, solution, workloads and traces.

Written after the data model of flashinfer-bench 0.1.2 (`flashinfer_bench.data`), in the directories that its
`TraceSet.from_path` reads. A trace there that passed needs a latency, which only a measurement on a GPU gives:
what was checked on a simulated device, or not timed, is written beside the traces and not among them.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from astra_kernels.errors import RunError
from astra_kernels.exporters.flashinfer_bench.entry import entry_in_front
from astra_kernels.exporters.flashinfer_bench.records import (
    BenchDefinition,
    BenchSolution,
    BenchSource,
    BenchSpec,
    BenchTensor,
    BenchTrace,
    BenchWorkload,
    JsonObject,
)
from astra_kernels.exporters.flashinfer_bench.reference import reference_on_tensors
from astra_kernels.exporters.flashinfer_bench.traces import traces_of
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.definition import AxisConst, AxisExpr, Definition
from astra_kernels.records.evaluation import Evaluation
from astra_kernels.records.history import History
from astra_kernels.records.problem import Problem
from astra_kernels.records.workload import CustomInput, SafetensorsInput, Workload

UNTIMED = "untimed"
"""The directory of what passed without a measured time; `TraceSet` does not read it."""


@dataclass(frozen=True)
class Written:
    """What was written, and what the format could not take."""

    files: tuple[Path, ...]
    traces: int
    """With a measured time, or a failure."""
    untimed: int
    notes: tuple[str, ...]


def write_flashinfer_bench(
    problem: Problem, history: History, out: Path, data_root: Path | None = None
) -> Written:
    """Writes the winner of a run to the new directory `out`.

    Args:
        problem: the run's.
        history: the run's.
        out: the dataset's root, which is not there yet.
        data_root: where the problem's safetensors files lie.

    Raises:
        RunError: the run has no winner, `out` exists or cannot be written, or the winner cannot be called in
            FlashInfer-Bench's way.
    """
    winner, evaluation, when = best_of(history)
    if out.exists():
        raise RunError(f"{out}: exists already")
    notes: list[str] = []
    definition = problem.definition
    solution = bench_solution(problem, winner, evaluation)
    workloads = _workloads(problem, history, notes)
    timed, untimed = traces_of(solution.name, definition, workloads, (evaluation, when))
    place = Path(definition.op_type or "other")
    records: dict[Path, list[BaseModel]] = {
        Path("solutions") / place / problem.name / f"{solution.name}.json": [solution],
        Path("workloads") / place / f"{problem.name}.jsonl": [
            BenchTrace(definition=problem.name, workload=w) for w in workloads.values()
        ],
        Path("traces") / place / f"{problem.name}.jsonl": list(timed),
        Path(UNTIMED) / place / f"{problem.name}.jsonl": list(untimed),
    }
    if definition.oracle == "baseline":
        notes.append(
            "no definition: the oracle is the original kernel, and FlashInfer-Bench's definitions need a reference"
        )
    else:
        described = bench_definition(problem)
        records[Path("definitions") / place / f"{problem.name}.json"] = [described]
    if untimed:
        notes.append(
            f"{len(untimed)} workloads passed without a measured time and are under {UNTIMED}/: a trace that "
            "passed needs a latency, and a modelled time is none"
        )
    flags = problem.spec.compile_options.cuda_cflags
    if flags:
        notes.append(f"FlashInfer-Bench's builders take no compiler flags; lost: {' '.join(flags)}")
    files = _write(out, records)
    _copy_data(problem, out, data_root)
    return Written(files, len(timed), len(untimed), tuple(notes))


def bench_definition(problem: Problem) -> BenchDefinition:
    """The definition; computed axes become variable ones with a constraint, and outputs in place separate ones."""
    own = problem.definition
    axes: dict[str, JsonObject] = {}
    constraints = list(own.constraints)
    for name, axis in own.axes.items():
        if isinstance(axis, AxisConst):
            axes[name] = {"type": "const", "value": axis.value}
        else:
            axes[name] = {"type": "var"}
        if axis.description:
            axes[name]["description"] = axis.description
        if isinstance(axis, AxisExpr):
            constraints.append(f"{name} == {axis.expression}")
    return BenchDefinition(
        name=own.name,
        op_type=own.op_type or "other",
        description=own.description,
        tags=own.tags,
        axes=axes,
        inputs={n: _tensor(s.shape, s.dtype, s.description) for n, s in own.inputs.items()},
        outputs={n: _tensor(s.shape, s.dtype, s.description) for n, s in own.outputs.items()},
        constraints=tuple(constraints),
        reference=reference_on_tensors(
            problem.reference, tuple(o.dtype for o in own.outputs.values())
        ),
    )


def bench_solution(problem: Problem, candidate: Candidate, evaluation: Evaluation) -> BenchSolution:
    """A candidate as a solution in destination-passing style, with a function in front where it is called otherwise.

    Raises:
        RunError: no function in front of it can be written.
    """
    entry = entry_in_front(problem, candidate.sources)
    says = f"{candidate.title}. Made from {problem.name}_baseline by Astra."
    flags = problem.spec.compile_options.cuda_cflags
    if flags:
        says += f" Built with {' '.join(flags)}."
    return BenchSolution(
        name=f"{problem.name}_astra_{candidate.id}",
        definition=problem.name,
        author="astra",
        description=says,
        spec=BenchSpec(
            language="cuda",
            target_hardware=(_gpu(evaluation.device),),
            entry_point=entry.point,
            destination_passing_style=True,
            binding=entry.binding,
        ),
        sources=tuple(
            BenchSource(path=p, content=t) for p, t in sorted(entry.sources.items()) if t
        ),
    )


def best_of(history: History) -> tuple[Candidate, Evaluation, str]:
    """The best candidate, its last evaluation, and when that was.

    Raises:
        RunError: there is none.
    """
    finished = history.finished
    if finished is None:
        raise RunError("the run has not ended; go on with astra optimize --resume")
    if finished.best is None:
        raise RunError("no candidate of this run beats the baseline; there is nothing to export")
    candidate = history.candidate(finished.best)
    for look in reversed(history.remeasured):
        if look.candidate == finished.best:
            return candidate, look.evaluation, look.at
    evaluation = history.evaluation_of(finished.best)
    assert evaluation is not None, "the best candidate was judged"
    return candidate, evaluation, finished.at


def _gpu(device: str) -> str:
    """The GPU that a device is or models, as FlashInfer-Bench spells it."""
    if device.startswith("sim:"):
        return f"NVIDIA_{device.removeprefix('sim:').upper()}"
    return "_".join(device.split()[1:]) or device


def _tensor(shape: tuple[str, ...] | None, dtype: str, description: str | None) -> BenchTensor:
    return BenchTensor(shape=shape, dtype=dtype, description=description)


def _workloads(problem: Problem, history: History, notes: list[str]) -> dict[str, BenchWorkload]:
    """Workloads by identifier; those that the format cannot say are left out, and counted."""
    found: dict[str, BenchWorkload] = {}
    left_out, drawn = 0, 0
    for workload in (*problem.workloads, *history.accepted_workloads):
        if any(isinstance(s, CustomInput) for s in workload.inputs.values()):
            left_out += 1
            continue
        drawn += any(getattr(s, "distribution", None) for s in workload.inputs.values())
        found[workload.uuid] = _workload(workload, problem.definition)
    if left_out:
        notes.append(
            f"{left_out} workloads make their inputs by a function: the format has no such kind"
        )
    if drawn:
        notes.append(f"{drawn} workloads draw from other distributions than FlashInfer-Bench's own")
    return found


def _workload(workload: Workload, definition: Definition) -> BenchWorkload:
    sizes = definition.resolve_axes(workload.axes)
    variable = {n: sizes[n] for n, a in definition.axes.items() if not isinstance(a, AxisConst)}
    inputs = {
        n: {k: v for k, v in s.model_dump().items() if k != "distribution"}
        for n, s in workload.inputs.items()
    }
    return BenchWorkload(uuid=workload.uuid, axes=variable, inputs=inputs)


def _write(out: Path, records: dict[Path, list[BaseModel]]) -> tuple[Path, ...]:
    files: list[Path] = []
    try:
        for name, listed in records.items():
            if not listed:
                continue
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            indent = 1 if path.suffix == ".json" else None
            lines = (r.model_dump_json(indent=indent) for r in listed)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            files.append(path)
    except OSError as error:
        shutil.rmtree(out, ignore_errors=True)
        raise RunError(f"{out}: cannot be written: {error.strerror or error}") from None
    return tuple(files)


def _copy_data(problem: Problem, out: Path, data_root: Path | None) -> None:
    named = {
        s.path
        for w in problem.workloads
        for s in w.inputs.values()
        if isinstance(s, SafetensorsInput)
    }
    for name in sorted(named):
        target = out / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile((data_root or Path()) / name, target)
        except OSError as error:
            raise RunError(f"{target}: cannot be copied: {error.strerror or error}") from None
