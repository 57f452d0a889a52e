"""The compiler is that of the job tests."""

from tests.jobs.conftest import toolchain

__all__ = ["toolchain"]
