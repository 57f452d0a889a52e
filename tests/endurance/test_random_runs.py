"""Whatever a provider does, a run ends with a reason, within its budget, with all that was judged."""

import pytest

from tests.endurance.runs import a_resumed_run, a_run

SAMPLE, ALL = 10, 200


def endure(seed, directory):
    first = a_run(seed, directory / f"{seed}")
    return first, a_resumed_run(seed, first, directory / f"{seed}-resumed")


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_a_sample_of_runs(seed, tmp_path):
    endure(seed, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(SAMPLE, SAMPLE + ALL))
def test_many_runs(seed, tmp_path):
    endure(seed, tmp_path)
