import subprocess
import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_kernels.errors import MachineFault, RunError
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Passed
from astra_kernels.records.run import BaselineEvaluated, RoundEnded
from astra_kernels.store import EVENTS, RunStore


def round_ended(number):
    return RoundEnded(at="2026-01-01T00:00:00", elapsed_s=float(number), round=number)


def baseline_event(text):
    evaluation = Passed(device="sim:h200", workloads=(), resources=())
    return BaselineEvaluated(
        at="t", elapsed_s=0, candidate=Candidate(sources={"k.cu": text}), evaluation=evaluation
    )


def test_events_come_back_equal_and_sources_are_kept_once(tmp_path):
    store = RunStore.create(tmp_path / "run")
    events = [
        baseline_event("same\n"),
        baseline_event("same\n"),
        baseline_event("other \u00e9\r\n"),
        round_ended(1),
    ]
    for event in events:
        store.append(event)
    assert RunStore.open(tmp_path / "run").events() == events
    assert len(list((tmp_path / "run" / "sources").iterdir())) == 2


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(0, 400))
def test_a_log_cut_anywhere_loses_at_most_the_unfinished_event(tmp_path_factory, cut):
    directory = tmp_path_factory.mktemp("runs") / "run"
    store = RunStore.create(directory)
    events = [round_ended(n) for n in range(4)]
    for event in events:
        store.append(event)
    log = directory / EVENTS
    data = log.read_bytes()[: -cut or None]
    log.write_bytes(data)
    complete = data.count(b"\n")
    assert store.events() == events[:complete]
    store.cut_torn_line()
    store.append(round_ended(9))
    assert store.events() == [*events[:complete], round_ended(9)]


@pytest.mark.parametrize("line", [b'{"event": "nonsense"}', b"[" * 100_000, b"9" * 5000, b"\xff"])
def test_a_damaged_line_is_named(tmp_path, line):
    store = RunStore.create(tmp_path / "run")
    store.append(round_ended(1))
    log = tmp_path / "run" / EVENTS
    log.write_bytes(line + b"\n" + log.read_bytes())
    with pytest.raises(RunError, match=rf"{EVENTS}:1: damaged event"):
        store.events()


def test_a_used_directory_is_refused_and_left_alone(tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        RunStore.create(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["notes"]


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        RunStore.create(tmp_path / "file" / "run")
    with pytest.raises(RunError, match="no run here"):
        RunStore.open(tmp_path)


def test_two_writers_are_refused(tmp_path):
    store = RunStore.create(tmp_path / "run")
    with (
        store.locked(),
        pytest.raises(RunError, match="another process"),
        RunStore(store.directory).locked(),
    ):
        pass


def test_a_full_disk_keeps_the_log_readable(tmp_path):
    """The file size limit of a process stands in for a full disk: the write fails half-way with an OSError."""
    store = RunStore.create(tmp_path / "run")
    store.append(round_ended(1))
    size = (tmp_path / "run" / EVENTS).stat().st_size
    code = textwrap.dedent(f"""
        import resource, signal
        from pathlib import Path
        from astra_kernels.errors import MachineFault
        from astra_kernels.records.run import RoundEnded
        from astra_kernels.store import RunStore
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 20}, {size + 20}))
        try:
            RunStore.open(Path({str(tmp_path / "run")!r})).append(RoundEnded(at="t", elapsed_s=1, round=2))
        except MachineFault as fault:
            assert "--resume" in str(fault)
        else:
            raise AssertionError("no fault")
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert store.events() == [round_ended(1)]


def test_missing_sources_are_a_damaged_event(tmp_path):
    store = RunStore.create(tmp_path / "run")
    store.append(baseline_event("x"))
    next((tmp_path / "run" / "sources").iterdir()).unlink()
    with pytest.raises(RunError, match="damaged event"):
        store.events()


def test_a_read_only_log_is_a_machine_fault(tmp_path):
    store = RunStore.create(tmp_path / "run")
    (tmp_path / "run" / EVENTS).mkdir()
    with pytest.raises(MachineFault, match="could not be written"):
        store.append(round_ended(1))


def test_changed_sources_are_a_damaged_event(tmp_path):
    """The file names are content hashes, and they are checked."""
    store = RunStore.create(tmp_path / "run")
    store.append(baseline_event("x"))
    next((tmp_path / "run" / "sources").iterdir()).write_text("y")
    with pytest.raises(RunError, match="was changed"):
        store.events()
