"""What is left of a source: whole lines of it, in their order, and all that the wanted functions need."""

from pathlib import Path

import pytest

from astra_kernels.extraction.pruning import pruned
from astra_kernels.extraction.syntax import functions

TESTS = Path(__file__).parents[1]
SOURCES = sorted(
    p
    for folder in ("extraction/trees", "framework/minillm", "bindings/problems", "rogues")
    for p in (TESTS / folder).rglob("*.cu*")
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: "/".join(p.parts[-2:]))
def test_every_line_is_a_line_of_the_original_in_order(path):
    text = path.read_text()
    for function in functions(text, path.name):
        if function.name.isupper():  # a registration, which is never wanted
            continue
        left = [line.rstrip() for line in pruned(text, [function.name]).splitlines()]
        lines = iter(line.rstrip() for line in text.splitlines())
        assert all(any(line == other for other in lines) for line in left if line), function.name
        assert function.name in "\n".join(left)


BEHIND_A_NAMESPACE = """\
namespace engine {

__global__ void kernel(float* y) { y[0] = 1.0f; }

}  // namespace engine

// The first operator.
void first(float* y) { engine::kernel<<<1, 1>>>(y); }  // ends here
#define LAUNCH(y) \\
  engine::kernel<<<1, 1>>>(y)

/* The second one. */
void second(float* y) { LAUNCH(y); }
"""


def test_a_comment_behind_a_brace_stays_with_it():
    left = pruned(BEHIND_A_NAMESPACE, ["second"])
    assert "}  // namespace engine\n" in left
    assert "\n#define LAUNCH(y) \\\n" in left
    assert "first" not in left and "/* The second one. */" in left
    only = pruned(BEHIND_A_NAMESPACE, ["first"])
    assert "// The first operator." in only and "LAUNCH" not in only and "second" not in only


MADE_BY_A_MACRO = """\
#define DEFINE_OPERATOR(NAME) void NAME(float* y) { NAME##_kernel<<<1, 1>>>(y); }
#define UNUSED(x) x

__global__ void made_kernel(float* y) {}
DEFINE_OPERATOR(made)

void wanted(float* y) {}
"""


def test_what_a_macro_makes_stays_with_the_macro():
    left = pruned(MADE_BY_A_MACRO, ["wanted"])
    assert "#define DEFINE_OPERATOR" in left and "DEFINE_OPERATOR(made)" in left
    assert "UNUSED" not in left
