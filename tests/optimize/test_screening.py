"""A round with a screening device: what it turns away, mends and ranks before anything is judged on the other."""

import pytest

from astra_kernels.protocols import Refusal
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.canonical import canonical
from astra_kernels.records.evaluation import (
    BuildFailed,
)
from astra_kernels.records.run import Budget
from tests.optimize.stand_ins import Menders, Roles, Table, crashed, incorrect, optimizer, passed


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


def judged_in(history):
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
