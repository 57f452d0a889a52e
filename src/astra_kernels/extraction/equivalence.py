"""Is what was taken out the same operator? Both are built: the machine code of every kernel is compared, and the outputs."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from astra_kernels.errors import SetupError
from astra_kernels.evaluation.stage import JobRequest, stage_job
from astra_kernels.extraction.closure import Preprocessor, collect
from astra_kernels.extraction.finding import Operator
from astra_kernels.extraction.project import Project
from astra_kernels.extraction.trial import DEVICE, describe
from astra_kernels.jobs.entry import adapter_of
from astra_kernels.jobs.programs import Workshop
from astra_kernels.jobs.run_job import run_job
from astra_kernels.jobs.spec import JobSpec, ProgramSpec, write_spec
from astra_kernels.languages.cuda.outcome import BuildFailure, Built
from astra_kernels.languages.cuda.sass import listings
from astra_kernels.languages.cuda.toolchain import Toolchain, find_toolchain
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Passed
from astra_kernels.records.problem import Problem

_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?);")
_LABEL = re.compile(r"\.L_x_\d+|\$\w+")
_UNNAMED = re.compile(r"_GLOBAL__N__[0-9a-f]{8}_(\d+_\w+?)_[0-9a-f]{8}")
"""An unnamed namespace is called by its file's name between two hashes of what is compiled."""
_BUILD_DEADLINE_S = 900.0


@dataclass(frozen=True)
class Original:
    """The whole operator, nothing taken away but other translation units."""

    entry: str
    sources: dict[str, str]


@dataclass(frozen=True)
class Equivalence:
    """What the comparison found; "" for a reason says that all is equal."""

    kernels: tuple[str, ...]
    """Mangled names of the kernels whose machine code is the same."""
    different: tuple[str, ...]
    """Those whose machine code is not, or that only what was taken out has."""
    workloads: int
    """On how many workloads all outputs are equal, element for element, on the simulated device."""
    reason: str = ""
    """Why something is not equal, or was not established."""

    def __str__(self) -> str:
        listed = f": {', '.join(self.different)}" if self.different else ""
        code = f"{len(self.kernels)} kernels have the machine code of the whole original (sm_90), {len(self.different)} not"
        ran = f"outputs are equal, element for element, on {self.workloads} workloads on {DEVICE}"
        return f"{code}{listed}; " + (f"not established: {self.reason}" if self.reason else ran)


def whole_original(project: Project, operator: Operator, preprocessor: Preprocessor) -> Original:
    """The operator's file as it is, with every header; its export is added where another file has it.

    Raises:
        UserError: an include is missing, or a library is needed that is not here.
    """
    text = project.read(operator.function.path)
    exported = re.search(rf"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*{operator.symbol}\s*,", text)
    if operator.binding == "tvm-ffi" and not exported:
        text += f"\nTVM_FFI_DLL_EXPORT_TYPED_FUNC({operator.symbol}, {operator.called});\n"
    closure = collect(project, operator.function.path, text, preprocessor, every_include=True)
    closure = closure.compiled()
    return Original(closure.entry, closure.files)


def stage_against_original(
    problem: Problem, directory: Path, original: Original, job: Path, device: str
) -> JobSpec:
    """A job that holds what was taken out to the outputs of the whole original, element for element.

    The original is the baseline: it may import more than a kernel of a search may.

    Args:
        problem: what was taken out.
        directory: its directory.
        original: the whole operator.
        job: directory to write, which is not there yet.
        device: `cuda:N` or `sim:...`.

    Raises:
        MachineFault: it cannot be written.
    """
    outputs = {
        n: o.model_copy(update={"compare": "exact"}) for n, o in problem.definition.outputs.items()
    }
    whole = Candidate(sources=original.sources, title="the whole original")
    changes = {"oracle": "baseline", "outputs": outputs}
    definition = problem.definition.model_copy(update=changes)
    exact = problem.model_copy(
        update={"definition": definition, "baseline": whole, "provenance": None}
    )
    simulated = device.startswith("sim:")
    workloads = tuple(
        w.model_copy(update={"timed": w.timed and not simulated}) for w in problem.workloads
    )
    request = JobRequest(
        device=device,
        candidate=problem.baseline,
        workloads=workloads,
        seed=0,
        profile=False,
    )
    spec = stage_job(exact, directory, request, job)
    options = problem.spec.compile_options
    program = ProgramSpec(
        directory="baseline",
        sources=tuple(original.sources),
        entry_symbol=problem.spec.entry_symbol,
        entry_file=original.entry,
        flags=(*options.cuda_cflags, *options.cflags),
    )
    limits = replace(spec.limits, build_s=max(spec.limits.build_s, _BUILD_DEADLINE_S))
    spec = replace(spec, baseline=program, limits=limits)
    write_spec(job, spec)
    return spec


def compared(problem: Problem, directory: Path, original: Original, cache: Path) -> Equivalence:
    """Builds both and compares them.

    Args:
        problem: what was taken out.
        directory: its directory.
        original: the whole operator.
        cache: where builds are kept.

    Raises:
        SetupError: there is no compiler, or no nvdisasm.
        MachineFault: the disk is full or no process can be started.
    """
    toolchain = find_toolchain(os.environ)
    if toolchain.nvdisasm is None:
        raise SetupError("machine code cannot be compared: nvdisasm is not installed")
    with tempfile.TemporaryDirectory(prefix="astra-original-") as scratch:
        job = Path(scratch) / "job"
        spec = stage_against_original(problem, directory, original, job, DEVICE)
        kernels, different, reason = _machine_code(job, spec, toolchain, cache)
        if reason:
            return Equivalence(kernels, different, 0, reason)
        outcome = run_job(job, cache_dir=cache)
        if isinstance(outcome, Passed):
            return Equivalence(kernels, different, len(outcome.workloads))
        return Equivalence(kernels, different, 0, describe(outcome))


def _machine_code(
    job: Path, spec: JobSpec, toolchain: Toolchain, cache: Path
) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    workshop = Workshop(job, toolchain, cache, spec.limits.build_s, adapter_of(spec))
    found: list[dict[str, str]] = []
    if spec.candidate is None:
        return (), (), "nothing was left out: the sources are the same"
    for program, name in ((spec.candidate, "the problem"), (spec.baseline, "the whole original")):
        built = workshop.build(program)
        if isinstance(built, BuildFailure):
            first = next((d.message for d in built.diagnostics if d.severity == "error"), "")
            return (), (), f"{name} does not build: {first}"
        found.append(_by_kernel(built, toolchain))
    taken, whole = found
    if not taken:
        return (), (), "the machine code cannot be disassembled"
    equal = tuple(k for k, code in taken.items() if whole.get(k) == code)
    return equal, tuple(k for k in taken if k not in equal), ""


def _by_kernel(built: Built, toolchain: Toolchain) -> dict[str, str]:
    return {
        k: v for listing in listings(built, toolchain) for k, v in instructions(listing).items()
    }


def instructions(listing: str) -> dict[str, str]:
    """The instructions of every function by its name, with labels numbered anew from each function's start.

    Args:
        listing: what `nvdisasm -c` prints.
    """
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in listing.splitlines():
        if section := _SECTION.match(line):
            current = found.setdefault(_UNNAMED.sub(r"_GLOBAL__N__\1", section[1]), [])
        elif instruction := _INSTRUCTION.match(line):
            current.append(_UNNAMED.sub(r"_GLOBAL__N__\1", instruction[1]))
    return {name: _relabelled("\n".join(lines)) for name, lines in found.items() if lines}


def _relabelled(code: str) -> str:
    labels: dict[str, str] = {}
    return _LABEL.sub(lambda m: labels.setdefault(m[0], f"L{len(labels)}"), code)
