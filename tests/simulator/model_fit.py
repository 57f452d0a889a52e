"""Fits the time model's calibrated constants to measured times, and says how far it is off.

`python -m tests.simulator.model_fit FOLDER` builds into FOLDER, fits on the measured rows and on the points of
the corpus (tests/simulator/validation) that are not held out, and prints what `machines/h200_model_error.json`
states: each problem's errors with constants fitted to the other problems and to the corpus, less its kernels
that are one of the problems.
"""

import contextlib
import itertools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from astra_kernels.languages.cuda.toolchain import find_toolchain
from astra_kernels.simulator import Resources, load_machine, model_time_us, timemodel
from tests.simulator.conftest import Device
from tests.simulator.model_rows import Program, measured_rows, program_of, simulate
from tests.simulator.validation.corpus import TIMED
from tests.simulator.validation.holdout import listed
from tests.simulator.validation.programs import build_all
from tests.simulator.validation.simulated import run_points

VALIDATION = Path(__file__).parents[2] / "docs" / "results" / "h200-validation"

H200 = load_machine("h200")
FITTED = (
    "_START_US", "_L2_ROUND_US", "_DRAM_ROUND_US", "_WARP_START_CLOCKS", "_WITHIN_BLOCK_OVERLAP",
    "_DRAM_OVERLAP",
)  # fmt: skip
# Where a fit starts, away from the result, and how far it may go.
START = (0.3, 0.13, 0.25, 4.0, 2.0, 1.5)
LOW, HIGH = (0.05, 0.05, 0.1, 0.5, 1.0, 1.0), (2.0, 0.5, 1.0, 30.0, 8.0, 10.0)
# Points of the corpus are of many kinds, and the model knows nothing of some of what they do: an error of theirs
# counts for no more than this, and for a part of what one of the rows counts.
MOST_CORPUS_ERROR = 0.6
CORPUS_WEIGHT = 0.25
# A fit weighs the error of a ratio by so much more than that of a time.
RATIO_WEIGHT = 2.0
# Measured gains that are far enough from 1 to have an order.
CLEAR_LOG_GAIN = 0.01
ALL_BLOCKS, DEVICE_SAMPLE = None, 64


@dataclass(frozen=True)
class Pair:
    """Two kernels measured in the same rounds; gain is reference time over candidate time."""

    candidate: int
    reference: int
    measured_log_gain: float
    problem: str
    group: Program
    """Pairs of one group make up a geometric mean."""
    differs: bool
    """Whether the two launch different work on this shape; errors of single gains count only these."""


class Corpus:
    """The corpus's points that may be fitted to: not held out, and of no problem of the rows."""

    def __init__(self, folder):
        measured = json.loads((VALIDATION / "times.json").read_text())["points"]
        chosen = tuple(
            p for p in TIMED
            if p.name not in listed() and p.source != "flashinfer" and "us" in measured[p.name]
        )  # fmt: skip
        sources = sorted({p.source for p in chosen})
        programs = build_all(sources, find_toolchain(os.environ), folder, 2, None)
        self.items = [
            (here.launch, Resources(programs.registers(here.point.source)[here.launch.kernel]))
            for here in run_points(programs, chosen)
        ]
        self.log_us = np.log([measured[p.name]["us"] for p in chosen])
        groups = {}
        for number, point in enumerate(chosen):
            groups.setdefault(point.group, []).append(number)
        self.pairs = np.array([p for g in groups.values() for p in itertools.combinations(g, 2)])

    def loss(self, constants):
        """Mean square errors of times and of the ratios of a kernel's variants."""
        with replaced(constants):
            times = [model_time_us(launch, H200, resources) for launch, resources in self.items]
        errors = np.log(times) - self.log_us
        ratios = errors[self.pairs[:, 0]] - errors[self.pairs[:, 1]]
        return sum(np.mean(np.minimum(np.abs(e), MOST_CORPUS_ERROR) ** 2) for e in (errors, ratios))


class Rows:
    """All simulated rows as arrays, and the pairs among them."""

    def __init__(self, rows, simulated):
        self.items = list(simulated.values())
        index = {key: number for number, key in enumerate(simulated)}
        self.log_us = np.log([item.device_us for item in self.items])
        self.problems = np.array([item.program.problem for item in self.items])
        self.pairs, same = [], set()
        for row in rows:
            if "ratio" not in row:
                continue
            shape = tuple(row["shape"])
            own = index[program_of(row), shape]
            other = index[program_of(row, row["ratio_to"]), shape]
            differs = self._work(own) != self._work(other)
            if not differs:
                same.add(own)
            gain, group = float(np.log(row["ratio"][1])), program_of(row)
            self.pairs.append(Pair(own, other, gain, row["kernel"], group, differs))
        self.counted = np.array([number not in same for number in range(len(self.items))])

    def _work(self, number):
        launch = self.items[number].launch
        return launch.grid, launch.block, launch.counters.metrics, launch.counters.chain_clocks

    def log_modelled(self, constants=None):
        """Logarithms of the modelled times, with these constants instead of the model's own."""
        with replaced(constants):
            times = [model_time_us(i.launch, H200, i.resources) for i in self.items]
        return np.log(times)

    def errors(self, constants=None):
        """Logarithmic errors: of the times, and of the gains of the pairs."""
        modelled = self.log_modelled(constants)
        gains = [
            modelled[p.reference] - modelled[p.candidate] - p.measured_log_gain for p in self.pairs
        ]
        return modelled - self.log_us, np.array(gains)


@contextlib.contextmanager
def replaced(constants):
    """The model with other constants."""
    before = {name: getattr(timemodel, name) for name in FITTED}
    try:
        for name, value in zip(FITTED, constants or before.values(), strict=True):
            setattr(timemodel, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(timemodel, name, value)


def fit(rows, corpus, problems):
    """Least squares over these problems' rows and the corpus, one constant after the other in ever smaller steps."""
    of_pairs = np.array([p.differs and p.problem in problems for p in rows.pairs])
    of_rows = np.isin(rows.problems, problems) & rows.counted

    def loss(constants):
        times, gains = rows.errors(constants)
        of_corpus = CORPUS_WEIGHT * corpus.loss(constants)
        return (
            np.mean(times[of_rows] ** 2) + RATIO_WEIGHT * np.mean(gains[of_pairs] ** 2) + of_corpus
        )

    best, least, step = list(START), loss(START), 0.5
    while step > 0.01:
        before = least
        for number in range(len(best)):
            for factor in (1 + step, 1 / (1 + step)):
                trial = list(best)
                trial[number] = float(np.clip(best[number] * factor, LOW[number], HIGH[number]))
                if (found := loss(trial)) < least:
                    best, least = trial, found
        if least == before:
            step /= 2
    return tuple(best)


def root_mean_square(values):
    return float(np.sqrt(np.mean(np.square(values))))


def summary(rows, times, gains):
    """The numbers of `StatedError` from errors of times and of gains."""
    groups = {}
    for pair, error in zip(rows.pairs, gains, strict=True):
        groups.setdefault(pair.group, []).append(error)
    means = np.array([np.mean(errors) for errors in groups.values()])
    measured = np.array([pair.measured_log_gain for pair in rows.pairs])
    differing = np.array([pair.differs for pair in rows.pairs])
    clear = differing & (np.abs(measured) > CLEAR_LOG_GAIN)
    gain = {
        "pairs": int(differing.sum()),
        "root_mean_square": root_mean_square(gains[differing]),
        "worst": float(np.max(np.abs(gains[differing]))),
        "geomeans": len(means),
        "geomean_root_mean_square": root_mean_square(means),
        "geomean_worst": float(np.max(np.abs(means))),
        "ordered": float(np.mean(((measured + gains) * measured > 0)[clear])),
    }
    counted = times[rows.counted]
    return {
        "rows": len(counted),
        "root_mean_square": root_mean_square(counted),
        "worst": float(np.max(np.abs(counted))),
        "gain": gain,
    }


def held_out(rows, corpus):
    """Errors of each problem with constants fitted to the other problems only."""
    times, gains = np.zeros(len(rows.items)), np.zeros(len(rows.pairs))
    of_pairs = np.array([pair.problem for pair in rows.pairs])
    for problem in sorted(set(rows.problems)):
        others = sorted(set(rows.problems) - {problem})
        all_times, all_gains = rows.errors(fit(rows, corpus, others))
        times = np.where(rows.problems == problem, all_times, times)
        gains = np.where(of_pairs == problem, all_gains, gains)
    return summary(rows, times, gains)


def statement(device, toolchain, folder):
    """What `machines/h200_model_error.json` says, computed again; prints the fit to all rows."""
    measured, found = measured_rows(), {}
    by_sample = {
        sample: Rows(measured, simulate(device, toolchain, folder, measured, sample))
        for sample in (ALL_BLOCKS, DEVICE_SAMPLE)
    }
    corpus = Corpus(folder)  # last: its launches go to a simulator of its own
    for sample, rows in by_sample.items():
        found[sample] = held_out(rows, corpus)
        fitted = fit(rows, corpus, sorted(set(rows.problems)))
        print(
            "blocks:", sample or "all", dict(zip(FITTED, np.round(fitted, 3).tolist(), strict=True))
        )
        print("with the model's own constants:", json.dumps(summary(rows, *rows.errors())))
    stated = {**found[ALL_BLOCKS], "sampled_gain": found[DEVICE_SAMPLE]["gain"]}
    return {**stated, "calibrated_on_them": False, "source": "machines/h200_measured.json"}


def rounded(value):
    """Three digits behind the point, all the way down."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    print(
        json.dumps(
            rounded(statement(Device(), find_toolchain(os.environ), Path(sys.argv[1]))), indent=2
        )
    )
