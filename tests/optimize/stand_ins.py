"""Stand-ins for what the loop is made of: an evaluator that answers from a table, and roles that follow a script."""

import itertools
from dataclasses import dataclass, field

from astra_kernels.optimize import Optimizer
from astra_kernels.protocols import Refusal
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.definition import AxisVar, Definition, OutputSpec
from astra_kernels.records.evaluation import (
    Crashed,
    Incorrect,
    Modelled,
    Passed,
)
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.plan import Diagnosis, Plan
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import Budget, RunConfig, RunStarted
from astra_kernels.records.solution import SolutionSpec
from astra_kernels.records.workload import Workload
from astra_kernels.rounds import Team
from astra_kernels.search import Linear

BASELINE = Candidate(sources={"k.cu": "0"})
WORKLOAD = Workload(uuid="w", axes={"n": 1}, inputs={})


def problem():
    return Problem(
        definition=Definition(
            name="p",
            axes={"n": AxisVar()},
            inputs={},
            outputs={"y": OutputSpec(shape=("n",), dtype="float32")},
        ),
        workloads=(WORKLOAD,),
        reference="def run(): ...",
        spec=SolutionSpec(entry_point="k.cu::k", binding="c"),
        baseline=BASELINE,
    )


def passed(gain, error=0.1):
    return Passed(
        device="sim:h200",
        workloads=(),
        resources=(),
        geomean=Modelled(baseline_us=gain, candidate_us=1.0, gain=gain, model_error=error),
    )


def incorrect(workload):
    return Incorrect(
        device="sim:h200",
        workload=workload,
        axes={},
        output="y",
        index=(0,),
        expected="1",
        got="2",
        rule="max ulp",
        mismatches=1,
        elements=1,
    )


def crashed():
    return Crashed(device="sim:h200", stage="correctness", detail="code 801")


@dataclass
class Table:
    """Evaluations by the candidate's text; what is asked for is kept."""

    answers: dict
    asked: list = field(default_factory=list)

    def evaluate(self, candidate, workloads, seed, effort):
        assert effort == ("search" if seed == 0 else "confirm")
        text = candidate.sources["k.cu"]
        self.asked.append((text, tuple(w.uuid for w in workloads), seed))
        answer = self.answers.get(text, passed(1.0))
        if callable(answer):
            answer = answer(workloads, seed)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def evaluate_all(self, candidates, workloads, seed, effort):
        return (self.evaluate(c, workloads, seed, effort) for c in candidates)


@dataclass
class Roles:
    """All four roles; each round writes the next texts of the script, a str, a list of them, or a Refusal."""

    script: list
    proposals: tuple = ()
    parents: list = field(default_factory=list)

    def propose(self, problem):
        return self.proposals

    def diagnose(self, candidate, evaluation):
        return Diagnosis(subject=candidate.id, bottleneck="unknown", summary="?", evidence=())

    def plan(self, parent, diagnosis, history):
        self.parents.append((parent.sources["k.cu"], diagnosis is not None))
        step = history.rounds_ended
        if step >= len(self.script):
            return ()
        return (
            Plan(
                id=str(step),
                parent=parent.id,
                technique="t",
                hypothesis="h",
                predicted_gain=1.1,
                risk="r",
            ),
            Plan(
                id=f"{step}b",
                parent=parent.id,
                technique="u",
                hypothesis="h",
                predicted_gain=1.1,
                risk="r",
            ),
        )

    def write(self, plan, parent, history):
        step = self.script[history.rounds_ended]
        if isinstance(step, Refusal):
            return step if plan.technique == "t" else (Candidate(sources={"k.cu": "second plan"}),)
        texts = [step] if isinstance(step, str) else step
        return tuple(Candidate(sources={"k.cu": t}, parent=parent.id) for t in texts)

    def repair(self, plan, failed, evaluation, history):
        return Refusal("cannot be mended")


def optimizer(roles, table, *, budget=None, events=None, strategy=None, **changes):
    budget = budget or Budget(rounds=5)
    config = RunConfig(device="sim:h200", budget=budget, **changes)
    strategy = strategy or Linear(budget, keep_best=config.keep_best)
    events = [] if events is None else events
    if not events:
        events.append(
            RunStarted(
                at="t",
                elapsed_s=0,
                config=config,
                problem="p",
                problem_digest="d",
                astra_version="0",
            )
        )
    return Optimizer(
        problem=problem(),
        config=config,
        team=Team(roles, roles, roles, roles, strategy),
        evaluator=table,
        journal=Journal(History.fold(events), events.append),
        fresh_seed=itertools.count(1000).__next__,
    )


def kinds(events):
    return [e.event for e in events]


class Menders(Roles):
    """Roles that mend what fails, by adding a `+` to it."""

    def repair(self, plan, failed, evaluation, history):
        assert not isinstance(evaluation, Passed)
        return Candidate(sources={"k.cu": failed.sources["k.cu"] + "+"}, parent=failed.id)
