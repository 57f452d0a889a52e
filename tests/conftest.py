"""Options and markers that every test shares."""

import importlib.util
from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also run the large counts")


def pytest_collection_modifyitems(config, items):
    skips = {
        "full": None if config.getoption("--full") else "runs with --full",
        "gpu": None if Path("/dev/nvidia0").exists() else "no CUDA device here",
        "flashinfer": None
        if importlib.util.find_spec("flashinfer")
        else "flashinfer-python is not installed",
    }
    for item in items:
        for marker, reason in skips.items():
            if reason and marker in item.keywords:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parents[1]
