"""The loop with real roles' protocols and an evaluator that answers from a table: order, budgets, resume, second looks."""

import itertools
import os
import signal
import threading
from dataclasses import dataclass, field

import pytest
from pydantic import TypeAdapter

from astra_kernels.errors import BudgetSpent, MachineFault, ProblemError
from astra_kernels.optimize import Optimizer
from astra_kernels.protocols import Refusal
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.canonical import canonical
from astra_kernels.records.definition import AxisVar, Definition, OutputSpec
from astra_kernels.records.evaluation import (
    BuildFailed,
    Crashed,
    Incorrect,
    Measured,
    Modelled,
    Passed,
)
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.plan import Diagnosis, Plan
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import Budget, Event, RunConfig, RunStarted
from astra_kernels.records.solution import SolutionSpec
from astra_kernels.records.workload import Workload
from astra_kernels.rounds import Team
from astra_kernels.search import Beam, Linear

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


def test_a_whole_run_in_order():
    events = []
    table = Table({"a": passed(1.5), "b": passed(1.3)})
    history = optimizer(Roles(["a", "b"]), table, budget=Budget(rounds=2), events=events).run()
    assert kinds(events) == [
        "run_started", "workloads_proposed", "baseline_evaluated",
        "diagnosed", "planned", "candidate_evaluated", "round_ended",
        "diagnosed", "planned", "candidate_evaluated", "round_ended",
        "winner_remeasured", "run_finished",
    ]  # fmt: skip
    assert history.finished.best == Candidate(sources={"k.cu": "a"}).id
    assert table.asked[-1] == ("a", ("w",), 1000), "the winner is judged again with a fresh seed"


def test_the_best_is_kept_or_replaced_as_in_the_paper():
    answers = {"a": passed(1.5), "b": BuildFailed(device="d", messages=())}
    kept = Roles(["a", "b", "c"])
    optimizer(kept, Table(answers), budget=Budget(rounds=3)).run()
    assert [p for p, _ in kept.parents] == ["0", "a", "a"]
    replaced = Roles(["a", "b", "c"])
    optimizer(replaced, Table(answers), budget=Budget(rounds=3), keep_best=False).run()
    assert replaced.parents == [("0", True), ("a", True), ("b", False)]


def test_a_baseline_that_fails_is_refused_before_any_candidate():
    events = []
    with pytest.raises(ProblemError, match=r"y\[0\] is 2, expected 1.*reference.py is wrong"):
        optimizer(Roles(["a"]), Table({"0": incorrect("w")}), events=events).run()
    assert kinds(events) == ["run_started", "workloads_proposed", "baseline_evaluated"]


def test_a_proposal_counts_only_when_the_baseline_agrees():
    def baseline(workloads, seed):
        bad = [w.uuid for w in workloads if w.uuid == "bad"]
        return incorrect("bad") if bad else passed(1.0)

    proposals = tuple(
        Workload(uuid=u, axes={"n": 2}, inputs={}, timed=False) for u in ("good", "bad")
    )
    events = []
    table = Table({"0": baseline})
    history = optimizer(
        Roles(["a"], proposals), table, events=events, budget=Budget(rounds=1)
    ).run()
    assert [w.uuid for w in history.accepted_workloads] == ["good"]
    refused = next(e for e in events if e.event == "workloads_proposed").refused
    assert list(refused) == ["bad"]
    assert ("a", ("w", "good"), 0) in table.asked, (
        "accepted proposals are checked with every candidate"
    )


def test_a_refused_plan_gives_way_to_the_next():
    events = []
    optimizer(Roles([Refusal("no")]), Table({}), events=events, budget=Budget(rounds=1)).run()
    assert [e.reason for e in events if e.event == "coding_refused"] == ["no"]
    assert [e.candidate.sources["k.cu"] for e in events if e.event == "candidate_evaluated"] == [
        "second plan"
    ]


@pytest.mark.parametrize(
    ("budget", "reason", "attempts"),
    [
        (Budget(rounds=1), "1 rounds done", 2),
        (Budget(rounds=9, candidates=3), "budget of 3 candidates used", 3),
        (Budget(rounds=9), "no plan left to try", 4),
        (Budget(rounds=9, seconds=1e-9), "budget of 1e-09 s used", 0),
    ],
)
def test_budgets(budget, reason, attempts):
    history = optimizer(Roles([["a", "b"], ["c", "d"]]), Table({}), budget=budget).run()
    assert (history.finished.reason, len(history.attempts)) == (reason, attempts)


def test_no_improvement_is_an_honest_end():
    history = optimizer(Roles(["a"]), Table({"a": passed(1.05)}), budget=Budget(rounds=1)).run()
    assert history.finished.best is None
    assert history.remeasured == []


def test_a_winner_that_does_not_hold_gives_way_to_the_next():
    def lucky(workloads, seed):
        return passed(2.0) if seed == 0 else passed(1.0)

    table = Table({"lucky": lucky, "honest": passed(1.5)})
    history = optimizer(Roles(["lucky", "honest"]), table, budget=Budget(rounds=2)).run()
    assert [r.holds for r in history.remeasured] == [False, True]
    assert history.finished.best == Candidate(sources={"k.cu": "honest"}).id


def measured(low, high):
    timing = Measured(
        baseline_us=1.0,
        candidate_us=1.0,
        ratio=(low + high) / 2,
        ratio_low=low,
        ratio_high=high,
        rounds=20,
        baseline_spread=0.01,
        candidate_spread=0.01,
    )
    return Passed(device="cuda:0", workloads=(), resources=(), geomean=timing)


def test_a_measured_winner_is_looked_at_with_a_control_of_its_own():
    events = []
    even = measured(0.99, 1.01)
    table = Table({"fast": measured(1.2, 1.3), "0": even})
    history = optimizer(Roles(["fast"]), table, events=events, budget=Budget(rounds=1)).run()
    looked = [(text, names, seed) for text, names, seed in table.asked if seed != 0]
    assert [text for text, _, _ in looked] == ["fast", "0"]
    assert looked[0][2] != looked[1][2], "each job has a seed of its own"
    (look,) = history.remeasured
    assert look.control == even
    assert (look.holds, look.elsewhere, look.trouble) == (True, None, ())
    assert TypeAdapter(Event).validate_json(look.model_dump_json()) == look


def test_what_a_second_device_refutes_does_not_win():
    table = Table({"fast": measured(1.2, 1.3), "0": measured(0.99, 1.01)})
    run = optimizer(Roles(["fast"]), table, budget=Budget(rounds=1))
    run.elsewhere = lambda candidate, workloads: incorrect("w")
    history = run.run()
    assert history.finished.best is None
    assert history.remeasured[0].elsewhere.outcome == "incorrect"


def test_a_run_killed_anywhere_resumes_to_the_same_end():
    """Cut the log after every event in turn; the resumed run must end as the undisturbed one did."""
    roles = [["a", "b"], Refusal("no"), "c"]
    answers = {"a": passed(1.4), "b": incorrect("w"), "c": passed(1.2)}
    whole = []
    expected = optimizer(Roles(roles), Table(answers), events=whole, budget=Budget(rounds=3)).run()
    for cut in range(1, len(whole) + 1):
        events = list(whole[:cut])
        table = Table(answers)
        again = optimizer(Roles(roles), table, events=events, budget=Budget(rounds=3)).run()
        assert again.finished.best == expected.finished.best
        assert [a.candidate.id for a in again.attempts] == [
            a.candidate.id for a in expected.attempts
        ]
        judged_again = {t for t, _, seed in table.asked if seed == 0 and t != "0"}
        judged_before = {
            e.candidate.sources["k.cu"] for e in whole[:cut] if e.event == "candidate_evaluated"
        }
        assert not judged_again & judged_before, "only the job in flight is lost"


def test_time_spent_before_counts_after_a_resume():
    events = []
    run = optimizer(
        Roles(["a"] * 9), Table({}), events=events, budget=Budget(rounds=9, seconds=1000)
    )
    run.run()
    late = [e.model_copy(update={"elapsed_s": 999.9999}) for e in events[:3]]
    resumed = optimizer(
        Roles([["x"]] * 9), Table({}), events=late, budget=Budget(rounds=9, seconds=1000)
    )
    resumed.journal._before_s += 0.001
    assert "budget of 1000 s" in resumed.run().finished.reason


def test_a_machine_fault_is_charged_to_nobody_and_can_be_resumed():
    events = []
    table = Table({"a": MachineFault("device lost")})
    with pytest.raises(MachineFault):
        optimizer(Roles(["a"]), table, events=events, budget=Budget(rounds=1)).run()
    assert kinds(events)[-1] == "machine_faulted"
    table.answers["a"] = passed(1.5)
    history = optimizer(Roles(["a"]), table, events=events, budget=Budget(rounds=1)).run()
    assert history.finished.best is not None


class Menders(Roles):
    """Roles that mend what fails, by adding a `+` to it."""

    def repair(self, plan, failed, evaluation, history):
        assert not isinstance(evaluation, Passed)
        return Candidate(sources={"k.cu": failed.sources["k.cu"] + "+"}, parent=failed.id)


@pytest.mark.parametrize(("repairs", "texts"), [(0, "a"), (1, "a a+"), (3, "a a+ a++")])
def test_what_failed_is_mended_in_the_same_round(repairs, texts):
    answers = {"a": incorrect("w"), "a+": incorrect("w"), "a++": passed(1.5)}
    run = optimizer(Menders(["a"]), Table(answers), budget=Budget(rounds=1), repairs=repairs)
    history = run.run()
    assert [a.candidate.sources["k.cu"] for a in history.attempts] == texts.split()
    assert {a.round for a in history.attempts} == {1}
    assert (history.finished.best is not None) == (repairs == 3)


def test_a_run_with_repairs_killed_anywhere_resumes_to_the_same_end():
    answers = {"a": incorrect("w"), "a+": passed(1.4), "b": incorrect("w"), "b+": incorrect("w")}
    script, budget = [["a", "b"], ["a", "c"]], Budget(rounds=2)
    whole = []
    optimizer(Menders(script), Table(answers), events=whole, budget=budget, repairs=2).run()
    texts = [e.candidate.sources["k.cu"] for e in whole if e.event == "candidate_evaluated"]
    assert texts == ["a", "b", "a+", "b+", "b++", "c"], (
        "and what was judged before is not judged again"
    )
    for cut in range(1, len(whole) + 1):
        events = list(whole[:cut])
        optimizer(Menders(script), Table(answers), events=events, budget=budget, repairs=2).run()
        assert [e.candidate for e in events if e.event == "candidate_evaluated"] == [
            e.candidate for e in whole if e.event == "candidate_evaluated"
        ]


def test_a_killed_run_repairs_no_deeper_than_an_undisturbed_one():
    answers = {text: incorrect("w") for text in ("a", "a+", "a++", "a+++", "a++++")}
    whole = []
    run = optimizer(
        Menders(["a"]), Table(answers), events=whole, budget=Budget(rounds=1), repairs=2
    )
    assert texts_by_round(run.run()) == [["a", "a+", "a++"]]
    for cut in range(1, len(whole)):
        events = list(whole[:cut])
        again = optimizer(
            Menders(["a"]), Table(answers), events=events, budget=Budget(rounds=1), repairs=2
        )
        assert texts_by_round(again.run()) == [["a", "a+", "a++"]], whole[cut].event


def test_a_parent_is_not_left_because_its_coder_could_not_be_reached():
    class Unreachable(Branches):
        def write(self, plan, parent, history):
            if history.rounds_ended == 0:
                return Refusal("no usable answer", unanswered=True)
            return super().write(plan, parent, history)

    budget = Budget(rounds=2)
    run = optimizer(Unreachable([]), Table({}), budget=budget, strategy=Beam(budget))
    history = run.run()
    assert history.finished.reason == "2 rounds done"
    assert [r.unanswered for r in history.refusals] == [True] * 3
    assert history.attempts


class Thrifty(Roles):
    """Roles whose model may not be asked for a certain text."""

    def write(self, plan, parent, history):
        written = super().write(plan, parent, history)
        if any(c.sources["k.cu"] == "dear" for c in written):
            raise BudgetSpent("budget of 10 tokens used")
        return written


def test_a_spent_budget_ends_the_run_with_the_best_so_far():
    history = optimizer(Thrifty(["a", "dear", "b"]), Table({"a": passed(1.5)})).run()
    assert history.finished.reason == "budget of 10 tokens used"
    assert history.finished.best == Candidate(sources={"k.cu": "a"}).id
    assert [a.candidate.sources["k.cu"] for a in history.attempts] == ["a"]


def texts_by_round(history):
    rounds = {}
    for attempt in history.attempts:
        rounds.setdefault(attempt.round, []).append(attempt.candidate.sources["k.cu"])
    return list(rounds.values())


def test_several_plans_are_carried_out_in_one_round():
    class Two(Roles):
        def write(self, plan, parent, history):
            return tuple(
                Candidate(sources={"k.cu": f"{plan.id}{k}"}, parent=parent.id) for k in "xyz"
            )

    run = optimizer(
        Two(["", ""]), Table({}), budget=Budget(rounds=1), plans_per_round=2, candidates_per_round=5
    )
    assert texts_by_round(run.run()) == [["0x", "0bx", "0y", "0by", "0z"]]


class Branches(Roles):
    """Writes three descendants of each parent, of three techniques; nothing from what ends with a `c`."""

    def plan(self, parent, diagnosis, history):
        name = parent.sources["k.cu"]
        self.parents.append(name)
        return tuple(
            Plan(
                id=f"r{history.rounds_ended + 1}-{parent.id}-{technique}",
                parent=parent.id,
                technique=technique,
                hypothesis="h",
                predicted_gain=1.1,
                risk="r",
            )
            for technique in ("a", "b", "c")
        )

    def write(self, plan, parent, history):
        text = parent.sources["k.cu"] + plan.technique
        known = {a.candidate.sources["k.cu"] for a in history.attempts}
        if parent.sources["k.cu"].endswith("c") or text in known:
            return Refusal("no more")
        return (Candidate(sources={"k.cu": text}, parent=parent.id),)


def beam(answers, **budget):
    budget = Budget(**budget)
    roles = Branches([])
    changes = {"strategy": Beam(budget, width=2), "plans_per_round": 6, "candidates_per_round": 6}
    history = optimizer(roles, Table(answers), budget=budget, **changes).run()
    return history, roles.parents


def test_a_beam_goes_on_from_the_fastest_of_each_kind():
    answers = {"0a": passed(1.3), "0b": passed(1.2), "0c": passed(1.4)}
    history, parents = beam(answers, rounds=3)
    assert parents[:3] == ["0", "0c", "0a"]
    assert parents[3:] == ["0a", "0b"], "what brings nothing more is left"
    assert texts_by_round(history) == [
        ["0a", "0b", "0c"],
        ["0aa", "0ab", "0ac"],
        ["0ba", "0bb", "0bc"],
    ]


def test_a_beam_ends_when_nothing_is_left():
    history, _ = beam({"0c": passed(1.4)}, rounds=50)
    assert history.finished.reason == "nothing left to try"
    assert len(history.attempts) == 3


def on_screen(outcomes, *, timed=False):
    """Judges by a table on a simulated device; what is asked for is kept."""
    asked = []

    def screen(candidates, workloads):
        assert not candidates or any(w.timed for w in workloads) == timed
        for candidate in candidates:
            asked.append(candidate.sources["k.cu"])
            yield outcomes.get(asked[-1], passed(1.0))

    return screen, asked


def test_what_fails_on_the_screening_device_is_mended_before_anything_is_judged_on_the_other():
    screen, seen = on_screen({"a": incorrect("w"), "c": crashed()})
    table = Table({})
    run = optimizer(Menders([["a", "b", "c"]]), table, budget=Budget(rounds=1), screen="sim:h200")
    run.screen = screen
    history = run.run()
    assert seen == ["a", "b", "c", "a+"]
    assert [t for t, _, seed in table.asked if t != "0"] == ["b", "c", "a+"], (
        "a crash may be the simulator's"
    )
    assert [(a.candidate.sources["k.cu"], a.evaluation.outcome) for a in history.attempts] == [
        ("a", "incorrect"),
        ("b", "passed"),
        ("c", "passed"),
        ("a+", "passed"),
    ]


def test_what_fails_on_the_screening_device_counts_for_the_budget():
    texts = ["a", "b", "c", "d"]
    screen, seen = on_screen(dict.fromkeys(texts, incorrect("w")))
    budget = Budget(rounds=1, candidates=2)
    run = optimizer(
        Menders([texts]), Table({}), budget=budget, screen="sim:h200", candidates_per_round=4
    )
    run.screen = screen
    history = run.run()
    assert seen == ["a", "b"]
    assert [a.candidate.sources["k.cu"] for a in history.attempts] == ["a", "b"]
    assert history.finished.reason == "budget of 2 candidates used"


class Variants(Roles):
    """Writes the script's next texts for each of its two plans, with the plan's technique before."""

    def write(self, plan, parent, history):
        step = self.script[history.rounds_ended]
        return tuple(
            Candidate(sources={"k.cu": plan.technique + t}, parent=parent.id) for t in step
        )


def shortlisted(gains, outcomes=None, *, events=None, table=None):
    """A round of two plans with `len(gains)` variants each, of which four are judged."""
    modelled = {"t" + name: passed(g) for name, g in gains.items()}
    modelled |= {"u" + name: passed(2 / g) for name, g in gains.items()}
    screen, seen = on_screen(modelled | (outcomes or {}), timed=True)
    run = optimizer(
        Variants([list(gains)]), table or Table({}), budget=Budget(rounds=1), events=events,
        screen="sim:h200", plans_per_round=2, candidates_per_round=4,
    )  # fmt: skip
    run.screen = screen
    return run, seen


def judged_in(history, device="sim:h200"):
    return [a.candidate.sources["k.cu"] for a in history.attempts]


def test_of_each_plan_the_fastest_on_the_screening_device_are_judged():
    run, seen = shortlisted({"a": 1.1, "b": 0.9, "c": 1.3})
    history = run.run()
    assert seen == ["ta", "ua", "tb", "ub", "tc", "uc"]
    assert judged_in(history) == ["tc", "ub", "ta", "ua"]
    assert [s.candidate.sources["k.cu"] for s in history.screened] == seen, "nothing is lost"


def test_what_fails_on_the_screening_device_leaves_its_place_to_a_slower_one():
    wrong = incorrect("w")
    run, _ = shortlisted({"a": 1.1, "b": 0.9, "c": 1.3}, {"tc": wrong, "ub": wrong})
    assert judged_in(run.run()) == ["ub", "tc", "ta", "ua", "tb", "uc"]


def test_as_many_as_a_round_judges_are_judged_untimed_on_the_screening_device():
    screen, seen = on_screen({"ta": passed(1.0), "ub": passed(3.0)})
    run, _ = shortlisted({"a": 1.0, "b": 1.0})
    run.screen = screen
    history = run.run()
    assert (judged_in(history), history.screened) == (seen, [])


@pytest.mark.parametrize("cut", range(4, 17))
def test_a_round_that_is_cut_anywhere_chooses_the_same(cut):
    gains = {"a": 1.1, "b": 0.9, "c": 1.3}
    whole = []
    shortlisted(gains, events=whole)[0].run()
    left = whole[:cut]
    table = Table({})
    run, seen = shortlisted(gains, events=left, table=table)
    run.run()
    assert canonical(left) == canonical(whole)
    known = [e for e in whole[:cut] if e.event == "candidate_screened"]
    assert not {e.candidate.sources["k.cu"] for e in known} & set(seen), "nothing is screened twice"


@pytest.mark.parametrize("repairs", [0, 1, 2])
def test_repairs_are_counted_over_both_devices(repairs):
    screen, _ = on_screen({"a": incorrect("w")})
    failing = BuildFailed(device="cuda:0", messages=())
    table = Table({"a+": failing, "a++": failing, "a+++": failing})
    budget = Budget(rounds=1)
    run = optimizer(Menders(["a"]), table, budget=budget, screen="sim:h200", repairs=repairs)
    run.screen = screen
    texts = [a.candidate.sources["k.cu"] for a in run.run().attempts]
    assert texts == ["a", "a+", "a++"][: repairs + 1]


class Stubborn(Roles):
    """Mends everything into the same text, or refuses; counts how often it is asked."""

    def repair(self, plan, failed, evaluation, history):
        self.parents.append(failed.sources["k.cu"])
        if failed.sources["k.cu"] == "b":
            return Refusal("no")
        return Candidate(sources={"k.cu": "c"}, parent=failed.id)


@pytest.mark.parametrize("screened", [False, True])
def test_a_coder_is_asked_once_to_mend_a_candidate_whatever_it_says(screened):
    texts = ["a", "b", "c"]
    roles = Stubborn([texts])
    run = optimizer(
        roles, Table(dict.fromkeys(texts, incorrect("w"))), budget=Budget(rounds=1), repairs=9
    )
    if screened:
        run.screen, _ = on_screen(dict.fromkeys(texts, incorrect("w")))
    history = run.run()
    assert roles.parents[1:] == texts
    assert [a.candidate.sources["k.cu"] for a in history.attempts] == texts


class Silent(Roles):
    """Does not answer until it is released."""

    released: threading.Event

    def write(self, plan, parent, history):
        self.parents.append(plan.technique)
        if len(self.parents) == 3:  # the parent that was planned for, and both plans
            os.kill(os.getpid(), signal.SIGINT)
        assert self.released.wait(60)
        return super().write(plan, parent, history)


def test_an_interrupt_does_not_wait_for_coders():
    roles = Silent(["a"])
    roles.released = threading.Event()
    events = []
    run = optimizer(roles, Table({}), events=events, plans_per_round=2)
    try:
        with pytest.raises(KeyboardInterrupt):
            run.run()
        assert not roles.released.is_set()
    finally:
        roles.released.set()
    assert kinds(events)[-1] == "planned"
