"""The generated section shows what a comparison holds, and says what was not measured."""

import json

from tests.simulator.validation.page import BEGIN, END, page

TEXT = f"before\n{BEGIN}\nstale\n{END}\nafter\n"
PART = {
    "points": 9, "median_absolute_error": 0.125, "tau": 0.5, "tau_apart": 0.75, "pairs": 8,
    "right": 6, "wrong": 1, "within_error": 1, "share_right": 6 / 7,
}  # fmt: skip
FOUND = {
    "measured": {"date": "2026-12-01T00:00:00", "commit": "abcdef0123", "nvcc": "13.0"},
    "device": "a GPU",
    "nvcc_here": "13.1",
    "outputs": {
        "a": {"ulps": 0.0, "limit": 0.0, "within": True},
        "b": {"ulps": None, "limit": 0.0, "within": False},
        "c": {"ulps": 2.0, "limit": 4.0, "within": True},
    },
    "counters": {"smsp__inst_executed.sum": {"points": 4, "within": 3, "limit": 0.1, "worst": -0.25, "worst_point": "p"}},
    "dram": {"dram__bytes_read.sum": {"points": 5, "within": 4, "limit": 0.1, "worst": 0.2, "worst_point": "q"}},
    "written_back": {"points": 7, "nothing": 6, "most": 0.25, "most_point": "r"},
    "larger": {
        "smsp__inst_executed.sum": {"points": 5, "worst": 0.01, "worst_point": "p", "outside": []},
        "instructions: branch": {"points": 4, "worst": -0.2, "worst_point": "q", "outside": ["q"]},
    },
    "times": {"all": PART, "held_out": {**PART, "tau": None, "share_right": None}, "rest": PART},
}  # fmt: skip


def test_without_a_comparison_rows_wait(tmp_path):
    text = page(TEXT, tmp_path)
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "stale" not in text
    assert text.count("not measured yet") >= 10
    assert page(text, tmp_path) == text


def test_a_comparison_fills_them(tmp_path):
    (tmp_path / "comparison.json").write_text(json.dumps(FOUND))
    text = page(TEXT, tmp_path)
    assert "not measured yet" not in text
    assert "| bit for bit | 2 | 1 | 1 | b |" in text
    assert "| approximate instructions | 1 | 0 | 1 | none |" in text
    assert "| 4 | 10% | 3 | -25.0% | p |" in text
    assert "| bytes from DRAM, of large launches | 5 | 10% | 4 | +20.0% | q |" in text
    assert "7 large launches write, 6 had not one" in text
    assert "up to 25% (r)" in text
    assert (
        "5 larger calls of the same kernels: all classes within 10 % on 4, not on q -20.0% (branch, q)"
        in text
    )
    assert "global load sectors | not counted" in text
    assert "| held out | 9 | 12.5% |  | 0.75 | 8 | 6 | 1 | 1 |" in text
    assert "6 (86%)" in text
