"""The sandbox for the children of a job: the same one that the build runs in."""

from astra_kernels.languages.sandbox.policy import SandboxPolicy, gpu_policy, python_readable
from astra_kernels.languages.sandbox.run import (
    Completed,
    SandboxLevel,
    available_sandbox,
    run_sandboxed,
)

__all__ = [
    "Completed",
    "SandboxLevel",
    "SandboxPolicy",
    "available_sandbox",
    "gpu_policy",
    "python_readable",
    "run_sandboxed",
]
