"""One job's way through the gates: build, admission, correctness, time, profile; the first that fails ends it."""

from __future__ import annotations

import platform
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from astra_kernels.jobs.correctness import Accuracies, Checked, Subject, check
from astra_kernels.jobs.modelled import (
    modelled_call,
    modelled_geomean,
    modelled_timing,
    simulated_profiles,
)
from astra_kernels.jobs.ncu import profile
from astra_kernels.jobs.plausible import doubt, work_left_out
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.programs import (
    Workshop,
    admission,
    build_failed,
    resources_of,
    sass_mix,
    sound_baseline,
    wire_program,
)
from astra_kernels.jobs.spec import JobSpec, ProgramSpec, WorkloadSpec
from astra_kernels.jobs.timing import Contest, measure
from astra_kernels.languages.cuda.outcome import BuildFailure, Built
from astra_kernels.records.evaluation import (
    Evaluation,
    KernelProfile,
    Passed,
    Quarantined,
    Rejected,
    Timing,
    WorkloadResult,
)

_NOT_CHECKED = (
    "too large to check on a simulated device: a sample of its blocks ran; its outputs are not judged, so "
    "its modelled gain alone is no win"
)


@dataclass
class Known:
    """What is known of the baseline by workload, from earlier jobs or from this one."""

    accuracy: dict[str, Accuracies] = field(default_factory=dict)
    modelled_us: dict[str, float] = field(default_factory=dict)


@dataclass
class TimeGate:
    """Times and profiles by workload, whatever the device."""

    timings: dict[str, Timing] = field(default_factory=dict)
    profiles: dict[str, tuple[KernelProfile, ...]] = field(default_factory=dict)
    geomean: Timing | None = None
    remarks: list[str] = field(default_factory=list)


class Gates:
    """The gates of one job."""

    def __init__(self, spec: JobSpec, bench: Bench, shop: Workshop) -> None:
        self._spec = spec
        self._bench = bench
        self._shop = shop
        self._facts: dict[str, Any] = {}
        self.sandbox = ""

    def evaluate(self) -> Evaluation:
        """Runs the gates and returns the first outcome that ends the job, or Passed.

        Raises:
            UserError: inputs, reference or baseline cannot be used.
            MachineFault: the machine failed.
        """
        spec = self._spec
        programs = {"subject": spec.subject}
        if spec.candidate is not None and self._needs_baseline():
            programs["baseline"] = spec.baseline
        builds = self._shop.start(programs)
        try:
            for workload in next(self._bench.batches(spec.workloads), []):
                self._bench.prepared(workload)  # while the compiler runs
            with ThreadPoolExecutor(max_workers=1) as pool:
                return self._judged(builds, pool)
        finally:
            for future in builds.values():
                future.exception()  # waits: nothing of the job outlives it
            self._bench.release(spec.workloads)
            self._bench.close()

    def device_name(self) -> str:
        """`cuda:0 NVIDIA H200` or `sim:h200`."""
        device = self._spec.device
        return (
            device if self._bench.simulated else f"{device} {self._facts.get('name', '')}".strip()
        )

    def environment(self) -> dict[str, str]:
        """Versions and facts of everything that had a part."""
        tools = self._shop.toolchain
        facts = {f"device_{k}": str(v) for k, v in self._facts.items() if v not in ("", None)}
        return {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "nvcc": tools.version,
            "host_compiler": tools.host.version,
            **facts,
        }

    def _needs_baseline(self) -> bool:
        """Whether its errors or times are unknown, or it is measured side by side."""
        return not self._bench.simulated or any(self._unknown(w) for w in self._spec.workloads)

    def _unknown(self, workload: WorkloadSpec) -> bool:
        if self._bench.is_checked(workload) and workload.baseline_accuracy is None:
            return True
        return self._bench.simulated and workload.timed and workload.baseline_modelled_us is None

    def _judged(
        self, builds: dict[str, Future[Built | BuildFailure]], pool: ThreadPoolExecutor
    ) -> Evaluation:
        built = builds["subject"].result()
        if isinstance(built, BuildFailure):
            return build_failed(built, self._shop.deadline_s)
        baseline = sound_baseline(builds["baseline"].result()) if "baseline" in builds else None
        self.sandbox = built.sandbox
        rejected, findings = self._admission(built, baseline)
        if rejected is not None:
            return rejected
        disassembly = pool.submit(sass_mix, built, self._shop.toolchain)
        known = self._baseline_facts(baseline)
        alone = self._spec.candidate is None
        subject = self._subject(built, self._spec.subject, None if alone else known)
        checked, failure = check(self._bench, subject, self._spec.workloads)
        self._note(checked, built)
        if failure is not None:
            return failure
        if alone:
            known = Known(checked.accuracy, _modelled(checked))
        if self._bench.simulated:
            found = self._modelled(checked, known)
        else:
            rival = subject
            if baseline is not None:
                rival = self._subject(baseline, self._spec.baseline, None)
            found = self._measured((rival, subject), checked, known)
        if not isinstance(found, TimeGate):
            return found
        mix, remark = disassembly.result()
        remarks = [*findings, *checked.notes, *found.remarks, *([remark] if remark else [])]
        return Passed(
            device="",
            workloads=tuple(self._row(w, checked, known, found) for w in self._spec.workloads),
            resources=resources_of(built),
            sass_mix=mix,
            findings=tuple(remarks),
            oracle=checked.oracle,
            geomean=found.geomean,
        )

    def _admission(
        self, built: Built, baseline: Built | None
    ) -> tuple[Rejected | None, tuple[str, ...]]:
        """The admission gate; a baseline that was not needed so far is built once something is found."""
        spec, shop = self._spec, self._shop
        subject = shop.submission(spec.subject, built)
        if spec.candidate is None:
            return admission(subject, None)
        found = admission(subject, shop.submission(spec.baseline, baseline))
        if baseline is None and found != (None, ()):
            baseline = sound_baseline(shop.build(spec.baseline))
            return admission(subject, shop.submission(spec.baseline, baseline))
        return found

    def _subject(self, built: Built, program: ProgramSpec, known: Known | None) -> Subject:
        return Subject(
            program=wire_program(built, program.entry_symbol),
            source_root=built.source_root,
            cuda_runtime=str(self._shop.cuda_runtime),
            baseline=None if known is None else known.accuracy,
        )

    def _note(self, checked: Checked, built: Built) -> None:
        self._facts.update(checked.facts)
        if checked.sandbox:
            self.sandbox = f"build: {built.sandbox}; children: {checked.sandbox}"

    def _baseline_facts(self, baseline: Built | None) -> Known:
        """The baseline's errors and modelled times, from the job or by running it now."""
        workloads = self._spec.workloads
        known = Known(
            {w.uuid: w.baseline_accuracy for w in workloads if w.baseline_accuracy is not None},
            {
                w.uuid: w.baseline_modelled_us
                for w in workloads
                if w.baseline_modelled_us is not None
            },
        )
        missing = [w for w in workloads if self._unknown(w)]
        if baseline is not None and missing:
            subject = self._subject(baseline, self._spec.baseline, None)
            checked, failure = check(self._bench, subject, missing)
            sound_baseline(baseline, failure)
            known.accuracy.update(checked.accuracy)
            known.modelled_us.update(_modelled(checked))
        return known

    def _modelled(self, checked: Checked, known: Known) -> TimeGate | Evaluation:
        """The time and profile gates of a simulated device: everything was counted already."""
        gate = TimeGate()
        for workload in self._spec.workloads:
            launches = checked.launches.get(workload.uuid, ())
            gate.profiles[workload.uuid] = simulated_profiles(launches)
            baseline_us = known.modelled_us.get(workload.uuid)
            reason = None
            if self._spec.candidate is not None:
                reason = doubt(self._spec, workload, baseline_us, launches)
                if reason is None and not self._bench.is_checked(workload):
                    reason = work_left_out(self._spec, workload, baseline_us, launches)
            if reason is not None:
                return Quarantined(device="", reason=reason, workload=workload.uuid)
            if workload.timed:
                gate.timings[workload.uuid] = modelled_timing(baseline_us, modelled_call(launches))
        gate.geomean = modelled_geomean(list(gate.timings.values()))
        return gate

    def _measured(
        self, rivals: tuple[Subject, Subject], checked: Checked, known: Known
    ) -> TimeGate | Evaluation:
        """The time and profile gates of a real device."""
        gate = TimeGate()
        workloads = [w for w in self._spec.workloads if w.timed]
        if not workloads:
            return gate
        contest = Contest(
            programs=(rivals[0].program, rivals[1].program),
            cuda_runtime=rivals[1].cuda_runtime,
            baseline_accuracy=known.accuracy,
            digests=checked.digests,
        )
        timed, failure = measure(self._bench, contest, workloads)
        self._facts.update(timed.facts)
        if failure is not None:
            return failure
        gate.timings, gate.geomean = timed.timings, timed.geomean()
        if self._spec.profile:
            gate.profiles, remark = profile(self._bench, rivals[1], workloads, timed.kernels)
            gate.remarks += [remark] if remark else []
        return gate

    def _row(
        self, workload: WorkloadSpec, checked: Checked, known: Known, times: TimeGate
    ) -> WorkloadResult:
        was_checked = self._bench.is_checked(workload)
        return WorkloadResult(
            uuid=workload.uuid,
            axes=dict(workload.axes),
            seed=workload.seed,
            accuracy=checked.accuracy.get(workload.uuid, ()),
            baseline_accuracy=known.accuracy.get(workload.uuid, ()),
            checked=was_checked,
            note="" if was_checked else _NOT_CHECKED,
            timing=times.timings.get(workload.uuid),
            profiles=times.profiles.get(workload.uuid, ()),
        )


def _modelled(checked: Checked) -> dict[str, float]:
    """Modelled times of every call that could be modelled."""
    calls = {uuid: modelled_call(launches) for uuid, launches in checked.launches.items()}
    return {uuid: call.us for uuid, call in calls.items() if call is not None}
