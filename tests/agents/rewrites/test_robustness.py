"""Whatever the text, a rewrite applies or refuses: it never raises and never loses code."""

import random

import pytest
from corpus import CASES, EXAMPLES, points
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_programs import device

from astra_kernels.agents.rewrites import (
    REWRITES,
    Applied,
    CachePolicy,
    FastMath,
    HoistInvariants,
    LaunchBounds,
    LaunchGeometry,
    ParameterPoint,
    Program,
    ProgrammaticLaunch,
    Refused,
    Unroll,
    VectorWidth,
    WarpShuffleReduction,
    fingerprint,
    same_program,
)
from astra_kernels.agents.rewrites.normalise import tokens

ONCE = [
    FastMath(),
    HoistInvariants(),
    WarpShuffleReduction(),
    VectorWidth(),
    CachePolicy(),
    Unroll(),
    LaunchBounds(),
    ProgrammaticLaunch(),
]
FRAGMENTS = """{ } ( ) [ ] ; , + / * = < > <<< >>> :: # ~ " ' \\ // /* */ int float x i 256 0x1p3f 1.0f
expf( sqrtf( __restrict__ const out[n] in[n] __ldg( .load( & *in
threadIdx.x blockDim.x blockIdx.x for if return template <typename T> __global__
__shared__ #define #if #endif dim3 auto struct"""


def every_outcome(program):
    for rewrite in REWRITES:
        for point in (*points(rewrite, program)[:2], EXAMPLES[rewrite.name]):
            result = rewrite.apply(program, point)
            assert isinstance(result, Applied | Refused)
            if isinstance(result, Applied):
                assert not same_program(program.sources, result.sources)
                assert result.edits
            else:
                assert result.reason


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_garbage_is_refused(text):
    every_outcome(Program({"k.cu": text}, "k.cu::run"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS.split()), max_size=60))
def test_fragments_of_code_in_a_kernel(fragments):
    every_outcome(device(" ".join(fragments)))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(CASES), st.randoms(use_true_random=False), st.integers(1, 4))
def test_mutations_of_real_kernels(case, rng: random.Random, count):
    program = case.program()
    text = program.sources[case.file]
    for _ in range(count):
        where, size = rng.randrange(len(text)), rng.choice((0, 1, 3, 20))
        text = text[:where] + rng.choice(["", "{", ")", ";", "*", "#", "\n"]) + text[where + size :]
    every_outcome(Program({case.file: text}, program.entry))


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda r: r.name)
def test_a_missing_entry_is_refused(rewrite):
    for entry in ("other.cu::run", "k.cu::other", "run", ""):
        program = Program(device("out[n] = expf(x);").sources, entry)
        assert rewrite.parameters(program) == ()
        assert isinstance(rewrite.apply(program, EXAMPLES[rewrite.name]), Refused)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda r: r.name)
def test_every_point_gives_another_program_and_the_same_one_each_time(case, rewrite):
    program = case.program()
    seen = {fingerprint(program.sources)}
    for point in rewrite.parameters(program):
        result = rewrite.apply(program, point)
        assert isinstance(result, Applied), f"{point} is offered but refused"
        assert result == rewrite.apply(program, point)
        if rewrite.name != "fast_math":  # two groups may meet in the same text
            assert fingerprint(result.sources) not in seen
        seen.add(fingerprint(result.sources))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("rewrite", ONCE, ids=lambda r: r.name)
def test_applying_twice_changes_nothing_more(case, rewrite):
    program = case.program()
    for point in rewrite.parameters(program):
        once = rewrite.apply(program, point)
        assert isinstance(once, Applied)
        again = rewrite.apply(program.with_sources(once.sources), point)
        assert isinstance(again, Refused), f"{point} applies twice"


def test_the_three_compose_and_keep_every_word_of_the_kernel():
    program = next(case for case in CASES if case.name == "silu_and_mul").program()
    original = program.sources["silu_and_mul.cu"]
    for rewrite, point in (
        (FastMath(), ParameterPoint.of(replace="exp+rcp")),
        (VectorWidth(), ParameterPoint.of(bytes=16, unroll=2)),
        (LaunchGeometry(), ParameterPoint.of(block=256, split=4)),
    ):
        result = rewrite.apply(program, point)
        assert isinstance(result, Applied), result
        program = program.with_sources(result.sources)
    changed = program.sources["silu_and_mul.cu"]
    assert "astra_reciprocal(1.0f + __expf((float)-x))" in changed
    assert "idx_done + threadIdx.x + blockIdx.y * blockDim.x" in changed
    assert changed.count("* gridDim.y") == 2
    assert "dim3(grid.x, 4)" in changed
    missing = set(tokens(original)) - set(tokens(changed)) - {"expf", "1024"}
    assert not missing
