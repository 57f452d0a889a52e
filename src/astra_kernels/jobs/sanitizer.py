"""The safety gate on a real GPU: a program under each tool of compute-sanitizer, on a few small workloads.

Buffers are allocations of their own there, with padding between them, and outputs and workspace are not written
before the call, so that reads of them are found. An error that the baseline shows as well is no fault of the
candidate's. A tool that is missing, not permitted or too slow establishes nothing, and that is all it does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from astra_kernels.devices.neighbours import sole_tool_on
from astra_kernels.errors import MachineFault
from astra_kernels.jobs.correctness import Subject
from astra_kernels.jobs.layout import fill_image, lay_out, total_elements
from astra_kernels.jobs.memory import result_area, sealed_image
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.sanitizer_report import ToolError, ToolReport, parse_report
from astra_kernels.jobs.spec import JobSpec, WorkloadSpec
from astra_kernels.jobs.supervise import Setting, run_child
from astra_kernels.jobs.wire import Call, Event, Request
from astra_kernels.records.evaluation import Incorrect, SafetyCheck, Unsafe

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_COMMON = ("--show-backtrace", "device", "--print-limit", "20", "--strip-paths", "no")
_OWN: dict[str, tuple[tuple[str, str], ...]] = {
    # a launcher may ask what fails, such as for an attribute; what it returns is judged elsewhere
    "memcheck": (("--padding", "65536"), ("--report-api-errors", "no")),
    "racecheck": (("--racecheck-report", "analysis"),),
    "initcheck": (("--initcheck-address-space", "all"),),
}
"""Options of one tool; those that an installed version does not know are left out."""


@dataclass
class Safety:
    """What the tools established."""

    checks: list[SafetyCheck] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    failure: Unsafe | Incorrect | None = None
    wall_s: float = 0.0


@dataclass(frozen=True)
class _Tool:
    name: str
    binary: Path
    options: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Options that the installed version does not know."""

    @property
    def prefix(self) -> tuple[str, ...]:
        return (str(self.binary), "--tool", self.name, *self.options)


def examine(
    bench: Bench, subject: Subject, baseline: Subject | None, dropped: frozenset[str] = frozenset()
) -> Safety:
    """Runs every tool on `subject`; stops at the first that finds an error that the baseline does not show.

    Args:
        bench: The job's workloads.
        subject: The program under judgement.
        baseline: The baseline; None when it is the subject, whose errors are findings then.
        dropped: Hidden workloads that count for nobody.
    """
    started = time.perf_counter()
    safety = Safety()
    workloads = small_workloads(bench.spec, dropped)
    binary = find_tool()
    for name in TOOLS:
        if binary is None:
            reason = "compute-sanitizer is not installed here"
            safety.checks.append(SafetyCheck(tool=name, verdict="not_established", detail=reason))
            continue
        _examine(bench, (subject, baseline), _tool(name, binary), workloads, safety)
        if safety.failure is not None:
            break
    safety.wall_s = time.perf_counter() - started
    return safety


def _examine(
    bench: Bench,
    programs: tuple[Subject, Subject | None],
    tool: _Tool,
    workloads: Sequence[WorkloadSpec],
    safety: Safety,
) -> None:
    subject, baseline = programs
    report = _run(bench, subject, tool, workloads)
    errors = (
        () if isinstance(report, str) else tuple(e for e in report.errors if e.severity == "error")
    )
    if isinstance(report, ToolReport):
        for error in report.errors:
            if error.severity == "warning":
                safety.findings.append(f"{tool.name} warns: {_words(error)}")
    shared: set[str] = set()
    if errors:
        known = "" if baseline is None else _run(bench, baseline, tool, workloads)
        shared = {e.kind for e in errors} if baseline is None else set()
        if isinstance(known, ToolReport):
            shared = {e.kind for e in known.errors}
        whose = "the baseline" if baseline is None else "the baseline too"
        for error in errors:
            if error.kind in shared:
                safety.findings.append(f"{tool.name}, of {whose}: {_words(error)}")
    own = [e for e in errors if e.kind not in shared]
    if own:
        safety.failure = _unsafe(own[0], tool.name, len(own))
        return
    reason = report if isinstance(report, str) else _incomplete(report)
    names = ", ".join(w.uuid for w in workloads)
    safety.findings = list(dict.fromkeys(safety.findings))
    safety.checks.append(
        SafetyCheck(
            tool=tool.name,
            verdict="not_established" if reason else "held",
            detail=reason or "; ".join((f"on {names}", *(f"without {o}" for o in tool.left_out))),
        )
    )


def _incomplete(report: ToolReport) -> str:
    """Why a report without errors of the candidate's own says nothing; "" when it does."""
    if not report.complete:
        said = report.failures[0] if report.failures else "it printed no summary"
        return f"the tool did not see the program to its end: {said}"
    if report.total and not report.errors:
        return f"the tool counts {report.total} errors and shows none that can be read"
    return ""


def _unsafe(error: ToolError, tool: str, count: int) -> Unsafe:
    others = f" ({count} errors)" if count > 1 else ""
    return Unsafe(
        device="",
        kind=error.kind,
        kernel=error.kernel,
        detail=f"{tool}: {error.detail}{others}",
        block=error.block,
        thread=error.thread,
        file=error.file,
        line=error.line,
    )


def _words(error: ToolError) -> str:
    place = f" at {error.file}:{error.line}" if error.file else ""
    return f"{error.detail} in {error.kernel}{place}"


def _run(
    bench: Bench, subject: Subject, tool: _Tool, workloads: Sequence[WorkloadSpec]
) -> ToolReport | str:
    """The tool's report of one call per workload, or why there is none."""
    limit_s = bench.spec.limits.safety_s
    folder = tool.binary.parent
    refused: list[str] = []

    def heard(event: Event, arrived: float) -> bool:
        del arrived
        if event.kind == "failed":
            refused.append(event.detail)
        return event.kind != "failed"

    try:
        with (
            _calls(bench, workloads) as calls,
            sole_tool_on(bench.spec.device),
            bench.device_in_use(),
        ):
            request = Request(
                task="profile",
                device=bench.spec.device,
                cuda_runtime=subject.cuda_runtime,
                programs=(subject.program,),
                calls=tuple(calls),
            )
            finished = run_child(request, Setting(limit_s, (folder,), tool.prefix), heard)
    except MachineFault as fault:
        return f"the tool did not run: {fault}"
    if refused:
        return f"the program does not load under the tool: {refused[0]}"
    report = parse_report(finished.output, subject.source_root)
    if report.errors:
        return report
    if finished.ending is not None:
        said = (*report.failures, finished.ending.detail)[0]
        return f"the program did not end well under the tool: {said}"
    return report


@contextmanager
def _calls(bench: Bench, workloads: Sequence[WorkloadSpec]) -> Iterator[list[Call]]:
    """Calls that write inputs only and whose outputs are not read back."""
    calls: list[Call] = []
    descriptors: list[int] = []
    try:
        for workload in workloads:
            inputs = bench.prepared(workload).inputs
            layout = lay_out(bench.spec, workload, inputs, inputs_only=True)
            fill = partial(fill_image, layout=layout, inputs=inputs)
            descriptors.append(sealed_image("image", layout.size, fill))
            descriptors.append(result_area("result", 0))
            calls.append(
                Call(
                    uuid=workload.uuid,
                    image_fd=descriptors[-2],
                    result_fds=(descriptors[-1],),
                    size=layout.size,
                    buffers=layout.buffers,
                    arguments=layout.arguments,
                    separate=True,
                )
            )
        yield calls
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def small_workloads(spec: JobSpec, dropped: frozenset[str] = frozenset()) -> list[WorkloadSpec]:
    """The smallest public workload, the smallest of an odd size, the smallest hidden one; each once."""
    by_size = sorted(spec.workloads, key=lambda w: total_elements(spec, w))
    some = [w for w in by_size if total_elements(spec, w) and w.uuid not in dropped]
    public = [w for w in some if not w.hidden]
    odd = [w for w in public if any(extent > 1 and extent % 2 for extent in w.axes.values())]
    hidden = [w for w in some if w.hidden]
    chosen = [*public[:1], *odd[:1], *hidden[:1]]
    return list({w.uuid: w for w in chosen}.values())


def find_tool() -> Path | None:
    """compute-sanitizer's program; what is on PATH is a script that starts it."""
    found = shutil.which("compute-sanitizer")
    if found is None:
        return None
    script = Path(found).resolve()
    program = script.parent.parent / "compute-sanitizer" / "compute-sanitizer"
    return program if program.is_file() else script


def _tool(name: str, binary: Path) -> _Tool:
    known = _help_text(binary)
    own = [word for option in _OWN.get(name, ()) if option[0] in known for word in option]
    left_out = tuple(option[0] for option in _OWN.get(name, ()) if option[0] not in known)
    return _Tool(name, binary, (*_COMMON, *own), left_out)


def _help_text(binary: Path) -> str:
    try:
        done = subprocess.run(
            [str(binary), "--help"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
