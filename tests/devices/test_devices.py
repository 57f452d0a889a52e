"""Devices behind the one protocol: names, arguments, and what the simulated one counts and models."""

import ctypes
import threading
from pathlib import Path

import numpy as np
import pytest

from astra_kernels.devices.device import CArgument, ProgramRefused, c_value
from astra_kernels.devices.neighbours import alone_on, among_others_on
from astra_kernels.devices.opening import open_device
from astra_kernels.errors import AstraError, UserError

NO_RUNTIME = Path("/nowhere/libcudart.so.13")


@pytest.mark.parametrize("name", ["sim:h100x", "sim:", "cuda", "cuda:x", "rocm:0", ""])
def test_an_unknown_device_names_the_known_ones(name):
    with pytest.raises(UserError, match="sim:h200"):
        open_device(name, NO_RUNTIME)


def test_a_real_device_without_its_software_says_what_is_missing():
    with pytest.raises(AstraError):
        open_device("cuda:0", NO_RUNTIME)


@pytest.mark.parametrize(
    ("ctype", "value", "bytes_"),
    [
        ("pointer", 2**40, (2**40).to_bytes(8, "little")),
        ("stream", 0, bytes(8)),
        ("int32", -2, b"\xfe\xff\xff\xff"),
        ("uint32", 2**32 - 1, b"\xff" * 4),
        ("int64", -1, b"\xff" * 8),
        ("uint64", 2**63, (2**63).to_bytes(8, "little")),
        ("float32", 0.1, np.float32(0.1).tobytes()),
        ("float64", 0.1, np.float64(0.1).tobytes()),
        ("bool", True, b"\x01"),
    ],
)
def test_arguments_have_the_bytes_of_their_c_type(ctype, value, bytes_):
    passed = c_value(CArgument(ctype, value))
    assert bytes(ctypes.string_at(ctypes.addressof(passed), ctypes.sizeof(passed))) == bytes_


@pytest.fixture(scope="module")
def device():
    return open_device("sim:h200", NO_RUNTIME)


def test_facts_of_the_simulated_h200(device):
    assert device.facts.name == "NVIDIA H200"
    assert device.facts.multiprocessors == 132
    assert device.facts.bandwidth_gb_s == 4800


def test_memory_comes_back_as_it_was(device):
    address = device.allocate(1000)
    data = np.random.default_rng(0).integers(0, 256, 1000, dtype=np.uint8)
    device.write(address, data)
    back = np.zeros(1000, np.uint8)
    device.read(address, back)
    assert np.array_equal(back, data)
    device.free(address)


def test_nothing_is_nowhere(device):
    assert device.allocate(0) == 0
    device.write(0, np.empty(0, np.uint8))
    device.read(0, np.empty(0, np.uint8))
    device.free(0)


def test_a_library_that_is_none_is_refused(device, tmp_path):
    (tmp_path / "library.so").write_bytes(b"not a library")
    with pytest.raises((ProgramRefused, AstraError, ValueError)):
        device.load(tmp_path / "library.so", "f", {})


def test_one_job_at_a_time_times_on_a_device():
    order = []
    entered = threading.Event()

    def second():
        entered.wait()
        with alone_on("test:0"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with alone_on("test:0"):
        entered.set()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_jobs_that_do_not_time_share_a_device():
    with among_others_on("test:1"), among_others_on("test:1"):
        pass
