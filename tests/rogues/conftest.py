"""The compiler and the build cache are those of the job tests."""

from tests.jobs.conftest import build_cache, toolchain

__all__ = ["build_cache", "toolchain"]
