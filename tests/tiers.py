"""Which parameters of a test run every time, and which with `scripts/test --full` only."""

import pytest


def with_sample(values, *sample):
    """Parameters for `parametrize`: those at the indices `sample` run every time, the others with --full."""
    values = list(values)
    assert sample, "something runs every time"
    assert set(sample) <= set(range(len(values)))
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if index in sample else pytest.mark.full,
        )
        for index, value in enumerate(values)
    ]
