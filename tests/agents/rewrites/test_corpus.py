"""Rewritten kernels of the corpus compute what NumPy computes, also on odd and misaligned sizes."""

import dataclasses
import re
import subprocess
from collections import Counter

import numpy as np
import pytest
from corpus import CASES, FLASHINFER_CASES, PROBLEM_CASES, rows
from tests.tiers import with_sample

from astra_kernels.agents.rewrites import (
    REWRITES,
    Applied,
    CachePolicy,
    FastMath,
    HoistInvariants,
    LaunchBounds,
    LaunchGeometry,
    ParameterPoint,
    ProgrammaticLaunch,
    Unroll,
    VectorWidth,
    WarpShuffleReduction,
)
from astra_kernels.languages.cuda.elf import embedded_cubins

QUICK = (
    ("silu_and_mul", FastMath(), ParameterPoint.of(replace="exp+rcp")),
    ("silu_and_mul", VectorWidth(), ParameterPoint.of(bytes=16, unroll=2)),
    ("silu_and_mul", LaunchGeometry(), ParameterPoint.of(split=4)),
    ("fused_add_rmsnorm", VectorWidth(), ParameterPoint.of(bytes=16, unroll=1)),
    ("layer_norm", LaunchGeometry(), ParameterPoint.of(block=64)),
    ("gelu", FastMath(), ParameterPoint.of(replace="power+literal+tanh")),
    ("quantise_rows", VectorWidth(), ParameterPoint.of(bytes=8, unroll=1)),
    ("layer_norm", CachePolicy(), ParameterPoint.of(load="ldg", store="stcs")),
    ("copy_scale_float4", CachePolicy(), ParameterPoint.of(load="ldcs", store="stcs")),
    ("tree_sum", WarpShuffleReduction(), ParameterPoint.of(shuffle="down")),
    ("tree_softmax", WarpShuffleReduction(), ParameterPoint.of(shuffle="xor")),
    ("tree_moments", WarpShuffleReduction(), ParameterPoint.of(shuffle="xor")),
    ("scale_rows", HoistInvariants(), ParameterPoint.of(hoist="div+call+load")),
    ("dequantise_groups", HoistInvariants(), ParameterPoint.of(hoist="div+call+load")),
    ("gated_residual", HoistInvariants(), ParameterPoint.of(hoist="call")),
    ("silu_and_mul", ProgrammaticLaunch(), ParameterPoint.of(trigger="start")),
    ("layer_norm", ProgrammaticLaunch(), ParameterPoint.of(trigger="none")),
    ("tree_softmax", ProgrammaticLaunch(), ParameterPoint.of(trigger="start")),
    ("gelu", Unroll(), ParameterPoint.of(factor=4)),
    ("quantise_rows", Unroll(), ParameterPoint.of(factor=8)),
    ("softmax", LaunchBounds(), ParameterPoint.of(warps=64)),
    ("rope", LaunchBounds(), ParameterPoint.of(warps=0)),
    ("merge_states", CachePolicy(), ParameterPoint.of(load="ldcs", store="stcs")),
)
FLASHINFER = (
    ("flashinfer_activation", LaunchGeometry(), ParameterPoint.of(split=4)),
    ("flashinfer_norm", VectorWidth(), ParameterPoint.of(constant=8)),
    ("flashinfer_fused_norm", LaunchGeometry(), ParameterPoint.of(block=256)),
    ("flashinfer_merge", FastMath(), ParameterPoint.of(replace="div")),
    ("flashinfer_activation", CachePolicy(), ParameterPoint.of(load="ldcs", store="stcs")),
    ("flashinfer_activation", Unroll(), ParameterPoint.of(factor=4)),
    ("flashinfer_norm", LaunchBounds(), ParameterPoint.of(warps=64)),
    ("flashinfer_fused_norm", CachePolicy(), ParameterPoint.of(load="ldg", store="none")),
)


def case_named(name):
    return next(case for case in (*CASES, *FLASHINFER_CASES) if case.name == name)


def first_of_each(rows):
    """Indices of the first row of each rewrite."""
    names = [rewrite.name for _, rewrite, _ in rows]
    return [names.index(name) for name in dict.fromkeys(names)]


def identify(value):
    return getattr(value, "name", str(value))


@pytest.mark.parametrize(
    ("name", "rewrite", "point"), with_sample(QUICK, *first_of_each(QUICK)), ids=identify
)
def test_rewritten_kernel_is_right(bench, name, rewrite, point):
    case = case_named(name)
    result = rewrite.apply(case.program(), point)
    assert isinstance(result, Applied), result
    assert bench.check(case, result.sources) == ""


@pytest.mark.flashinfer
@pytest.mark.parametrize(
    ("name", "rewrite", "point"), with_sample(FLASHINFER, 0, 1, 3), ids=identify
)
def test_rewritten_flashinfer_kernel_is_right(bench, name, rewrite, point):
    case = case_named(name)
    result = rewrite.apply(case.program(), point)
    assert isinstance(result, Applied), result
    assert bench.check(case, result.sources, sizes=2) == ""


def test_the_check_notices_a_wrong_kernel(bench):
    case = case_named("silu_and_mul")
    source = case.program().sources[case.file]
    wrong = source.replace("token_idx * d + idx", "token_idx * d + idx / 2 * 2")
    assert "argument 0" in bench.check(case, {case.file: wrong})


@pytest.mark.flashinfer
def test_the_program_s_own_headers_are_compiled(bench):
    case = case_named("flashinfer_activation")
    sources = dict(case.program().sources)
    wrong = sources[case.header].replace("out_vec[i] = Activation", "out_vec[i] = 2.f * Activation")
    assert "argument 0" in bench.check(case, {**sources, case.header: wrong}, sizes=1)


def test_all_that_apply_together_are_right(bench):
    case = case_named("silu_and_mul")
    program = case.program()
    points = {
        "fast_math": {"replace": "exp+div"},
        "vector_width": {"bytes": 16, "unroll": 2},
        "cache_policy": {"load": "ldcs", "store": "stcs"},
        "unroll": {"factor": 4},
        "launch_geometry": {"block": 256, "split": 4},
        "launch_bounds": {"warps": 64},
        "programmatic_launch": {"trigger": "start"},
    }
    for rewrite in (r for r in REWRITES if r.name in points):
        result = rewrite.apply(program, ParameterPoint.of(**points[rewrite.name]))
        assert isinstance(result, Applied), result
        program = program.with_sources(result.sources)
    assert bench.check(case, program.sources) == ""


EVERYWHERE = {
    "fast_math",
    "vector_width",
    "cache_policy",
    "unroll",
    "launch_geometry",
    "launch_bounds",
}
"""The rewrites of shapes that the examples and FlashInfer have; the others have theirs in the corpus."""


@pytest.mark.parametrize(
    ("cases", "rewrites"),
    [
        (CASES, {rewrite.name for rewrite in REWRITES}),
        (PROBLEM_CASES, EVERYWHERE | {"programmatic_launch"}),
        pytest.param(FLASHINFER_CASES, EVERYWHERE, marks=pytest.mark.flashinfer),
    ],
)
def test_each_rewrite_applies_to_three_kernels(cases, rewrites):
    applied = {(row.rewrite, row.kernel) for row in rows(cases) if row.outcome == "applied"}
    counts = Counter(rewrite for rewrite, _ in applied)
    assert {name for name in rewrites if counts[name] < 3} == set()


@pytest.mark.full
@pytest.mark.parametrize("case", (*CASES, *PROBLEM_CASES), ids=identify)
def test_every_point_of_every_rewrite_is_right(bench, case):
    assert bench.check(case, case.program().sources) == "", "the kernel as it was"
    found = list(rows([case], lambda case, applied: bench.check(case, applied.sources)))
    assert [row for row in found if row.outcome == "wrong"] == []
    assert Counter(row.rewrite for row in found).keys() == {r.name for r in REWRITES}


@pytest.mark.full
@pytest.mark.flashinfer
@pytest.mark.parametrize("case", FLASHINFER_CASES, ids=identify)
def test_every_point_on_flashinfer_is_right(bench, case):
    found = list(rows([case], lambda case, applied: bench.check(case, applied.sources)))
    assert [row for row in found if row.outcome == "wrong"] == []
    assert "verified" in {row.outcome for row in found}


@pytest.mark.parametrize("groups", ["exp+rcp", "exp+div", "div"])
def test_infinities_zeros_and_nans_stay_where_they_were(bench, groups):
    special = [
        np.inf,
        -np.inf,
        np.nan,
        0.0,
        -0.0,
        1e-8,
        -17.0,
        -87.5,
        -88.3,
        -90.0,
        -104.0,
        88.0,
        6e4,
    ]
    x = np.array(special, np.float32)
    case = case_named("bias_add")
    case = dataclasses.replace(
        case,
        sizes=((1, len(special)),),
        make=lambda rng, size: [x.copy(), np.zeros_like(x), *size],
        reference=lambda arguments: {},
    )
    outputs = []
    for result in (None, FastMath().apply(case.program(), ParameterPoint.of(replace=groups))):
        sources = case.program().sources if result is None else result.sources
        outputs.append(bench.outputs(case, sources, case.sizes[0])[0])
    before, after = outputs
    assert np.array_equal(np.isnan(before), np.isnan(after))
    assert np.array_equal(np.isinf(before), np.isinf(after))
    assert np.array_equal(before == 0, after == 0)
    finite = np.isfinite(before)
    assert np.allclose(before[finite], after[finite], rtol=1e-4, atol=1e-38)


def test_the_check_notices_a_bound_that_a_launch_exceeds(bench):
    case = case_named("rope")
    result = LaunchBounds().apply(case.program(), ParameterPoint.of(warps=0))
    assert isinstance(result, Applied), result
    source = result.sources[case.file]
    narrow = source.replace("__launch_bounds__(64)", "__launch_bounds__(32)")
    assert narrow != source
    assert bench.check(case, {case.file: narrow}, sizes=1) != ""


def test_the_check_notices_an_early_launch_that_does_not_wait(bench):
    case = case_named("gelu")
    result = ProgrammaticLaunch().apply(case.program(), ParameterPoint.of(trigger="start"))
    assert isinstance(result, Applied), result
    hasty = result.sources[case.file].replace("cudaGridDependencySynchronize();", "")
    assert "before griddepcontrol.wait" in bench.check(case, {case.file: hasty}, sizes=1)


@pytest.mark.parametrize(
    "name", with_sample(["layer_norm", "scale_rows", "silu_and_mul", "gated_residual"], 0, 1)
)
def test_the_compiler_moves_no_access_in_front_of_the_wait(bench, tmp_path, name):
    """Loads of memory that never changes might move over it by the compiler's rules; they must not."""
    if bench.toolchain.nvdisasm is None:
        pytest.skip("nvdisasm is not installed")
    case, orders = case_named(name), []
    program = case.program()
    for rewrite, point in (
        (HoistInvariants(), {"hoist": "div+call+load"}),
        (CachePolicy(), {"load": "ldg", "store": "stcs"}),
        (ProgrammaticLaunch(), {"trigger": "start"}),
    ):
        result = rewrite.apply(program, ParameterPoint.of(**point))
        if isinstance(result, Applied):
            program = program.with_sources(result.sources)
    library = bench.build(case, program.sources)
    assert not isinstance(library, str), library
    for cubin in embedded_cubins(library.read_bytes()):
        (tmp_path / "kernel.cubin").write_bytes(cubin)
        command = [str(bench.toolchain.nvdisasm), "-c", str(tmp_path / "kernel.cubin")]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for kernel in re.split(r"\.section\s+\.text\.", listing)[1:]:
            opcodes = re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)", kernel)
            touches = [i for i, o in enumerate(opcodes) if o in ("LDG", "STG", "LD", "ST", "RED")]
            orders.append(opcodes.index("ACQBULK") < min(touches))
    assert orders
    assert all(orders)
