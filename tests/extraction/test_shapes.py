"""Shapes that a host function's text tells: by its checks, by its names, and by comments behind its parameters."""

import pytest

from astra_kernels.extraction.finding import Operator
from astra_kernels.extraction.inferred import inferred
from astra_kernels.extraction.shapes import shapes_of, stated_shapes
from astra_kernels.extraction.syntax import functions

SILU = """\
void silu_and_mul(torch::Tensor& out,    // [..., d]
                  torch::Tensor& input)  // [..., 2 * d]
{
  LAUNCH_ACTIVATION_GATE_KERNEL(vllm::silu_kernel, true);
}
"""
CACHE = """\
void reshape_and_cache(
    torch::Tensor& key,        // [num_tokens, num_heads, head_size]
    torch::Tensor& key_cache,  // [num_blocks, num_heads, head_size, block_size, 16]
    torch::Tensor& scale,      /* [1] */
    torch::Tensor& slots) {    // [num_tokens]
  const int head_size = key.size(2);
}
"""


def test_comments_give_names_numbers_and_doubles():
    found = shapes_of(SILU, ("out", "input"), frozenset({"out"}))
    assert found.shapes == {"out": ("tokens", "d"), "input": ("tokens", "two_d")}
    assert found.axes["two_d"] == {"type": "expr", "expression": "2 * d"}
    assert found.guesses == ["shapes are those of the comments for out, input"]


def test_equal_names_are_one_axis_and_others_are_not_joined_by_habit():
    found = shapes_of(CACHE, ("key", "key_cache", "scale", "slots"), frozenset({"key_cache"}))
    assert found.shapes["key"] == ("num_tokens", "num_heads", "head_size")
    assert found.shapes["key_cache"][:4] == ("num_blocks", "num_heads", "head_size", "block_size")
    assert found.axes[found.shapes["key_cache"][4]] == {"type": "const", "value": 16}
    assert found.axes[found.shapes["scale"][0]] == {"type": "const", "value": 1}
    assert found.shapes["slots"] == ("num_tokens",)


@pytest.mark.parametrize(
    "comment",
    ["// [num_tokens, heads / 2]", "// see the paper [12a]", "// [batch; tokens]", "// [0, d]", "// out"],
)  # fmt: skip
def test_what_is_no_shape_is_not_taken(comment):
    text = f"void f(torch::Tensor& out,  {comment}\n       torch::Tensor& x)\n{{}}\n"
    assert stated_shapes(text, ("out", "x")) == {}


def test_a_comment_in_the_body_is_not_a_parameters():
    text = "void f(torch::Tensor& out) {\n  g(x,  // [a, b]\n    out);\n}\n"
    assert stated_shapes(text, ("out", "x")) == {}


def test_numbers_and_choices_have_the_values_that_the_source_gives_them():
    text = (
        "void f(torch::Tensor& out, const torch::Tensor& x, bool flag = true, bool other = false,\n"
        "       int64_t layout = 3, int64_t mode = kDefault) {\n  out.size(1); x.size(1);\n}\n"
    )
    (function,) = functions(text, "f.cu")
    draft = inferred(Operator("f", function, "torch"), "float16", None)
    values = {a["name"]: a["value"] for a in draft.arguments if isinstance(a, dict)}
    assert values == {"flag": True, "other": False, "layout": 3, "mode": 1}
