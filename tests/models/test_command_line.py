"""`cli:` with real commands."""

import json
import os
import shlex
import sys
import threading
import time
from pathlib import Path

import pytest

from astra_kernels.errors import ModelFault, ModelRejected, SetupError, UserError
from astra_kernels.models.command_line import Command, CommandModel
from astra_kernels.models.limits import Limits, Patience
from astra_kernels.models.opening import Surroundings, open_models
from astra_kernels.records.run import Budget, RunConfig
from tests.models.conftest import ask

KEY = "sk-ant-0123456789abcdef"


def python(code):
    return f"cli:{shlex.join([sys.executable, '-c', code])}"


@pytest.fixture
def model_of(recorder, waits):
    opened = []

    def make(name, environment=None, request_s=20.0, max_output_tokens=500, **budget):
        limits = Limits(
            request_s=request_s,
            patience=Patience(sleep=waits, tries=2),
            max_output_tokens=max_output_tokens,
        )
        around = Surroundings(environment or dict(os.environ), lambda path: None, limits)
        config = RunConfig(device="sim:h200", agents="multi", model=name, budget=Budget(**budget))
        opened.append(open_models(config, recorder.journal, around))
        return opened[-1]("coding")

    yield make
    for models in opened:
        models.close()


def test_any_command_answers_on_standard_output(recorder, model_of):
    model = model_of("cli:tr a-z A-Z", usd=1.0)
    assert ask(model, "how fast?", "be brief.") == "BE BRIEF.\n\nHOW FAST?"
    answered = recorder.events[-1]
    assert answered.usage.model_dump() == {"input_tokens": 5, "output_tokens": 5, "estimated": True}
    assert answered.charged.usd == 0.0


def test_it_sees_an_empty_directory_that_is_removed_and_no_key(model_of):
    code = "import os, json; print(json.dumps([os.getcwd(), os.listdir('.'), dict(os.environ)]))"
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "LANG": "C.UTF-8",
        "XDG_CONFIG_HOME": "/tmp/config",
        "OPENAI_API_KEY": KEY,
        "ASTRA_RUN": "/the/run",
        "PYTHONPATH": "/the/evaluator",
    }
    directory, entries, seen = json.loads(ask(model_of(python(code), environment)))
    assert entries == []
    assert not Path(directory).exists()
    assert Path(directory) != Path.cwd()
    expected = {
        n: environment[n]
        for n in environment
        if n not in ("OPENAI_API_KEY", "ASTRA_RUN", "PYTHONPATH")
    }
    assert {n: seen.get(n) for n in expected} == expected
    assert not {"OPENAI_API_KEY", "ASTRA_RUN", "PYTHONPATH"} & seen.keys()


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _gone(path):
    """Whether the process that wrote its number to `path` has ended; waits for it."""
    pid = int(path.read_text())
    for _ in range(200):
        if not _alive(pid):
            return True
        time.sleep(0.05)
    return False


def _hangs(tmp_path):
    """A command whose grandchild notes its number and hangs with it."""
    note = tmp_path / "pid"
    child = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    return note, python(code)


def test_a_command_that_hangs_is_ended_with_what_it_started(recorder, model_of, tmp_path):
    note, name = _hangs(tmp_path)
    with pytest.raises(ModelFault, match="timed_out"):
        ask(model_of(name, request_s=1.0))
    assert {e.kind for e in recorder.events if e.event == "model_failed"} == {"timed_out"}
    assert _gone(note)
    assert recorder.ledger.tokens == sum(a.reserved.tokens for a in recorder.ledger.asked.values())


def test_closing_ends_a_command_in_flight(recorder, waits, tmp_path):
    note, name = _hangs(tmp_path)
    around = Surroundings(dict(os.environ), lambda path: None)
    config = RunConfig(device="sim:h200", agents="multi", model=name)
    models = open_models(config, recorder.journal, around)
    ended = []

    def asks():
        try:
            ask(models("coding"))
        except BaseException as error:
            ended.append(type(error).__name__)

    thread = threading.Thread(target=asks)
    thread.start()
    while not (note.exists() and note.read_text()):
        time.sleep(0.02)
    models.close()
    thread.join()
    assert _gone(note)
    assert ended == ["CancelledError"]
    assert recorder.kinds() == ["model_asked"]


def test_a_command_that_floods_is_cut(recorder, model_of):
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    answer = ask(model_of(python(code), max_output_tokens=100))
    assert answer == "x" * 400
    assert recorder.events[-1].finish == "length"
    assert recorder.ledger.tokens <= recorder.events[0].reserved.tokens


def test_a_command_that_floods_standard_error(model_of):
    code = "import sys\nfor _ in range(100): sys.stderr.write('e' * 65536)\nprint('done')"
    assert ask(model_of(python(code))) == "done\n"


def test_a_command_that_does_not_read_its_prompt(model_of):
    assert ask(model_of("cli:echo hello"), "q" * 500_000) == "hello\n"


@pytest.mark.parametrize("kept", ["2>&2 >/dev/null", ">&1 2>/dev/null", ""])
def test_a_background_process_does_not_hold_the_answer_up(kept, recorder, model_of):
    assert ask(model_of(f"cli:sh -c 'sleep 600 {kept} & echo done'")) == "done\n"
    assert recorder.ledger.requests == 1


def test_a_command_that_fails_is_charged_and_named(recorder, model_of):
    with pytest.raises(ModelFault, match="it ended with status 3: no luck today"):
        ask(model_of("cli:sh -c 'echo no luck today >&2; exit 3'"))
    asked, failed = recorder.events[:2]
    assert failed.charged == asked.reserved
    assert recorder.ledger.requests == 2


def test_a_command_that_is_not_logged_in_is_refused(model_of):
    with pytest.raises(ModelRejected, match="not logged in: Please run /login"):
        ask(model_of("cli:sh -c 'echo Please run /login >&2; exit 1'"))


def test_a_key_in_its_complaint_is_taken_out(recorder, installed, model_of):
    environment = {**installed("claude", f"bad {KEY}", status=1), "ANTHROPIC_API_KEY": KEY}
    with pytest.raises(ModelFault) as caught:
        ask(model_of("cli:claude", environment))
    assert KEY not in str(caught.value)
    assert "bad [ANTHROPIC_API_KEY]" in recorder.events[1].detail


def test_a_key_in_the_name_is_refused(recorder, model_of):
    with pytest.raises(UserError, match="leave keys in the environment") as caught:
        model_of(f"cli:env TOKEN={KEY} cat", {**os.environ, "ANTHROPIC_API_KEY": KEY})
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("cli:no-such-program-here", SetupError, "not installed"),
        ("cli:'unbalanced", UserError, "No closing quotation"),
        ("cli:", UserError, "a model is"),
        ("cli: ", UserError, "names no command"),
    ],
)
def test_what_cannot_be_run(name, error, says, model_of):
    with pytest.raises(error, match=says):
        model_of(name)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts a program of some name on PATH, that notes its arguments and prints a text."""

    def install(name, prints, status=0):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            f"#!{sys.executable}\nimport sys, json, os\n"
            f"json.dump([sys.argv[1:], sys.stdin.read(), dict(os.environ)], open({str(tmp_path / 'seen')!r}, 'w'))\n"
            f"print({prints!r})\nsys.exit({status})\n"
        )
        program.chmod(0o755)
        return {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": "/home/me"}

    return install


def seen(tmp_path):
    return json.loads((tmp_path / "seen").read_text())


def test_claude_reports_its_usage(recorder, installed, model_of, tmp_path):
    printed = json.dumps(
        {
            "type": "result",
            "is_error": False,
            "result": "Use float4.",
            "total_cost_usd": 0.01,
            "usage": {
                "input_tokens": 4,
                "cache_creation_input_tokens": 100,
                "cache_read_input_tokens": 1000,
                "output_tokens": 9,
            },
        }
    )
    environment = {**installed("claude", printed), "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    assert ask(model_of("cli:claude --model opus", environment)) == "Use float4."
    arguments, prompt, environment = seen(tmp_path)
    assert arguments[:3] == ["-p", "--output-format", "json"]
    assert arguments[-2:] == ["--model", "opus"]
    assert prompt == "You write CUDA.\n\nHow fast?"
    assert environment["ANTHROPIC_API_KEY"] == KEY
    assert "OPENAI_API_KEY" not in environment
    assert recorder.events[-1].charged.model_dump() == {"tokens": 1113, "usd": 0.0}
    assert not recorder.events[-1].usage.estimated


def test_claude_says_that_it_failed(installed, model_of):
    printed = json.dumps({"is_error": True, "result": "Invalid API key \u00b7 Please run /login"})
    with pytest.raises(ModelRejected, match="not logged in"):
        ask(model_of("cli:claude", installed("claude", printed)))


def test_claude_prints_no_json(installed, model_of):
    with pytest.raises(ModelFault, match="what is no answer"):
        ask(model_of("cli:claude", installed("claude", "Segmentation fault")))


def test_codex_reports_its_usage(recorder, installed, model_of, tmp_path):
    events = [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Use float4."}},
        {
            "type": "turn.completed",
            "usage": {"input_tokens": 50, "cached_input_tokens": 40, "output_tokens": 6},
        },
    ]
    printed = "\n".join(json.dumps(e) for e in events)
    assert ask(model_of("cli:codex", installed("codex", printed))) == "Use float4."
    arguments = seen(tmp_path)[0]
    assert (arguments[:2], arguments[-1]) == (["exec", "--json"], "-")
    assert recorder.events[-1].charged.tokens == 56


def test_codex_fails(installed, model_of):
    printed = json.dumps({"type": "turn.failed", "error": {"message": "stream disconnected"}})
    with pytest.raises(ModelFault, match="stream disconnected"):
        ask(model_of("cli:codex", installed("codex", printed)))


def test_an_assistant_that_floods_its_envelope(installed, model_of):
    printed = json.dumps({"result": "x", "junk": "y" * 3_000_000})
    with pytest.raises(ModelFault, match="more than an answer may have"):
        ask(model_of("cli:claude", installed("claude", printed)))


def test_the_known_commands_are_read():
    assert Command.read(f"{sys.executable} -V", os.environ["PATH"]).format == "text"
    assert CommandModel("cli:x", Command(("x",), "text"), {}).system == "cli"
