"""What is concluded from the raw rounds of timing children, and from a profiler's table."""

import dataclasses

import pytest

from astra_kernels.devices.clocks import ClockRecord, ClockSample
from astra_kernels.jobs.claims import ChainReport, TimingReport
from astra_kernels.jobs.ncu import parse_raw_page
from astra_kernels.jobs.timing import Trials
from astra_kernels.jobs.timing_verdict import conclude
from astra_kernels.jobs.wire import Turn
from astra_kernels.records.evaluation import Crashed, Measured, NotEstablished, Quarantined

from .staging import workload

WORKLOAD = workload("w", 64, 4096)  # 1.5 MB: 0.33 us at 4800 GB/s
TURNS = [Turn(1, 0), Turn(2, 0)]


def report(baseline_us=4.0, candidate_us=2.0, *, clock_factor=1.02, rounds=12, **changes):
    wobble = [1 + 0.001 * (i % 3) for i in range(rounds)]
    fields = {
        "rounds": [(baseline_us * w, candidate_us) for w in wobble],
        "ended": [0.01 * i for i in range(rounds)],
        "turns": TURNS,
        "kernels": 1,
        "refused": ["", ""],
        "long_us": [20_000.0, 20_000.0],
    }
    return TimingReport(**{**fields, **changes}), {"0": 0.0205, "1": 0.02 * clock_factor}


def alone(us):
    found, _ = report(rounds=1)
    return dataclasses.replace(found, rounds=[(us,)] * 5)


def concluded(*reports, **changes):
    seen = Trials(reports={"w": list(reports)}, facts={"bandwidth_gb_s": 4800.0}, **changes)
    timed, failure = conclude(seen, [WORKLOAD])
    return failure, timed


def test_a_ratio_with_its_interval():
    failure, timed = concluded(report(), report())
    assert failure is None
    found = timed.timings["w"]
    assert isinstance(found, Measured)
    assert found.ratio == pytest.approx(2, rel=0.002)
    assert found.ratio_low <= found.ratio <= found.ratio_high
    assert (found.rounds, found.discarded) == (24, 0)
    assert timed.geomean().ratio == pytest.approx(found.ratio)
    assert timed.warm_geomean() is None


def test_faster_than_memory_can_be_is_quarantined():
    failure, _ = concluded(report(candidate_us=0.3))
    assert isinstance(failure, Quarantined)
    assert "4800 GB/s" in failure.reason


@pytest.mark.parametrize("factor", [0.4, 2.0])
def test_clocks_that_disagree_are_quarantined(factor):
    failure, _ = concluded(report(), report(clock_factor=factor))
    assert isinstance(failure, Quarantined)
    assert "supervisor's clock" in failure.reason


def test_ratios_that_two_clocks_see_differently_are_quarantined():
    """The events say 2, the supervisor's clock 1.7: each is near enough to the other's time."""
    found, _ = report(long_us=[20_000.0, 10_000.0])
    failure, _ = concluded((found, {"0": 0.0187, "1": 0.011}))
    assert isinstance(failure, Quarantined)
    assert "ratio of long replays" in failure.reason


def test_a_clock_that_never_came_is_quarantined():
    found, _ = report()
    assert isinstance(concluded((found, {}))[0], Quarantined)


def test_separate_processes_that_agree_change_nothing():
    failure, timed = concluded(report(), alone={"w": [alone(4.1), alone(2.0)]})
    assert failure is None
    assert timed.timings["w"].ratio == pytest.approx(2, rel=0.002)


def test_a_baseline_that_is_slower_only_beside_the_candidate_is_quarantined():
    failure, _ = concluded(report(), alone={"w": [alone(2.6), alone(2.0)]})
    assert isinstance(failure, Quarantined)
    assert "separate processes 1.300" in failure.reason


def clocks(*samples):
    return ClockRecord([ClockSample(at, mhz, why) for at, mhz, why in samples])


def test_rounds_under_a_clock_that_is_held_down_are_left_out():
    steady = [(0.01 * k, 1980, "") for k in range(20, 40)]
    record = clocks((0.0, 1980, "hardware slowdown"), *steady)
    failure, timed = concluded(
        report(rounds=40, ended=[0.01 * k for k in range(40)]), clocks=record
    )
    assert failure is None
    found = timed.timings["w"]
    assert (found.rounds, found.discarded) == (34, 6)
    assert timed.remarks == ["the clock was held down at times: hardware slowdown"]


@pytest.mark.parametrize("sample", [(0.05, 1980, "software power cap"), (0.05, 1400, "")])
def test_too_few_steady_rounds_are_no_time(sample):
    record = clocks(sample, (5.0, 1980, ""), (6.0, 1980, ""))
    failure, timed = concluded(report(), clocks=record)
    assert failure is None
    assert isinstance(timed.timings["w"], NotEstablished)
    assert "12 rounds" in timed.timings["w"].reason or "11 rounds" in timed.timings["w"].reason


def test_warm_times_have_a_mean_of_their_own():
    failure, timed = concluded(report(warm=[(3.0, 1.0)] * 5))
    assert failure is None
    assert (timed.warm["w"].cache, timed.warm["w"].ratio) == ("warm", pytest.approx(3))
    assert timed.warm_geomean().ratio == pytest.approx(3)
    assert timed.geomean().ratio == pytest.approx(2, rel=0.002)


def test_a_chain_is_reported_beside_the_times():
    chain = ChainReport(rounds=[(6.0, 4.0, 6.1, 5.0)] * 8, turn=Turn(3, 1))
    failure, timed = concluded(report(chain=chain))
    assert failure is None
    found = timed.chains["w"]
    assert (found.ratio, found.candidate_us, found.candidate_waiting_us) == (
        pytest.approx(1.5), 4.0, 5.0,
    )  # fmt: skip


def test_no_report_is_no_time():
    assert isinstance(concluded()[0], Crashed)


def test_a_baseline_that_cannot_be_captured_has_no_headline():
    failure, timed = concluded(report(refused=["it synchronises", ""]))
    assert failure is None
    assert isinstance(timed.timings["w"], NotEstablished)
    assert "it synchronises" in timed.timings["w"].reason
    assert isinstance(timed.geomean(), NotEstablished)


def test_other_work_on_the_gpu_is_no_time():
    failure, timed = concluded(report(), busy="other processes compute on the GPU: 7, trainer")
    assert failure is None
    assert "trainer" in timed.timings["w"].reason


def test_a_profilers_table_in_base_units():
    output = (
        "==PROF== Connected to process 7\n"
        '"ID","Kernel Name","Block Size","Grid Size","dram__bytes_read.sum","gpu__time_duration.sum"\n'
        '"","","","","Kbyte","us"\n'
        '"0","silu(int)","(128, 1, 1)","(64, 1, 1)","1,500.5","2.5"\n'
        "a candidate printed this\n"
    )
    (row,) = parse_raw_page(output)
    assert row["Kernel Name"] == "silu(int)"
    assert float(row["dram__bytes_read.sum"]) == 1_500_500
    assert float(row["gpu__time_duration.sum"]) == 2500
    assert parse_raw_page("==ERROR== no permission\n") == []
