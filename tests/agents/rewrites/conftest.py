"""One compiler and one simulated device for the tests of the corpus."""

import os

import pytest
from simulation import Bench

from astra_kernels.errors import ToolchainNotFound
from astra_kernels.languages.cuda.toolchain import find_toolchain


@pytest.fixture(scope="module")
def bench(build_cache):
    try:
        toolchain = find_toolchain(os.environ)
    except ToolchainNotFound as reason:
        pytest.skip(str(reason))
    return Bench(toolchain, build_cache)
