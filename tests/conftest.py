"""Options and markers that every test shares."""

import fcntl
import importlib.util
import os
import signal
from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also run the large counts")


def pytest_configure(config):
    # A shell lets what it starts in the background ignore interrupts, and children inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    skips = {
        "full": None if config.getoption("--full") else "runs with --full",
        "gpu": None if Path("/dev/nvidia0").exists() else "no CUDA device here",
        "flashinfer": None
        if importlib.util.find_spec("flashinfer")
        else "flashinfer-python is not installed",
        "tvm_ffi": None
        if importlib.util.find_spec("tvm_ffi")
        else "apache-tvm-ffi is not installed",
    }
    for item in items:
        for marker, reason in skips.items():
            if reason and marker in item.keywords:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def shared_directory(tmp_path_factory):
    """One directory for all processes of a test run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def build_cache(shared_directory):
    """Builds of all tests: what one process has built, no other builds again."""
    return shared_directory / "builds"


@pytest.fixture(scope="session")
def made_once(shared_directory):
    """Makes the contents of a directory; in the other processes of a test run it waits for them."""

    def directory(name, make):
        place = shared_directory / name
        with (shared_directory / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                partial = shared_directory / f"{name}.{os.getpid()}"
                partial.mkdir()
                make(partial)
                partial.rename(place)
        return place

    return directory


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parents[1]
