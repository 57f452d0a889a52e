"""One compiler, one build cache and one simulated device for all tests of the corpus."""

import os

import pytest
from simulation import Bench

from astra_kernels.errors import ToolchainNotFound
from astra_kernels.languages.cuda.toolchain import find_toolchain


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    try:
        toolchain = find_toolchain(os.environ)
    except ToolchainNotFound as reason:
        pytest.skip(str(reason))
    return Bench(toolchain, tmp_path_factory.mktemp("rewrites"))
