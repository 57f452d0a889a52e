import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_kernels.records.expressions import evaluate, names_in

numbers = st.integers(1, 1000)


@st.composite
def expressions(draw, depth=3):
    """A random expression as text; Python itself is the independent judge of its value."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(["a", "b", "7", "2"]))
    left, right = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    return f"({left} {draw(st.sampled_from(['+', '-', '*', '//', '%']))} {right})"


@given(expressions(), numbers, numbers)
def test_arithmetic_is_pythons(text, a, b):
    try:
        expected = eval(text, {"__builtins__": {}}, {"a": a, "b": b})
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="cannot evaluate"):
            evaluate(text, {"a": a, "b": b})
        return
    assert evaluate(text, {"a": a, "b": b}) == expected


@given(st.text(max_size=40))
def test_any_text_gives_a_number_or_a_value_error(text):
    with contextlib.suppress(ValueError):
        evaluate(text, {"a": 1})


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "a.b",
        "a[0]",
        "lambda: 1",
        "(1).real",
        "'x'",
        "9**9**9",
        "f(a)",
        "a if a else 1",
        "10**100",
    ],
)
def test_nothing_outside_the_grammar_runs(text):
    with pytest.raises(ValueError, match=r"cannot evaluate|is not"):
        evaluate(text, {"a": 1})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ceil_div(9, 8)", 2),
        ("min(a, 3)", 2),
        ("1 < a <= 2", True),
        ("a == 2 and not a > 3", True),
        ("2 ** -1", 0.5),
    ],
)
def test_extensions(text, value):
    assert evaluate(text, {"a": 2}) == value


def test_names():
    assert names_in("ceil_div(hidden, 8) * tokens") == {"hidden", "tokens"}
