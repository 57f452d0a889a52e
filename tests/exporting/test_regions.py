"""Guard regions hold every confirmed win and nothing that was timed and is none."""

from hypothesis import given
from hypothesis import strategies as st

from astra_kernels.exporters.regions import Timed, ranging_axis, regions

SIZES = st.integers(1, 40)
TIMED = st.lists(
    st.builds(
        lambda tokens, hidden, win: Timed({"tokens": tokens, "hidden": hidden}, win),
        SIZES, st.sampled_from([64, 128, 256]), st.booleans(),
    ),
    max_size=30,
)  # fmt: skip


def outcome(timed, axes):
    """Whether sizes were timed, and all of that was a win."""
    wins = [t.win for t in timed if t.axes == axes]
    return bool(wins), bool(wins) and all(wins)


@given(TIMED)
def test_every_timed_size_is_inside_exactly_if_it_is_a_win(timed):
    found = regions(tuple(timed))
    for one in timed:
        inside = [r for r in found if r.holds(one.axes)]
        assert len(inside) == outcome(timed, one.axes)[1]


@given(TIMED, SIZES, st.sampled_from([64, 128, 256, 512]))
def test_an_untimed_size_is_inside_only_between_two_wins_that_nothing_parts(timed, tokens, hidden):
    axes = {"tokens": tokens, "hidden": hidden}
    was_timed, win = outcome(timed, axes)
    inside = any(r.holds(axes) for r in regions(tuple(timed)))
    if was_timed:
        assert inside == win
        return
    axis = ranging_axis(timed)
    line = [t for t in timed if all(t.axes[n] == s for n, s in axes.items() if n != axis)]
    below = [t.axes for t in line if axis and t.axes[axis] < axes[axis]]
    above = [t.axes for t in line if axis and t.axes[axis] > axes[axis]]
    if not below or not above:
        assert not inside
        return
    nearest = max(below, key=lambda a: a[axis]), min(above, key=lambda a: a[axis])
    assert inside == all(outcome(timed, a)[1] for a in nearest)


@given(TIMED)
def test_borders_are_timed_wins(timed):
    for region in regions(tuple(timed)):
        assert (region.tested[0], region.tested[-1]) == (region.low, region.high)
        for size in region.tested:
            assert outcome(timed, region.sizes(size)) == (True, True)


def test_the_axis_that_ranges_furthest():
    timed = [Timed({"tokens": t, "hidden": h}, True) for t in (1, 8192) for h in (64, 96, 128)]
    assert ranging_axis(timed) == "tokens"
    (first, *_), said = regions(tuple(timed)), [str(r) for r in regions(tuple(timed))]
    assert first.tested == (1, 8192)
    assert said[0] == "hidden = 64, 1 <= tokens <= 8192"


def test_without_axes_a_win_is_everywhere():
    (region,) = regions((Timed({}, True),))
    assert region.holds({}) and str(region) == "always"
    assert regions((Timed({}, False),)) == ()
