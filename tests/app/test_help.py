"""Examples of `--help`, completion in a real shell, and what an error that nobody foresaw looks like."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from astra_kernels.app.cli import app
from astra_kernels.app.examples import EXAMPLES

from .test_cli import astra

VERBS = [name for name in app if not name.startswith("-")]


def test_every_verb_has_examples_and_no_other():
    assert set(EXAMPLES) == set(VERBS)


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_read_by_the_parser(line):
    words = shlex.split(line, comments=True)
    if ">" in words:
        words = words[: words.index(">")]
    program, verb, *rest = words
    assert program == "astra"
    assert verb in VERBS
    command, bound, _ = app.parse_args([verb, *rest], print_error=False, exit_on_error=False)
    assert command.__name__ == verb
    assert bound.arguments or not rest


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_them(verb, capsys):
    app([verb, "--help"], result_action="return_value")
    said = " ".join(capsys.readouterr().out.split())
    for line in EXAMPLES[verb]:
        assert " ".join(line.split()[:2]) in said


COMPLETED = [
    ("astra opt", "optimize"),
    ("astra verify --saf", "--safety"),
    ("astra export --format flash", "flashinfer-bench"),
    ("astra optimize --strategy li", "linear"),
    ("astra completion f", "fish"),
]


@pytest.fixture(scope="module")
def completions(tmp_path_factory):
    """The script of each shell, as a user would save it."""
    folder = tmp_path_factory.mktemp("completions")
    for shell in ("bash", "zsh", "fish"):
        done = astra("completion", shell, cwd=folder)
        assert done.returncode == 0, done.stderr
        (folder / shell).write_text(done.stdout)
    return folder


@pytest.mark.parametrize(("typed", "completed"), COMPLETED)
def test_bash_completes(completions, typed, completed):
    words = typed.split()
    script = (
        f"source {completions}/bash; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; COMP_LINE='{typed}'; "
        'COMP_POINT=${#COMP_LINE}; _astra; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert completed in done.stdout.split(), done


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_accepts_its_script(completions, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n", str(completions / shell)], check=True)


def test_fish_completes(completions):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    for typed, completed in COMPLETED:
        done = subprocess.run(
            ["fish", "-c", f"source {completions}/fish; complete -C '{typed}'"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert completed in done.stdout.split()


def test_an_unknown_shell_is_refused_with_those_there_are(tmp_path):
    done = astra("completion", "csh", cwd=tmp_path)
    assert done.returncode == 2 and "bash" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify"], "astra: PROBLEM is missing; see astra verify --help"),
        (["extract", "x"], "astra: --from is missing; see astra extract --help"),
        (["verifi"], 'Did you mean "verify"?'),
        (["runs", "--jason"], "Did you mean --json?"),
        (["runs", "--last", "0"], "--last: give a number above 0"),
    ],
)
def test_a_mistake_in_words_is_said_as_every_other_and_names_the_help(arguments, message, tmp_path):
    done = astra(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "│" not in done.stderr and done.stderr.startswith("astra: ")


FAULT = """\
import sys
from astra_kernels.app import reports
def broken(folder, last, *, as_json):
    raise KeyError("no such thing")
reports.runs = broken
from astra_kernels.app.cli import main
sys.argv = ["astra", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("how", ["", "--debug", "ASTRA_DEBUG"])
def test_an_error_that_nobody_foresaw_has_a_traceback_only_when_it_is_asked_for(how, tmp_path):
    env = {"ASTRA_DEBUG": "1"} if how == "ASTRA_DEBUG" else {"ASTRA_DEBUG": ""}
    words = ["runs", *([how] if how.startswith("-") else [])]
    done = subprocess.run(
        [sys.executable, "-c", FAULT, *words], cwd=tmp_path, env={**os.environ, **env},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ("Traceback" in done.stderr) == bool(how)
    if not how:
        assert done.returncode == 5
        assert "a fault of Astra: KeyError" in done.stderr and "--debug" in done.stderr


def test_a_users_mistake_shows_where_it_is_from_when_that_is_asked_for(tmp_path):
    plain, debug = (astra("show", "nowhere", *more, cwd=tmp_path) for more in ([], ["--debug"]))
    assert plain.returncode == 2 and "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr and "no run here" in debug.stderr


def test_a_file_that_cannot_be_written_is_the_machines_failure(tmp_path, repository):
    """Standard output on a full device."""
    run = repository / "tests" / "recorded" / "sigmoid"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "astra_kernels", "show", str(run)],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "No space left" in done.stderr and "Traceback" not in done.stderr


def test_a_reader_that_has_enough_is_no_error(tmp_path, repository):
    run = repository / "tests" / "recorded" / "sigmoid"
    command = (
        f"{sys.executable} -m astra_kernels show {run} --json | head -c 10; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stdout.splitlines()[-1].endswith("0")
    assert done.stderr == ""
