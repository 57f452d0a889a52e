"""Techniques for memory-bound serving kernels on Hopper: what a planner may name, and what has been tried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Idea:
    """One technique. Keys that a source rewrite carries out are the rewrite's."""

    key: str
    what: str


CATALOGUE: tuple[Idea, ...] = (
    Idea(
        "vectorized_access",
        "16-byte loads and stores; a scalar path for rows whose start or length does not allow them",
    ),
    Idea(
        "unroll",
        "several independent loads per thread under way before the first use: unroll, batch, prefetch the next tile",
    ),
    Idea(
        "launch_geometry",
        "block size chosen in the launcher from the shape; several blocks a row where a small batch leaves multiprocessors idle",
    ),
    Idea(
        "one_pass_registers",
        "keep the row in registers between the reduction and the result, so that it is read once",
    ),
    Idea(
        "no_second_read",
        "avoid reading memory again what shared memory or registers can hold; recompute where cheaper",
    ),
    Idea(
        "warp_shuffle_reduction",
        "reduce with shuffles: one warp a row for short rows, few barriers and little shared memory otherwise",
    ),
    Idea(
        "cache_policy",
        "ld.global.nc and L1::no_allocate for data read once, st.global.cs for results nobody reads soon",
    ),
    Idea(
        "fast_math",
        "intrinsics for exp, division, reciprocal and root, within the accuracy that the baseline has",
    ),
    Idea(
        "hoist_invariants",
        "divisions, roots, loads and index arithmetic that are the same in every iteration are done once",
    ),
    Idea(
        "fewer_instructions",
        "fewer conversions, 32-bit offsets, packed half2 conversions, less predication",
    ),
    Idea(
        "launch_bounds",
        "fewer registers or less shared memory per block (__launch_bounds__), so that more warps hide latency",
    ),
    Idea(
        "launch_overhead",
        "fewer kernels and less host work per call: fuse kernels, do queries of the device once",
    ),
    Idea(
        "size_specialisation",
        "templates for common row lengths, dispatched in the launcher, with a general path for all others",
    ),
    Idea(
        "programmatic_launch",
        "programmatic dependent launch: griddepcontrol.wait after the prologue but before the first global access, "
        "launch_dependents early; it gains between kernels only, a ratio of its own that the times do not hold",
    ),
    Idea(
        "async_copies",
        "cp.async, TMA or bulk copies into shared memory with an mbarrier, to keep more bytes under way",
    ),
    Idea(
        "clusters",
        "thread block clusters: reduce a row across CTAs through distributed shared memory",
    ),
    Idea(
        "persistent_kernel",
        "as many blocks as fit at once, each looping over rows, loading the next row while it works on this one",
    ),
)
