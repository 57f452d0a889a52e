"""Work that is not ordered with what comes before it, and memory that nobody has written."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from astra_kernels.simulator import FaultKind, SimulatorOptions
from tests.simulator.conftest import SOURCES

LINES = (SOURCES / "ordering.cu").read_text().splitlines()
NOT_SUPPORTED, INVALID_VALUE = 801, 1


def line_of(mark):
    return next(i for i, text in enumerate(LINES, 1) if text.endswith(f"// here: {mark}"))


def start(device, library, entry, overlap):
    y = np.arange(64, dtype=np.int32)
    return device.run(library, entry, y, 64, overlap), y


@pytest.mark.parametrize(
    ("entry", "kind", "thread", "mark"),
    [
        ("reads_early", FaultKind.EARLY_READ, 0, "reads_early"),
        ("writes_early", FaultKind.EARLY_WRITE, 0, "writes_early"),
        ("never_waits", FaultKind.EARLY_WRITE, 0, "never_waits"),
        ("one_side_waits", FaultKind.EARLY_WRITE, 0, "one_side_waits"),
        ("copies_early", FaultKind.EARLY_READ, 0, "copies_early"),
        ("variable_read", FaultKind.EARLY_READ, 0, "variable"),
    ],
)
def test_memory_before_the_wait_is_the_previous_kernels(
    device, ordering, entry, kind, thread, mark
):
    code, _ = start(device, ordering, entry, overlap=1)
    fault = device.launch.fault
    assert (code, fault.kind, fault.block, fault.thread[0]) == (719, kind, (0, 0, 0), thread)
    assert (Path(fault.line.file).name, fault.line.line) == ("ordering.cu", line_of(mark))
    word = "read" if kind is FaultKind.EARLY_READ else "write"
    assert f"{word} before griddepcontrol.wait" in str(fault)


@pytest.mark.parametrize("entry", ["waits", "one_waits_for_all", "local_and_shared"])
def test_after_the_wait_everything_goes(device, ordering, entry):
    """Parameters, constants, shared and local memory go before it too."""
    code, _ = start(device, ordering, entry, overlap=1)
    assert (code, device.launch.fault) == (0, None)


@pytest.mark.parametrize(
    "entry", ["waits", "reads_early", "writes_early", "never_waits", "copies_early"]
)
def test_without_the_attribute_the_wait_does_nothing(device, ordering, entry):
    code, y = start(device, ordering, entry, overlap=0)
    assert (code, device.launch.fault) == (0, None)
    if entry == "waits":
        np.testing.assert_array_equal(y, np.arange(64) + 64 + np.array([7, 8] * 32))


WORK = {0: "cudaLaunchKernel", 1: "cudaMemsetAsync", 2: "cudaMemcpyAsync", 3: "cudaMallocAsync"}
WORK |= {4: "cudaFreeAsync", 5: "cudaLaunchKernelEx"}
ELSEWHERE = {
    1: "the default stream",
    2: "the default stream",
    3: "the default stream of the thread",
}
ELSEWHERE |= {4: "a stream of the launcher's own"}


@pytest.fixture
def work(device, ordering):
    """Does one piece of work where another stream than the given one is refused."""
    simulator = device.simulator
    stream = simulator.new_stream()
    address = simulator.allocate(64 * 4)

    def done(what, where):
        simulator.expect_stream(stream)
        arguments = ctypes.c_void_p(address), what, where, ctypes.c_void_p(stream)
        code = ordering.function("work")(*arguments)
        simulator.take_launches()
        return code, simulator.stray_work()

    yield done
    simulator.expect_stream(0)
    simulator.free(address)


@pytest.mark.parametrize("what", WORK)
def test_work_on_the_given_stream_is_done(work, what):
    assert work(what, 0) == (0, "")


@pytest.mark.parametrize("where", ELSEWHERE)
@pytest.mark.parametrize("what", WORK)
def test_work_on_another_stream_is_refused(work, what, where):
    assert work(what, where) == (NOT_SUPPORTED, f"{WORK[what]} on {ELSEWHERE[where]}")


@pytest.mark.parametrize(
    ("what", "name"), [(6, "cudaMemset"), (7, "cudaMemcpy"), (8, "cudaMemcpyToSymbol")]
)
def test_functions_without_a_stream_use_the_default_one(work, what, name):
    assert work(what, 0) == (NOT_SUPPORTED, f"{name} on the default stream")


def test_the_given_stream_cannot_be_destroyed(work):
    assert work(9, 0) == (INVALID_VALUE, "")


def unwritten(device, ordering, entry, *arguments, size=64, seed=0):
    y = np.zeros(size, np.int32)
    assert device.run(ordering, entry, y, *arguments, options=SimulatorOptions(seed=seed)) == 0
    return y


@pytest.mark.parametrize(
    ("entry", "arguments", "size"),
    [("unwritten_shared", (), 256), ("unwritten_local", (1,), 64), ("unwritten_global", (), 64)],
)
def test_unwritten_memory_holds_random_bytes(device, ordering, entry, arguments, size):
    first = unwritten(device, ordering, entry, *arguments, size=size)
    second = unwritten(device, ordering, entry, *arguments, size=size)
    for found in (first, second):
        assert len(np.unique(found)) > 0.9 * size
        assert np.mean(found < 0) == pytest.approx(0.5, abs=0.25)
    assert np.mean(first == second) < 0.1, "other bytes in every launch"


def test_blocks_do_not_share_what_they_find(device, ordering):
    found = unwritten(device, ordering, "unwritten_shared", size=256).reshape(4, 64)
    assert len(np.unique(found, axis=0)) == 4
