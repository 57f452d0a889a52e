"""Answers that are code: what is written is read back exactly, and every fault is told."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic_ai import ModelRetry

from astra_kernels.agents.llm.replies.code import read_candidates, written_files
from astra_kernels.agents.llm.replies.edits import Edit, is_start, written
from astra_kernels.protocols import Refusal

PATHS = st.from_regex(r"[a-z][a-z0-9_]{0,8}(/[a-z][a-z0-9_]{0,8})?\.(cu|cuh|h)", fullmatch=True)
FRAGMENTS = st.sampled_from(
    [
        "```",
        "````",
        "~~~",
        "`",
        "### a.cu",
        "\n",
        "\r\n",
        "\r",
        " ",
        "int x;",
        "// ...",
        "#include <a>",
        "=======",
        ">>>>>>> REPLACE",
        "## Candidate 1: a",
        "Title: b",
        "Refusal: c",
        "{",
        "\\ No newline at end of file",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=80), st.lists(FRAGMENTS, max_size=12).map("".join), st.just("a\r\nb\r\n")
).filter(lambda text: not any(is_start(line.rstrip("\r")) for line in text.split("\n")))
LINES = st.lists(
    st.text(st.characters(exclude_characters="\n\r"), max_size=12).filter(
        lambda line: not line.startswith(("<<<<<", "=====", ">>>>>"))
    ),
    max_size=5,
)
SOURCE = "int a;\nint b;\nint c;\nint a;\n"


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=9), st.just("<<<<<<< SEARCH")), max_size=30))
def test_any_answer_is_read_refused_or_faulted(parts):
    parent = {"a.cu": "int x;\n", "b.h": ""}
    for glue in ("", "\n"):
        try:
            read = read_candidates(glue.join(parts), parent, most=3)
        except ModelRetry as fault:
            assert fault.message
            continue
        assert isinstance(read, Refusal) or all(set(parent) <= set(w.sources) for w in read)


def test_long_lines_take_no_time():
    blank = " " * 300_000
    for line in (
        f"# Candidate{blank}x",
        f"Title:{blank}x",
        f"Refusal:{blank}",
        "#" * 300_000,
        f"###{blank}k.cu",
    ):
        with pytest.raises(ModelRetry):
            read_candidates(line, {"k.cu": ""})


@given(st.dictionaries(PATHS, TEXTS, min_size=1, max_size=4))
def test_whole_files_come_back_byte_for_byte(sources):
    (read,) = read_candidates(written_files(sources), sources)
    assert read.sources == sources


@given(TEXTS)
def test_new_content_comes_back_byte_for_byte(text):
    assume("\\ No newline" not in text)
    assume("..." not in text)
    (read,) = read_candidates(written_files({"a.cu": text}), {"a.cu": "old", "b.h": "kept"})
    assert read.sources == {"a.cu": text, "b.h": "kept"}


@given(LINES, LINES, LINES, LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_an_edit_changes_its_lines_and_nothing_else(before, old, after, new, end, final, fence):
    old = ["int unique;", *old]
    assume("int unique;" not in before + after + old[1:])
    text = end.join([*before, *old, *after]) + end * final
    answer = written(Edit(tuple(old), tuple(new)))
    if fence:
        assume("`" not in answer and "~" not in answer)
        answer = f"```\n{answer}```\n"
    else:
        assume(not any(line.strip().startswith(("```", "~~~")) for line in old + new))
    (read,) = read_candidates(f"### a.cu\n{answer}", {"a.cu": text})
    wanted = [*before, *new, *after, *([""] if final else [])]
    assert read.sources["a.cu"].replace("\r\n", "\n") == "\n".join(wanted).replace("\r\n", "\n")
    if text.count("\r\n") * 2 > text.count("\n"):
        assert read.sources["a.cu"].count("\r\n") == read.sources["a.cu"].count("\n")


@pytest.mark.parametrize(
    "head",
    [
        "### k.cu",
        "**k.cu**",
        "`k.cu`",
        "File: `k.cu`",
        "#### File: k.cu",
        "// k.cu",
        "k.cu:",
        "### `k.cu` (edited)",
        "### ./k.cu",
        "In k.cu:",
    ],
)
def test_the_line_above_names_the_file_in_many_ways(head):
    (read,) = read_candidates(f"{head}\n\n```cuda\nnew\n```", {"k.cu": "old\n", "o.h": "o"})
    assert read.sources == {"k.cu": "new\n", "o.h": "o"}


@pytest.mark.parametrize(
    "info", ["cuda k.cu", "cuda:k.cu", 'cpp path="k.cu"', "k.cu", "c++ title=k.cu"]
)
def test_the_info_string_names_the_file_in_many_ways(info):
    (read,) = read_candidates(f"Here:\n```{info}\nnew\n```", {"k.cu": "old\n", "o.h": "o"})
    assert read.sources["k.cu"] == "new\n"


def test_a_block_without_a_name_is_the_only_file():
    (read,) = read_candidates("Sure!\n\n```cuda\nnew\n```\nDone.", {"k.cu": "old\n"})
    assert read.sources == {"k.cu": "new\n"}


def test_examples_beside_the_code_are_left_alone():
    answer = '```json\n{"a": 1}\n```\n### k.cu\n```cuda\nnew\n```\nk.cu\n```text\noutput\n```\n'
    (read,) = read_candidates(answer, {"k.cu": "old\n"})
    assert read.sources == {"k.cu": "new\n"}


def test_several_candidates_each_start_from_the_parent():
    answer = (
        "## Candidate 1: wider\n### k.cu\n```\n<<<<<<< SEARCH\nint b;\n=======\nint b4;\n>>>>>>> REPLACE\n```\n"
        "## Candidate 2: narrower\n### k.cu\n```\n<<<<<<< SEARCH\nint b;\n=======\nint b1;\n>>>>>>> REPLACE\n```\n"
    )
    first, second = read_candidates(answer, {"k.cu": SOURCE}, most=2)
    assert (first.title, second.title) == ("wider", "narrower")
    assert "b4" in first.sources["k.cu"] and "b4" not in second.sources["k.cu"]
    assert len(read_candidates(answer, {"k.cu": SOURCE}, most=1)) == 1


def test_the_title_is_read():
    (read,) = read_candidates("**Title:** wider loads\n```cuda\nx\n```", {"k.cu": ""})
    assert read.title == "wider loads"


def test_edits_follow_each_other_and_headers_may_be_added():
    answer = (
        "### k.cu\n<<<<<<< SEARCH\nint b;\n=======\nint d;\n>>>>>>> REPLACE\n"
        "<<<<<<< SEARCH\nint d;\nint c;\n=======\nint e;\n>>>>>>> REPLACE\n### wide.cuh\n```cuda\nint w;\n```\n"
    )
    (read,) = read_candidates(answer, {"k.cu": SOURCE})
    assert read.sources == {"k.cu": "int a;\nint e;\nint a;\n", "wide.cuh": "int w;\n"}


def test_a_whole_file_keeps_the_line_ends_of_the_file():
    (read,) = read_candidates("### k.cu\n```cuda\nb\nc\n```", {"k.cu": "a\r\n"})
    assert read.sources["k.cu"] == "b\r\nc\r\n"


def test_a_refusal_is_one_and_prose_is_not():
    assert read_candidates("Refusal: the row does not fit", {"k.cu": ""}) == Refusal(
        "the row does not fit"
    )
    with pytest.raises(ModelRetry, match="no code in your answer"):
        read_candidates("I would widen the loads.", {"k.cu": ""})


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("### k.cu\n```cuda\nint", "line 2 of your answer is not closed"),
        ("### ../up.h\n```cuda\nx\n```", "must be relative and stay inside"),
        ("### /etc/passwd.h\n```cuda\nx\n```", "must be relative and stay inside"),
        ("### other.cu\n```cuda\nx\n```", "not one of the candidate's files"),
        ("```cuda\nx\n```", "names no file"),
        ("### k.cu\n```diff\n-x\n+y\n```", "is a diff, which is not read"),
        ("### k.cu\n```cuda\nint a;\n// ... the rest as before\n```", "abbreviated"),
        ("### k.cu\n```cuda\n// rest of the code unchanged\n```", "abbreviated"),
        ("### k.cu\n<<<<<<< SEARCH\nint b;\n=======\nint d;\n", "no line '>>>>>>> REPLACE'"),
        ("### k.cu\n<<<<<<< SEARCH\nint b;\n>>>>>>> REPLACE\n", "no line '======='"),
        ("### k.cu\n<<<<<<< SEARCH\nint a;\n=======\nint d;\n>>>>>>> REPLACE\n", "matches 2 places of k.cu, at lines 1, 4"),
        ("### k.cu\n<<<<<<< SEARCH\n=======\nint d;\n>>>>>>> REPLACE\n", "nothing to search"),
        ("### k.cu\n<<<<<<< SEARCH\nint b;\nint x;\n=======\n>>>>>>> REPLACE\n", "is line 2; there, your line 'int x;'"),
        ("### new.h\n<<<<<<< SEARCH\nint b;\n=======\nint d;\n>>>>>>> REPLACE\n", "new.h is a new file: write it whole"),
        ("<<<<<<< SEARCH\nint b;\n=======\nint d;\n>>>>>>> REPLACE\n", "line 1 of your answer names no file"),
    ],
)  # fmt: skip
def test_faults_are_told_in_words(answer, told):
    with pytest.raises(ModelRetry) as fault:
        read_candidates(answer, {"k.cu": SOURCE, "h.h": ""})
    assert told in fault.value.message
