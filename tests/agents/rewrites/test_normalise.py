"""Programs that differ in layout and comments only have one fingerprint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_kernels.agents.rewrites.normalise import fingerprint, same_program, tokens


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a=1;", "int  a = 1 ; // one"),
        ("f(a,b);", "f( a,\n   b /* c */ );"),
        ("#define A 1\nint b;", "#define A  1 // x\n\n\nint b;"),
        ("#define A \\\n 1\n", "#define A 1\n"),
    ],
)
def test_equal(one, other):
    assert same_program({"a": one}, {"a": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int ab;", "int a b;"),
        ('f("a b");', 'f("a  b");'),
        ("#define A 1\nint b;", "#define A 1 int b;"),
        ("x = a - -b;", "x = a --b;"),
        ("x = 1.5f;", "x = 1 .5f;"),
        ('s = "//"; t;', 's = "//";'),
        ('R"(x // y)" z', 'R"(x )" z'),
    ],
)
def test_different(one, other):
    assert not same_program({"a": one}, {"a": other})


def test_the_path_counts():
    assert fingerprint({"a": "x"}) != fingerprint({"b": "x"})
    assert fingerprint({"a": "x", "b": "y"}) == fingerprint({"b": "y", "a": "x"})


@given(st.text())
def test_any_text_has_tokens_and_layout_never_counts(text):
    assert tokens(f" \t{text}") == tokens(text)
    assert tokens(f"/* a comment */{text}") == tokens(text)
