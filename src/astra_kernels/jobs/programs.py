"""The build and admission gates: sources of a job to libraries, or the outcome that ends it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from astra_kernels.errors import ProblemError, UserError
from astra_kernels.jobs.spec import ProgramSpec
from astra_kernels.jobs.wire import Program
from astra_kernels.languages.bindings.adapter import ENTRY, Adapter
from astra_kernels.languages.cuda.admission import Submission, examine
from astra_kernels.languages.cuda.build import build
from astra_kernels.languages.cuda.cache import machine_faults
from astra_kernels.languages.cuda.diagnostics import Diagnostic
from astra_kernels.languages.cuda.outcome import BuildFailure, Built
from astra_kernels.languages.cuda.request import BuildRequest
from astra_kernels.languages.cuda.sass import NotEstablished, instruction_mix
from astra_kernels.languages.cuda.toolchain import Toolchain
from astra_kernels.records.evaluation import (
    BuildFailed,
    CompilerMessage,
    Evaluation,
    KernelResources,
    Rejected,
    TimedOut,
)


@dataclass(frozen=True)
class Workshop:
    """Where and with what a job builds."""

    job_dir: Path
    toolchain: Toolchain
    cache_dir: Path
    deadline_s: float
    adapter: Adapter | None = None
    """What lets a framework's operator be called from C; None where the entry point is a C function."""

    @property
    def cuda_runtime(self) -> Path:
        """The shared CUDA runtime that libraries are linked against."""
        places = [d / self.toolchain.cudart for d in self.toolchain.library_dirs]
        return next((p for p in places if p.is_file()), places[0])

    def build(self, program: ProgramSpec) -> Built | BuildFailure:
        """Builds one program.

        Raises:
            UserError: a source file is missing.
            MachineFault: the disk is full or no process can be started.
        """
        request = BuildRequest(
            sources=self.sources(program),
            flags=program.flags,
            arch=program.arch,
            include_dirs=tuple(Path(p) for p in program.include_dirs),
            entry_symbols=(program.entry_symbol,),
        )
        if self.adapter is not None:
            request = replace(
                request,
                sources=self.adapter.added_to(request.sources),
                include_dirs=(*request.include_dirs, *self.adapter.include_dirs),
                entry_symbols=(*self.adapter.exports, ENTRY),
                entry_advice=self.adapter.advice,
                trusted_flags=self.adapter.flags_for(request.sources),
                link_flags=self.adapter.link_flags,
                readable=self.adapter.readable,
                libraries=self.adapter.libraries,
            )
        built = build(request, self.toolchain, self.cache_dir, self.deadline_s)
        if self.adapter is not None and isinstance(built, BuildFailure):
            return self.adapter.explained(built)
        return built

    def wired(self, built: Built, program: ProgramSpec) -> Program:
        """The program as a child gets it."""
        if self.adapter is None:
            return wire_program(built, program.entry_symbol)
        preloads = tuple(map(str, self.adapter.libraries))
        return replace(wire_program(built, ENTRY), preloads=preloads)

    def sources(self, program: ProgramSpec) -> dict[str, str]:
        """Text of a program's sources by path.

        Raises:
            UserError: a file is missing or is no text.
        """
        return _sources(self.job_dir / program.directory, program.sources)

    def submission(self, program: ProgramSpec, built: Built | None) -> Submission:
        """A program as the admission rules see it; `built` is None for one that was not built.

        Raises:
            UserError: a source file is missing.
            MachineFault: the library cannot be read.
        """
        if built is None:
            return Submission(self.sources(program))
        with machine_faults(f"{built.library} cannot be read"):
            data, framework = built.library.read_bytes(), self.adapter is not None
            return Submission(self.sources(program), data, built.symbols, framework)

    def start(self, programs: Mapping[str, ProgramSpec]) -> dict[str, Future[Built | BuildFailure]]:
        """Builds several programs at the same time."""
        pool = ThreadPoolExecutor(max_workers=len(programs))
        futures = {name: pool.submit(self.build, p) for name, p in programs.items()}
        pool.shutdown(wait=False)
        return futures


def build_failed(failure: BuildFailure, limit_s: float) -> Evaluation:
    """The outcome of a program that could not be built."""
    if failure.timed_out:
        return TimedOut(device="", stage="build", limit_s=limit_s, detail=failure.log[-500:])
    messages = tuple(_message(d) for d in failure.diagnostics)
    return BuildFailed(device="", messages=messages, log=failure.log)


def admission(
    subject: Submission, baseline: Submission | None
) -> tuple[Rejected | None, tuple[str, ...]]:
    """The verdict of the admission rules and the findings that are only suspicious.

    Without a baseline to compare with, the subject is the baseline, and nothing rejects it: what it does,
    its candidates may do.
    """
    findings = examine(subject, baseline)
    for finding in findings:
        if finding.weight == "rejecting" and baseline is not None:
            return Rejected(device="", rule=finding.rule, detail=str(finding)), ()
    return None, tuple(map(str, findings))


def sound_baseline(built: Built | BuildFailure, outcome: Evaluation | None = None) -> Built:
    """The baseline's build, in a job that judges a candidate.

    Raises:
        ProblemError: the baseline itself fails, so nothing can be compared with it.
    """
    if isinstance(built, BuildFailure):
        first = next((d.message for d in built.diagnostics), built.log[-300:])
        raise ProblemError(f"the baseline does not build: {first}; judge the baseline alone first")
    if outcome is not None:
        reason = getattr(outcome, "detail", "") or getattr(outcome, "rule", "")
        raise ProblemError(
            f"the baseline is {outcome.outcome.replace('_', ' ')} on workload "
            f"{getattr(outcome, 'workload', None)}: {reason}; judge the baseline alone first"
        )
    return built


def resources_of(built: Built) -> tuple[KernelResources, ...]:
    """What ptxas reports, as records."""
    return tuple(
        KernelResources(
            kernel=k.demangled,
            registers=k.registers,
            spill_store_bytes=k.spill_store_bytes,
            spill_load_bytes=k.spill_load_bytes,
            stack_bytes=k.stack_bytes,
            static_shared_bytes=k.static_shared_bytes,
            constant_bytes=k.constant_bytes,
        )
        for k in built.kernels
    )


def sass_mix(built: Built, toolchain: Toolchain) -> tuple[dict[str, dict[str, int]], str]:
    """Static opcode counts by kernel, and why there are none ("" when there are)."""
    mixes = instruction_mix(built, toolchain)
    if isinstance(mixes, NotEstablished):
        return {}, f"no instruction mix: {mixes.reason}"
    names = {k.name: k.demangled for k in built.kernels}
    return {names.get(m.kernel, m.kernel): dict(m.opcodes) for m in mixes}, ""


def wire_program(built: Built, symbol: str) -> Program:
    """The program as a child gets it."""
    registers = {k.name: k.registers for k in built.kernels}
    return Program(library=str(built.library), symbol=symbol, registers=registers)


def _message(diagnostic: Diagnostic) -> CompilerMessage:
    return CompilerMessage(
        severity=diagnostic.severity,
        message=diagnostic.message,
        file=diagnostic.file or None,
        line=diagnostic.line or None,
        column=diagnostic.column,
        tool=diagnostic.tool,
    )


def _sources(directory: Path, names: tuple[str, ...]) -> dict[str, str]:
    try:
        return {name: (directory / name).read_text(encoding="utf-8") for name in names}
    except (OSError, ValueError) as error:
        raise UserError(f"a source of the job cannot be read: {error}") from error
