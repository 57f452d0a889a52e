"""Builds of the examples' baselines, shared by the tests that look at them and those that run them."""

import os

import pytest
from example_problems import EXAMPLES

from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.languages.cuda.build import build
from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.request import BuildRequest
from astra_kernels.languages.cuda.toolchain import find_toolchain


@pytest.fixture(scope="session")
def built(build_cache):
    """Builds a problem's baseline; the second time it comes from the cache."""
    toolchain = find_toolchain(os.environ)

    def of(name):
        problem = load_problem(EXAMPLES / name)
        request = BuildRequest(
            sources=problem.baseline.sources,
            flags=problem.spec.compile_options.cuda_cflags,
            entry_symbols=(problem.spec.entry_symbol,),
        )
        outcome = build(request, toolchain, build_cache)
        assert isinstance(outcome, Built), outcome.log
        return outcome

    return of
