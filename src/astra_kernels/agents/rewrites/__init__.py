"""The rule-based coder's engine: source rewrites on the syntax tree, each with its parameters."""

from astra_kernels.agents.rewrites.cache_policy import CachePolicy
from astra_kernels.agents.rewrites.fast_math import FastMath
from astra_kernels.agents.rewrites.hoist_invariants import HoistInvariants
from astra_kernels.agents.rewrites.launch_bounds import LaunchBounds
from astra_kernels.agents.rewrites.launch_geometry import LaunchGeometry
from astra_kernels.agents.rewrites.normalise import fingerprint, same_program
from astra_kernels.agents.rewrites.program import (
    Applied,
    Change,
    ParameterPoint,
    Program,
    Refused,
    Rewrite,
)
from astra_kernels.agents.rewrites.programmatic_launch import ProgrammaticLaunch
from astra_kernels.agents.rewrites.unroll import Unroll
from astra_kernels.agents.rewrites.vector_width import VectorWidth
from astra_kernels.agents.rewrites.warp_shuffle_reduction import WarpShuffleReduction

__all__ = [
    "REWRITES",
    "Applied",
    "CachePolicy",
    "Change",
    "FastMath",
    "HoistInvariants",
    "LaunchBounds",
    "LaunchGeometry",
    "ParameterPoint",
    "Program",
    "ProgrammaticLaunch",
    "Refused",
    "Rewrite",
    "Unroll",
    "VectorWidth",
    "WarpShuffleReduction",
    "fingerprint",
    "same_program",
]

REWRITES: tuple[Rewrite, ...] = (
    FastMath(),
    HoistInvariants(),
    WarpShuffleReduction(),
    VectorWidth(),
    CachePolicy(),
    Unroll(),
    LaunchGeometry(),
    LaunchBounds(),
    ProgrammaticLaunch(),
)
"""All rewrites, in the order in which they compose: arithmetic, then memory, then launch."""
