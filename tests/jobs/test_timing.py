"""What is concluded from the raw rounds of timing children, and from a profiler's table."""

import pytest

from astra_kernels.jobs.claims import TimingReport
from astra_kernels.jobs.ncu import parse_raw_page
from astra_kernels.jobs.timing import Timed, conclude
from astra_kernels.records.evaluation import Crashed, Measured, NotEstablished, Quarantined

from .staging import workload

FACTS = {"bandwidth_gb_s": 4800.0}
WORKLOAD = workload("w", 64, 4096)  # 1.5 MB: 0.33 us at 4800 GB/s


def report(baseline_us=4.0, candidate_us=2.0, *, refused=("", ""), clock_factor=1.02, rounds=12):
    wobble = [1 + 0.001 * (i % 3) for i in range(rounds)]
    found = TimingReport(
        rounds=[(baseline_us * w, candidate_us) for w in wobble],
        kernels=1,
        refused=refused,
        long_us={"0": 20_000.0, "1": 20_000.0},
    )
    return found, {"0": 0.0205, "1": 0.02 * clock_factor}


def concluded(*reports):
    timed = Timed(facts=dict(FACTS))
    return conclude(WORKLOAD, reports, timed), timed


def test_a_ratio_with_its_interval():
    failure, timed = concluded(report(), report())
    assert failure is None
    found = timed.timings["w"]
    assert isinstance(found, Measured)
    assert found.ratio == pytest.approx(2, rel=0.002)
    assert found.ratio_low <= found.ratio <= found.ratio_high
    assert found.rounds == 24
    assert timed.geomean().ratio == pytest.approx(found.ratio)


def test_faster_than_memory_can_be_is_quarantined():
    failure, _ = concluded(report(candidate_us=0.3))
    assert isinstance(failure, Quarantined)
    assert "4800 GB/s" in failure.reason


@pytest.mark.parametrize("factor", [0.4, 2.0])
def test_clocks_that_disagree_are_quarantined(factor):
    failure, _ = concluded(report(), report(clock_factor=factor))
    assert isinstance(failure, Quarantined)
    assert "supervisor's clock" in failure.reason


def test_a_clock_that_never_came_is_quarantined():
    found, _ = report()
    assert isinstance(concluded((found, {}))[0], Quarantined)


def test_no_report_is_no_time():
    assert isinstance(concluded()[0], Crashed)


def test_a_baseline_that_cannot_be_captured_has_no_headline():
    failure, timed = concluded(report(refused=("it synchronises", "")))
    assert failure is None
    assert isinstance(timed.timings["w"], NotEstablished)
    assert "it synchronises" in timed.timings["w"].reason
    assert isinstance(timed.geomean(), NotEstablished)


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
