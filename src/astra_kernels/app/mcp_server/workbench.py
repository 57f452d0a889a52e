"""What the tools work on: the runs that are open, and the one job that may run at a time."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from astra_kernels.agents.llm.briefing.tables import short
from astra_kernels.app.compose import Whereabouts, fresh_seed
from astra_kernels.app.mcp_server.answers import CandidateGiven
from astra_kernels.app.mcp_server.call import Call
from astra_kernels.app.mcp_server.outside_run import OutsideRun, opened
from astra_kernels.app.mcp_server.roots import Roots
from astra_kernels.app.runs import Run, fresh_directory, read_run, start_run
from astra_kernels.devices.opening import require_device
from astra_kernels.errors import AstraError, UserError
from astra_kernels.importers.problem_dir import load_candidate, load_problem
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.plan import Plan
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import RunConfig

_MOST_CHARACTERS = 8_000_000


@dataclass(frozen=True)
class Terms:
    """What whoever starts the server decides, and no agent."""

    roots: Roots
    device: str
    folder: Path = Path("runs")
    """Runs are made here."""
    confirmations: int = 3
    where: Whereabouts = field(default_factory=Whereabouts)


@dataclass
class Workbench:
    """The runs of one server. One call at a time may do work on them; any may read."""

    terms: Terms
    runs: dict[str, OutsideRun] = field(default_factory=dict)
    _call: Call = field(default_factory=Call)
    _held: dict[str, ExitStack] = field(default_factory=dict)
    """What an open run holds: its lock and its scratch directory."""

    def load(self, problem: str, baseline: str | None, call: Call) -> OutsideRun:
        """Start a run: the baseline is built and judged.

        Raises:
            UserError: the problem cannot be used, or lies outside the roots.
            MachineFault: the machine failed.
        """
        call.begin("reading the problem")
        directory = self.terms.roots.allowed(problem)
        named = self._baseline(baseline)
        loaded = load_problem(directory, named)
        for data in loaded.data:
            self.terms.roots.allowed(str(directory / data.path))
        config = RunConfig(
            device=self.terms.device,
            agents="outside",
            strategy="linear",
            candidates_per_round=1,
            memory=False,
            seed=fresh_seed(),
        )
        require_device(config.device)
        target = fresh_directory(loaded.name, self.terms.folder)
        path = start_run(directory, named, config, target).resolve()
        with ExitStack() as opening:
            terms = self.terms
            run = opening.enter_context(opened(path, terms.where, terms.confirmations, self._pulse))
            self._call = call
            run.lay_ground(call)
            self._held[run.name] = opening.pop_all()
        self.runs[run.name] = run
        return run

    def at_work(self, call: Call) -> None:
        """The call whose turn it is hears of the jobs that run from now on."""
        self._call = call

    def run(self, name: str | None) -> OutsideRun:
        """An open run by its name; by default the one that was opened last.

        Raises:
            UserError: there is none.
        """
        if not self.runs:
            raise UserError("no problem is loaded; call load_problem first")
        if name is None:
            return list(self.runs.values())[-1]
        if name not in self.runs:
            raise UserError(f"no run {name!r} is open; open are: {', '.join(self.runs)}")
        return self.runs[name]

    def recorded(self, name: str | None) -> Run:
        """A run to read: an open one by its name, or any by its directory.

        Raises:
            UserError: there is none, or it lies outside the roots.
        """
        if name is None or name in self.runs:
            run = self.run(name)
            return Run(run.directory, run.problem, run.history)
        return read_run(self.terms.roots.allowed(name), words=False)

    def candidate(self, run: OutsideRun, given: CandidateGiven) -> Candidate:
        """The candidate that an agent gives: by text, by path, or by identifier.

        Raises:
            UserError: it cannot be read, is the baseline, or more or less than one of these is given.
        """
        if sum(v is not None for v in (given.sources, given.path, given.id)) != 1:
            raise UserError("candidate: give exactly one of sources, path and id")
        if given.id is not None:
            candidate = run.candidate(given.id)
        else:
            parent = run.candidate(given.parent or "baseline")
            title = short(given.title, 160)
            if given.path is not None:
                candidate = self._from_path(run.problem, parent, given.path)
            else:
                candidate = _from_sources(parent, given.sources or {})
            candidate = candidate.model_copy(update={"title": title or candidate.title})
        if candidate.id == run.problem.baseline.id:
            raise UserError("candidate: these are the baseline's own sources")
        return candidate

    def end(self, run: OutsideRun, reason: str) -> None:
        """Finish a run and let go of it; it can still be read.

        Raises:
            AstraError: what came of it cannot be written.
        """
        with self._held.pop(run.name, ExitStack()):
            run.finish(reason)

    def close(self) -> None:
        """End every run that goes on; the log says why."""
        for run in self.runs.values():
            with suppress(AstraError, OSError):  # then the log ends where it is, as after a kill
                self.end(run, "the agent's session ended")

    def _pulse(self, stages: tuple[str, ...]) -> None:
        self._call.pulse(stages)

    def _baseline(self, given: str | None) -> str | None:
        if given is None:
            return None
        path, mark, function = given.rpartition("::")
        return (
            f"{self.terms.roots.allowed(path if mark else given)}{mark}{function if mark else ''}"
        )

    def _from_path(self, problem: Problem, parent: Candidate, named: str) -> Candidate:
        path = self.terms.roots.allowed(named)
        return load_candidate(problem.model_copy(update={"baseline": parent}), path)


def plan_of(candidate: Candidate, given: CandidateGiven) -> Plan:
    """What the agent says it tries, as a run records it."""
    return Plan(
        id=candidate.id,
        parent=candidate.parent or "",
        technique=short(given.technique, 100) or "outside",
        hypothesis=given.hypothesis,
        predicted_gain=given.predicted_gain,
        risk="",
    )


def _from_sources(parent: Candidate, sources: dict[str, str]) -> Candidate:
    if not sources:
        raise UserError("candidate: sources: give at least one changed file")
    if sum(map(len, sources.values())) > _MOST_CHARACTERS:
        raise UserError(f"candidate: sources: more than {_MOST_CHARACTERS} characters")
    try:
        "".join([*sources, *sources.values()]).encode()
        return Candidate(
            sources={**parent.sources, **sources}, parent=parent.id, title="from sources"
        )
    except UnicodeEncodeError:
        raise UserError("candidate: sources: not UTF-8 text") from None
    except ValidationError as error:
        first = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(f"candidate: sources: {first}") from None
