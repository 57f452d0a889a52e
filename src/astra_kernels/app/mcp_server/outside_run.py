"""A run in which an agent outside decides: what it asks is judged and appended to an ordinary log.

Every set of sources is judged once by each verb. To ask again brings the recorded verdict, so that nobody draws hidden
workloads, or times, until they suit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.agents.rules.profiling import RuleProfiler
from astra_kernels.app.compose import (
    Whereabouts,
    evaluator_at,
    fresh_seed,
    judge_elsewhere,
    testing_agent,
)
from astra_kernels.app.mcp_server.call import Call
from astra_kernels.app.runs import PROBLEM, Run, read_run, write_best
from astra_kernels.baseline import lay_groundwork, require_sound_baseline
from astra_kernels.errors import MachineFault, UserError
from astra_kernels.evaluation.confirm import Judge, second_look
from astra_kernels.evaluation.hosted import HostedEvaluator, Pulse
from astra_kernels.evaluation.redaction import redacted
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import conclude
from astra_kernels.records.evaluation import Evaluation, Passed
from astra_kernels.records.history import History, gain
from astra_kernels.records.journal import Journal
from astra_kernels.records.plan import Diagnosis, Plan
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import (
    BaselineEvaluated,
    CandidateEvaluated,
    CandidateScreened,
    Diagnosed,
    MachineFaulted,
    RoundEnded,
    RunFinished,
    WinnerRemeasured,
    WorkloadsProposed,
)
from astra_kernels.records.wins import beats_baseline
from astra_kernels.records.workload import Workload
from astra_kernels.store import RunStore


@dataclass(frozen=True)
class Verdict:
    """An evaluation, and whether it was on record."""

    evaluation: Evaluation
    recorded: bool


@dataclass
class OutsideRun:
    """One problem on one device, open for an agent."""

    directory: Path
    problem: Problem
    journal: Journal
    evaluator: HostedEvaluator
    confirmations: int
    """Candidates that may get a second look."""
    elsewhere: Judge | None = None

    @property
    def history(self) -> History:
        """What has happened so far."""
        return self.journal.history

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.directory.name

    @property
    def seed(self) -> int:
        """The seed of public inputs."""
        assert self.history.config is not None, "a run begins with its configuration"
        return self.history.config.seed

    @property
    def confirmations_left(self) -> int:
        """How many more candidates may get a second look."""
        return self.confirmations - len({r.candidate for r in self.history.remeasured})

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """All public workloads: the problem's, and those of the testing agent that count."""
        return (*self.problem.workloads, *self.history.accepted_workloads)

    def lay_ground(self, call: Call) -> None:
        """Judge the baseline, on what the testing agent proposes as well.

        Raises:
            ProblemError: the baseline fails.
            MachineFault: the machine failed.
        """
        call.begin("judging the baseline")
        baseline = self.problem.baseline
        found = lay_groundwork(
            self.problem, testing_agent().propose(self.problem), lambda w: self._judge(baseline, w)
        )
        self.journal.log(
            WorkloadsProposed,
            accepted=found.accepted,
            refused=found.refused,
            evaluations=found.disagreements,
        )
        self.journal.log(BaselineEvaluated, candidate=baseline, evaluation=found.evaluation)
        require_sound_baseline(self.problem, found.evaluation)

    def candidate(self, identifier: str) -> Candidate:
        """A candidate that was judged before, or the baseline, by its identifier or as `baseline`.

        Raises:
            UserError: this run has none of that name.
        """
        known = {c.id: c for c in (s.candidate for s in self.history.screened)}
        known |= {a.candidate.id: a.candidate for a in self.history.attempts}
        baseline = self.problem.baseline
        known |= {baseline.id: baseline, "baseline": baseline}
        if identifier not in known:
            raise UserError(f"no candidate {identifier!r} in this run; verify or bench it first")
        return known[identifier]

    def verify(self, candidate: Candidate, plan: Plan, call: Call) -> Verdict:
        """Judge without timing; of what fails nothing more is asked.

        Raises:
            UserError: the run has ended.
            MachineFault: the machine failed.
        """
        known = self._benched(candidate) or self._verified(candidate)
        if known is not None:
            return Verdict(known, recorded=True)
        self._require_open()
        call.begin(f"verifying {candidate.id}")
        untimed = tuple(w.model_copy(update={"timed": False}) for w in self.workloads)
        evaluation = self._judge(candidate, untimed)
        if isinstance(evaluation, Passed):
            number = self.history.round
            self.journal.log(
                CandidateScreened,
                round=number,
                plan=plan,
                candidate=candidate,
                evaluation=evaluation,
            )
        else:
            self._log(candidate, plan, evaluation)
        return Verdict(evaluation, recorded=False)

    def bench(self, candidate: Candidate, plan: Plan, call: Call) -> Verdict:
        """Judge and time.

        Raises:
            UserError: the run has ended.
            MachineFault: the machine failed.
        """
        known = self._benched(candidate)
        if known is not None:
            return Verdict(known, recorded=True)
        self._require_open()
        call.begin(f"timing {candidate.id}")
        evaluation = self._judge(candidate, self.workloads)
        self._log(candidate, plan, evaluation)
        return Verdict(evaluation, recorded=False)

    def diagnose(self, candidate: Candidate) -> tuple[Diagnosis, Passed]:
        """What limits the baseline or a candidate, from the counters of its bench.

        Raises:
            UserError: it was not benched, or did not pass.
        """
        evaluation = self.history.evaluation_of(candidate.id)
        if not isinstance(evaluation, Passed):
            wrong = "was not benched" if evaluation is None else "did not pass"
            raise UserError(f"{candidate.id} {wrong}: counters come with a bench that passes")
        known = next((d for d in self.history.diagnoses if d.subject == candidate.id), None)
        if known is not None:
            return known, evaluation
        diagnosis = RuleProfiler().diagnose(candidate, evaluation)
        if self.history.finished is None:
            self.journal.log(Diagnosed, round=self.history.round, diagnosis=diagnosis)
        return diagnosis, evaluation

    def confirm(self, candidate: Candidate, call: Call) -> tuple[WinnerRemeasured, bool]:
        """The second look at a candidate that passed its bench, and whether it was on record.

        Raises:
            UserError: it has not passed a bench, or no second look is left.
            MachineFault: the machine failed.
        """
        known = next((r for r in self.history.remeasured if r.candidate == candidate.id), None)
        if known is not None:
            return known, True
        self._require_open()
        if gain(self._benched(candidate)) is None:
            raise UserError(f"{candidate.id}: only what passed bench, with a time, is confirmed")
        if self.confirmations_left <= 0:
            raise UserError(
                f"all {self.confirmations} second looks of this run are used up: finish it; "
                "whoever started the server can allow more with --confirmations"
            )
        call.begin(f"second look at {candidate.id}")
        with self._faults_noted(candidate):
            look = second_look(
                self.problem, candidate, self.workloads, self._judge_anew, self.elsewhere
            )
        assert look.evaluation is not None, "a fault of the machine is raised"
        refuted = conclude(look).verdict == "refuted"
        holds = beats_baseline(look.evaluation) and not refuted
        self.journal.log(WinnerRemeasured, candidate=candidate.id, holds=holds, **vars(look))
        return self.history.remeasured[-1], False

    def finish(self, reason: str) -> Path | None:
        """End the run with the fastest that held in its second look; returns the directory of its files."""
        if self.history.finished is None:
            held = [r for r in self.history.remeasured if r.holds]
            best = max(held, key=lambda r: gain(r.evaluation) or 0.0, default=None)
            chosen = None if best is None else best.candidate
            self.journal.log(RunFinished, reason=reason, best=chosen)
        return write_best(Run(self.directory, self.problem, self.history))

    def _require_open(self) -> None:
        if self.history.finished is not None:
            raise UserError(f"run {self.name} has ended; load the problem again for a new one")

    def _benched(self, candidate: Candidate) -> Evaluation | None:
        own = (a.evaluation for a in self.history.attempts if a.candidate.id == candidate.id)
        return next(own, None)

    def _verified(self, candidate: Candidate) -> Evaluation | None:
        own = (s.evaluation for s in self.history.screened if s.candidate.id == candidate.id)
        return next(own, None)

    def _judge(self, candidate: Candidate, workloads: tuple[Workload, ...]) -> Evaluation:
        """As a search is told: of hidden workloads the kinds only."""
        with self._faults_noted(candidate):
            return self.evaluator.evaluate(candidate, workloads, self.seed, "search")

    def _judge_anew(self, candidate: Candidate, workloads: tuple[Workload, ...]) -> Evaluation:
        """With the effort and the seeds of a second look, told as to a search: the agent goes on after it."""
        return redacted(self.evaluator.evaluate(candidate, workloads, fresh_seed(), "confirm"))

    @contextmanager
    def _faults_noted(self, candidate: Candidate) -> Iterator[None]:
        try:
            yield
        except MachineFault as fault:
            self.journal.log(MachineFaulted, candidate=candidate.id, detail=str(fault))
            raise

    def _log(self, candidate: Candidate, plan: Plan, evaluation: Evaluation) -> None:
        """An attempt is a round of its own."""
        number = self.history.round
        self.journal.log(
            CandidateEvaluated,
            round=number,
            plan=plan,
            candidate=candidate,
            evaluation=evaluation,
        )
        self.journal.log(RoundEnded, round=number)


@contextmanager
def opened(
    directory: Path, where: Whereabouts, confirmations: int, pulse: Pulse
) -> Iterator[OutsideRun]:
    """The run that was started in `directory`; nobody else writes to it meanwhile.

    Raises:
        RunError: another process works on it.
        MachineFault: there is no room for a scratch directory.
    """
    store = RunStore.open(directory)
    with store.locked():
        run = read_run(directory)
        config = run.history.config
        assert config is not None, "read_run refuses such a log"
        with evaluator_at(
            where, run.problem, config.device, directory / PROBLEM, safety=True, pulse=pulse
        ) as evaluator:
            yield OutsideRun(
                directory=directory,
                problem=run.problem,
                journal=Journal(run.history, store.append),
                evaluator=evaluator,
                confirmations=confirmations,
                elsewhere=judge_elsewhere(evaluator, where, config.device),
            )
