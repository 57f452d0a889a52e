"""`astra runs`: what it says of a run, how it is kept, and how wide and how long the list is."""

import json
import os
import shutil
from pathlib import Path

import pytest

from astra_kernels.app.overview import overview_of
from astra_kernels.app.runs import read_history
from astra_kernels.store import EVENTS

from .test_cli import astra

RECORDED = sorted(p.parent for p in (Path(__file__).parents[1] / "recorded").glob("*/events.jsonl"))


@pytest.fixture
def folder(tmp_path):
    for run in RECORDED:
        shutil.copytree(run, tmp_path / "runs" / run.name)
    return tmp_path / "runs"


def listed(folder, *more, **env):
    done = astra("runs", folder, *more, cwd=folder.parent, **env)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("run", RECORDED, ids=lambda p: p.name)
def test_what_it_says_is_what_the_whole_log_says(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / run.name)
    overview, history = overview_of(copy), read_history(copy)
    assert overview.candidates == len(history.attempts)
    assert overview.seconds == round(history.elapsed_s, 1)
    assert overview.tokens == history.ledger.tokens
    assert (overview.verdict == "not finished") == (history.finished is None)
    assert overview == overview_of(copy), "the kept one is the same"


def test_what_is_kept_is_not_believed_when_the_log_has_changed(folder):
    run = folder / "sigmoid"
    before = json.loads(listed(folder, "--json").stdout)
    log = run / EVENTS
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))  # a shorter log
    shorter = {o["run"]: o for o in json.loads(listed(folder, "--json").stdout)}
    assert shorter["sigmoid"]["verdict"] == "not finished"
    replaced = (folder / "sigmoid_models" / EVENTS).read_bytes()
    log.write_bytes(b"".join(lines).replace(b'"sim:h200"', b'"sim:h100"'))  # one of the same length
    os.utime(log, ns=(1, 1))
    again = {o["run"]: o for o in json.loads(listed(folder, "--json").stdout)}
    assert again["sigmoid"]["device"] == "sim:h100"
    assert replaced and {o["run"] for o in before} == set(again)
    shutil.rmtree(run)
    assert "sigmoid" not in {o["run"] for o in json.loads(listed(folder, "--json").stdout)}


@pytest.mark.parametrize("kept", ['{"form": 2, "log": 7', "{}", "[]", '{"form": 2}', "7"])
def test_a_damaged_keepsake_and_a_folder_that_may_only_be_read_are_no_trouble(folder, kept):
    (folder / "sigmoid" / ".overview.json").write_text(kept)
    first = listed(folder).stdout
    assert "not established" in first
    for run in folder.iterdir():
        (run / ".overview.json").unlink(missing_ok=True)
        (run / ".overview.json").mkdir()  # what cannot be replaced, even by root
    assert listed(folder).stdout == first


def test_many_damaged_runs_are_counted_and_the_rest_is_listed(folder):
    for number in range(9):
        (folder / f"broken-{number}").mkdir()
        (folder / f"broken-{number}" / EVENTS).write_text('{"event":"nonsense"}\n')
    done = listed(folder)
    assert len(done.stderr.splitlines()) == 6 and "4 more cannot be read" in done.stderr
    assert "sigmoid_models" in done.stdout


def test_the_newest_come_first_and_only_as_many_as_are_asked_for(folder):
    whole = json.loads(listed(folder, "--json").stdout)
    assert [o["began"] for o in whole] == sorted((o["began"] for o in whole), reverse=True)
    (newest,) = json.loads(listed(folder, "--json", "--last", "1").stdout)
    assert newest == whole[0]
    shown = listed(folder, "--last", "1").stdout
    assert whole[0]["run"] in shown and f"{len(whole) - 1} older ones" in shown


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_date_is_broken(folder, columns):
    shown = listed(folder, COLUMNS=str(columns)).stdout
    assert max(map(len, shown.splitlines())) <= columns
    assert "sigmoid" in shown and "modelled" in shown
    assert ("2026-11-30" in shown) == (columns > 40)
    assert ("Wider terminals show" in shown) == (columns < 200)
