"""Which expressions become fast ones, which stay, and that limits stay where they are."""

import pytest
from small_programs import device, refusal, text

from astra_kernels.agents.rewrites import Applied, FastMath, ParameterPoint

REWRITE = FastMath()


@pytest.mark.parametrize(
    ("groups", "before", "after"),
    [
        ("exp", "out[n] = expf(x);", "out[n] = __expf(x);"),
        ("exp", "out[n] = exp(x) + logf(a);", "out[n] = __expf(x) + __logf(a);"),
        ("exp", "out[n] = exp(-(x - a));", "out[n] = __expf(-(x - a));"),
        ("div", "out[n] = a / (float)n;", "out[n] = __fdividef(a, (float)n);"),
        ("div", "out[n] = a / n;", "out[n] = __fdividef(a, n);"),
        ("div", "out[n] = a / b;", "out[n] = astra_divide(a, b);"),
        ("div", "out[n] = a / b / x;", "out[n] = astra_divide(astra_divide(a, b), x);"),
        ("div", "out[n] = a / (b + x) * 2;", "out[n] = astra_divide(a, b + x) * 2;"),
        (
            "rcp",
            "out[n] = x / (1.0f + expf(-x));",
            "out[n] = x * astra_reciprocal(1.0f + expf(-x));",
        ),
        (
            "exp+rcp",
            "out[n] = x / (1 + expf(-x));",
            "out[n] = x * astra_reciprocal(1 + __expf(-x));",
        ),
        ("rsqrt", "out[n] = 1.0f / sqrtf(a + b);", "out[n] = rsqrtf(a + b);"),
        ("rsqrt", "out[n] = a / sqrtf(b);", "out[n] = a * rsqrtf(b);"),
        ("rsqrt", "out[n] = rsqrt(b);", "out[n] = rsqrtf(b);"),
        ("power", "out[n] = powf(x, 2.0f);", "out[n] = (x * x);"),
        ("literal", "out[n] = 0.5 * x;", "out[n] = 0.5f * x;"),
        ("literal", "out[n] = 0.5 * x * (1.0 + a);", "out[n] = 0.5f * x * (1.0f + a);"),
        ("tanh", "out[n] = tanhf(x);", "out[n] = astra_tanh(x);"),
        ("trig", "out[n] = sinf(x) * cosf(x);", "out[n] = __sinf(x) * __cosf(x);"),
    ],
)
def test_expression_becomes(groups, before, after):
    assert f"  {after}\n" in text(device(before), REWRITE, replace=groups)


@pytest.mark.parametrize(
    ("groups", "body"),
    [
        ("exp", "double y = exp((double)x); out[n] = y;"),
        ("exp", "auto e = erff(x); out[n] = e;"),
        ("div", "out[n] = n / 2;"),
        ("div", "out[n] = a / 3.0f;"),
        ("div", "constexpr float third = 1.0f / 3.0f; out[n] = third;"),
        ("div", "double y = x; out[n] = y / a;"),
        ("rcp", "out[n] = x / (1.0f - expf(-x));"),
        ("rcp", "out[n] = x / (a + expf(-x));"),
        ("rcp", "float d = 1.0f + expf(-x); d -= 1.0f; out[n] = x / d;"),
        ("rcp", "float d0 = 1.0f; float& r = d0; const float d = 1.0f; out[n] = x / r;"),
        ("rsqrt", "out[n] = sqrtf(a);"),
        ("power", "out[n] = powf(x, 3.5f);"),
        ("literal", "double y = 0.5; out[n] = y;"),
        ("literal", "out[n] = 1e-300 * x;"),
        ("tanh", "double y = tanh((double)x); out[n] = y;"),
    ],
)
def test_expression_stays(groups, body):
    assert refusal(device(body), REWRITE, replace=groups).reason.startswith("no float arithmetic")


def test_a_template_type_is_not_taken_for_float():
    program = device(
        "out[n] = twice<float>(x);",
        head="template <typename T> __device__ T twice(T v) { return exp(v) / v; }",
    )
    assert refusal(program, REWRITE, replace="exp").reason.startswith("no float arithmetic")


def test_a_denominator_held_in_a_variable_is_followed():
    body = "const float d = 1.0f + expf(-x); out[n] = a / d;"
    assert "a * astra_reciprocal(d)" in text(device(body), REWRITE, replace="rcp")


def test_functions_out_of_reach_stay():
    head = "__device__ float other(float v) { return expf(v); }"
    assert refusal(device("out[n] = x;", head=head), REWRITE, replace="exp")


def test_helpers_reached_by_name_only_are_rewritten():
    head = """__device__ float act(float v) { return expf(v); }
template <float (*F)(float)> __device__ float call(float v) { return F(v); }"""
    assert "__expf(v)" in text(device("out[n] = call<act>(x);", head=head), REWRITE, replace="exp")


def test_host_code_stays():
    program = device("out[n] = expf(x);", head="float twice(float v) { return 2 * expf(v); }")
    changed = text(program, REWRITE, replace="exp")
    assert "return 2 * expf(v);" in changed
    assert "out[n] = __expf(x);" in changed


def test_the_helper_is_added_once_and_is_not_rewritten_itself():
    once = REWRITE.apply(device("out[n] = a / b;"), ParameterPoint.of(replace="div"))
    assert isinstance(once, Applied)
    again = device("out[n] = a / b;").with_sources(once.sources)
    assert refusal(again, REWRITE, replace="div")
    assert once.sources["k.cu"].count("#define ASTRA_DIVIDE") == 1


def test_points_name_only_groups_that_find_a_place():
    points = REWRITE.parameters(device("out[n] = x / (1.0f + expf(-x));"))
    assert [str(point) for point in points] == [
        "replace=exp+rcp",
        "replace=exp+div",
        "replace=exp",
        "replace=div",
        "replace=rcp",
    ]
    assert REWRITE.parameters(device("out[n] = x;")) == ()


def test_edits_say_where_and_what():
    result = REWRITE.apply(device("out[n] = expf(x);"), ParameterPoint.of(replace="exp"))
    assert isinstance(result, Applied)
    assert [(e.path, e.line, e.what) for e in result.edits] == [("k.cu", 3, "expf becomes __expf")]


@pytest.mark.parametrize("groups", ["", "exp+rcp+div", "nonsense", "exp+"])
def test_an_impossible_point_is_refused(groups):
    assert refusal(device("out[n] = expf(x) / (1.0f + expf(x));"), REWRITE, replace=groups)
