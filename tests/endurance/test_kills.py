"""After `kill -9` at a random moment a run goes on to the same end, and pays for nothing twice."""

import pytest

from tests.endurance.kills import Ground, a_killed_run

SAMPLE, ALL = 2, 50


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    return Ground(tmp_path_factory.mktemp("kills"), rounds=1).make()


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_a_sample_of_kills(seed, ground):
    a_killed_run(ground, seed)


@pytest.mark.full
def test_many_kills(tmp_path):
    ground = Ground(tmp_path, rounds=2).make()
    seen = [a_killed_run(ground, seed) for seed in range(SAMPLE, SAMPLE + ALL)]
    assert sum(k.lost for k in seen), "some were killed while a model was asked"
