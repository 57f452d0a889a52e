"""The loop with real roles' protocols and an evaluator that answers from a table: order, budgets, resume, second looks."""

import os
import signal
import threading

import pytest
from pydantic import TypeAdapter

from astra_kernels.errors import BudgetSpent, MachineFault, ProblemError
from astra_kernels.protocols import Refusal
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import (
    BuildFailed,
    Measured,
    Passed,
)
from astra_kernels.records.plan import Plan
from astra_kernels.records.run import Budget, Event
from astra_kernels.records.workload import Workload
from astra_kernels.search import Beam
from tests.optimize.stand_ins import Menders, Roles, Table, incorrect, kinds, optimizer, passed


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
        (Budget(rounds=1), "1 round done", 2),
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
