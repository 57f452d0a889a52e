"""The held-out points are those that the list names, and the list follows from the rule."""

import json

from tests.simulator.validation.corpus import TIMED
from tests.simulator.validation.holdout import LIST, held_out, listed


def test_the_list_is_what_the_rule_gives():
    names = [point.name for point in TIMED]
    assert len(set(names)) == len(names) >= 66
    written = json.loads(LIST.read_text())
    assert written["points"] == names
    assert written["held_out"] == [name for name in names if held_out(name)]
    assert listed() == set(written["held_out"])


def test_the_rule_does_not_move():
    # Computed apart, with sha256sum and long division in Perl.
    assert not held_out("scale_f32/n=1048576/scalar,block=256")
    assert [name for name in "abcdefghijk" if held_out(name)] == ["g", "h"]


def test_about_a_third_is_held_out():
    part = len(listed()) / len(TIMED)
    assert 0.28 < part < 0.39
