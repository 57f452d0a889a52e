"""One job's way through the gates: build, admission, correctness, time, profile; the first that fails ends it."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from astra_kernels.jobs.consistency import Observed, Steadiness, weigh
from astra_kernels.jobs.correctness import Accuracies, Checked, Subject, check
from astra_kernels.jobs.hidden import Hidden, judge_hidden
from astra_kernels.jobs.modelled import (
    modelled_call,
)
from astra_kernels.jobs.ncu import profile
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.programs import (
    Workshop,
    admission,
    build_failed,
    resources_of,
    sass_mix,
    sound_baseline,
)
from astra_kernels.jobs.sanitizer import Safety, examine
from astra_kernels.jobs.simulated_safety import examine_simulated
from astra_kernels.jobs.spec import STAGES_FILE, JobSpec, ProgramSpec, WorkloadSpec
from astra_kernels.jobs.time_gate import TimeGate, measured_gate, modelled_gate
from astra_kernels.jobs.timing import Contest
from astra_kernels.languages.cuda.outcome import BuildFailure, Built
from astra_kernels.records.evaluation import (
    Evaluation,
    Measured,
    Passed,
    Rejected,
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
    observed: Observed = field(default_factory=Observed)


class Gates:
    """The gates of one job."""

    def __init__(self, spec: JobSpec, bench: Bench, shop: Workshop) -> None:
        self._spec = spec
        self._bench = bench
        self._shop = shop
        self._public = tuple(w for w in spec.workloads if not w.hidden)
        self._hidden = tuple(w for w in spec.workloads if w.hidden)
        self._facts: dict[str, Any] = {}
        self.sandbox = ""
        self._stages: dict[str, float] = {}
        self._since = time.perf_counter()
        self.safety_s = 0.0

    def evaluate(self) -> Evaluation:
        """Runs the gates and returns the first outcome that ends the job, or Passed.

        Raises:
            UserError: inputs, reference or baseline cannot be used.
            MachineFault: the machine failed.
        """
        spec = self._spec
        with contextlib.suppress(OSError):  # of an earlier try
            (self._shop.job_dir / STAGES_FILE).unlink(missing_ok=True)
        programs = {"subject": spec.subject}
        if spec.candidate is not None and self._needs_baseline():
            programs["baseline"] = spec.baseline
        builds = self._shop.start(programs)
        try:
            first = next(self._bench.batches(self._public), [])
            self._bench.prepare(first)  # while the compiler runs
            self._bench.ask_ahead(first)
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

    def _passed(self, stage: str) -> None:
        """Notes how long a stage took."""
        now = time.perf_counter()
        self._stages[stage] = round(now - self._since, 3)
        self._since = now
        stages = self._shop.job_dir / STAGES_FILE
        # For whoever watches; the verdict does not depend on it.
        with contextlib.suppress(OSError), stages.open("a", encoding="utf-8") as stream:
            stream.write(f"{stage}\n")

    def _needs_baseline(self) -> bool:
        """Whether its errors or times are unknown, or it is measured side by side."""
        if self._hidden or not self._bench.simulated:
            return True
        return any(self._unknown(w) for w in self._public)

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
        self._passed("build")
        known = self._baseline_facts(baseline)
        self._passed("baseline")
        alone = self._spec.candidate is None
        subject = self._subject(built, self._spec.subject, None if alone else known)
        checked, failure = check(self._bench, subject, self._public)
        self._note(checked, built)
        self._passed("correctness")
        if failure is not None:
            return failure
        if alone:
            known = Known(checked.accuracy, _modelled(checked), checked.observed)
        hidden = self._judge_hidden(baseline, subject, known)
        self._passed("hidden")
        if hidden.failure is not None:
            return hidden.failure
        steady = self._steadiness(checked, known, hidden, disassembly)
        if steady.failure is not None:
            return steady.failure
        rival = subject
        if baseline is not None:
            rival = self._subject(baseline, self._spec.baseline, None)
        safety = self._safety(subject, None if baseline is None else rival, hidden)
        self._passed("safety")
        if safety.failure is not None:
            return safety.failure
        found = self._timed((rival, subject), checked, (known, hidden))
        if not isinstance(found, TimeGate):
            return found
        mix, remark = disassembly.result()
        remarks = [*findings, *checked.notes, *steady.findings, *safety.findings, *found.remarks]
        remarks += [remark] if remark else []
        return Passed(
            device="",
            workloads=(*(self._row(w, checked, known, found) for w in self._public), *hidden.rows),
            resources=resources_of(built),
            sass_mix=mix,
            findings=tuple(remarks),
            safety=tuple(safety.checks),
            oracle=checked.oracle,
            stage_s=dict(self._stages),
            geomean=found.geomean,
            weighted_geomean=found.weighted_geomean,
            warm_geomean=found.warm_geomean,
            dropped=hidden.dropped,
            consistency=steady.candidate,
            baseline_consistency=steady.baseline,
        )

    def _judge_hidden(self, baseline: Built | None, subject: Subject, known: Known) -> Hidden:
        """The hidden workloads, on the baseline first: what it fails on counts for nobody."""
        if not self._hidden:
            return Hidden()
        rivals: tuple[Subject, Subject | None] = (subject, None)
        if baseline is not None:
            rivals = (self._subject(baseline, self._spec.baseline, None), subject)
        return judge_hidden(self._bench, rivals, self._hidden, known.accuracy)

    def _steadiness(
        self,
        checked: Checked,
        known: Known,
        hidden: Hidden,
        disassembly: Future[tuple[dict[str, dict[str, int]], str]],
    ) -> Steadiness:
        """Repeatability and batch invariance, from all further calls of this job and an earlier one."""
        axis, alone = self._spec.batch_axis, self._spec.candidate is None
        checked.observed.take(hidden.observed)
        if not alone:
            known.observed.take(hidden.baseline_observed)
        own = checked.observed.summary(axis)
        baseline = own
        if not alone:
            baseline = known.observed.summary(axis, self._spec.baseline_consistency)
        mix = {} if checked.observed.disagreement is None else disassembly.result()[0]
        return weigh(checked.observed, (own, baseline), mix, alone=alone)

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
            program=self._shop.wired(built, program),
            source_root=built.source_root,
            cuda_runtime=str(self._shop.cuda_runtime),
            baseline=None if known is None else known.accuracy,
        )

    def _safety(self, subject: Subject, baseline: Subject | None, hidden: Hidden) -> Safety:
        """The safety gate: the simulated device's checks, or compute-sanitizer if the job asks for it."""
        dropped = frozenset(d.uuid for d in hidden.dropped)
        if self._bench.simulated:
            return examine_simulated(self._bench, subject, partial(self._known, baseline), dropped)
        if not self._spec.safety:
            return Safety()
        safety = examine(self._bench, subject, baseline, dropped)
        self.safety_s = safety.wall_s
        return safety

    def _known(self, baseline: Subject | None) -> Subject | None:
        """The baseline to compare findings with, built now if it was not needed so far; None when judged alone."""
        if baseline is not None or self._spec.candidate is None:
            return baseline
        built = sound_baseline(self._shop.build(self._spec.baseline))
        return self._subject(built, self._spec.baseline, None)

    def _note(self, checked: Checked, built: Built) -> None:
        self._facts.update(checked.facts)
        if checked.sandbox:
            self.sandbox = f"build: {built.sandbox}; children: {checked.sandbox}"

    def _baseline_facts(self, baseline: Built | None) -> Known:
        """The baseline's errors and modelled times, from the job or by running it now."""
        workloads = self._public
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
            known.observed = checked.observed
        return known

    def _timed(
        self, rivals: tuple[Subject, Subject], checked: Checked, before: tuple[Known, Hidden]
    ) -> TimeGate | Evaluation:
        """The time and profile gates."""
        known, hidden = before
        if self._bench.simulated:
            found = modelled_gate(
                self._bench, self._public, checked.launches, known.modelled_us, hidden.kernels
            )
            self._passed("time")
            return found
        workloads = [w for w in self._public if w.timed]
        if not workloads:
            return TimeGate()
        contest = Contest(
            programs=(rivals[0].program, rivals[1].program),
            cuda_runtime=rivals[1].cuda_runtime,
            baseline_accuracy=known.accuracy,
            digests=checked.digests,
        )
        gate = measured_gate(self._bench, self._shop.job_dir, contest, workloads)
        self._passed("time")
        if not isinstance(gate, TimeGate):
            return gate
        self._facts.update(gate.facts)
        if self._spec.profile:
            self._profile(gate, rivals[1], workloads)
            self._passed("profile")
        return gate

    def _profile(self, gate: TimeGate, subject: Subject, workloads: Sequence[WorkloadSpec]) -> None:
        """Counters take longer than all other gates together: of a slower kernel nobody asks for them."""
        timing = gate.geomean
        if isinstance(timing, Measured) and timing.ratio_high < 1.0:
            gate.remarks.append("no profile: slower than the baseline")
            return
        gate.profiles, remark = profile(self._bench, subject, workloads, gate.kernels)
        gate.remarks += [remark] if remark else []

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
            minimum_bytes=workload.minimum_bytes,
            checked=was_checked,
            note="" if was_checked else _NOT_CHECKED,
            timing=times.timings.get(workload.uuid),
            warm=times.warm.get(workload.uuid),
            chain=times.chains.get(workload.uuid),
            profiles=times.profiles.get(workload.uuid, ()),
        )


def _modelled(checked: Checked) -> dict[str, float]:
    """Modelled times of every call that could be modelled."""
    calls = {uuid: modelled_call(launches) for uuid, launches in checked.launches.items()}
    return {uuid: call.us for uuid, call in calls.items() if call is not None}
