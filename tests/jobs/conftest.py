"""One compiler for all jobs of a test session."""

import os

import pytest

from astra_kernels.errors import ToolchainNotFound
from astra_kernels.jobs.run_job import run_job
from astra_kernels.languages.cuda.toolchain import find_toolchain

from .staging import stage


@pytest.fixture(scope="session")
def toolchain():
    try:
        return find_toolchain(os.environ)
    except ToolchainNotFound as reason:
        pytest.skip(str(reason))


@pytest.fixture
def judge_job(tmp_path, toolchain, build_cache):
    """Stages a job from sources and changes, runs it, and gives the outcome."""

    def judged(*sources, **changes):
        job = stage(tmp_path / "job", *sources, **changes)
        return run_job(job, toolchain=toolchain, cache_dir=build_cache)

    return judged
