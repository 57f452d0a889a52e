"""Calls that are cancelled, wait for each other, or cannot be carried out; servers that are killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from astra_kernels.app import reports
from tests.app.conftest import KERNEL
from tests.tiers import with_sample

from .conftest import events, talking, write_sigmoid

LAUNCH = "128, 0, stream"


def candidate(threads, **said):
    """A candidate that no earlier test has left in the cache of builds."""
    changed = KERNEL.replace(LAUNCH, f"{threads}, 0, stream") + f"// {uuid.uuid4()}\n"
    return {"sources": {"sigmoid.cu": changed}, **said}


def children(pid):
    """Process ids of all that a process has started, directly or not, and that still run."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            own = int(status.parent.name)
            found += [own, *children(own)]
    return found


def compiling(pid):
    """What a process has started, as soon as a compiler is among it."""
    found = children(pid)
    for own in found:
        with contextlib.suppress(OSError):
            if b"nvcc" in Path(f"/proc/{own}/cmdline").read_bytes():
                return found
    return []


def wait_for(condition, what, limit_s=60):
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {limit_s} s for {what}")


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    directory = tmp_path_factory.mktemp("calls")
    write_sigmoid(directory / "sigmoid")
    with talking(directory) as talk:
        talk.directory = directory
        talk.before = talk.fault("diagnose")
        talk.loaded = talk.answer("load_problem", problem="sigmoid")
        yield talk


def server_of(talk):
    """The server's process: the child of this one that says so."""
    line = b"\0-m\0astra_kernels\0mcp\0"
    own = [p for p in children(os.getpid()) if line in Path(f"/proc/{p}/cmdline").read_bytes()]
    (found,) = [p for p in own if Path(f"/proc/{p}/cwd").resolve() == talk.directory.resolve()]
    return found


def test_a_cancelled_call_stops_its_worker_and_the_next_goes_on(talk):
    server = server_of(talk)
    log = len(events(talk.loaded["run_directory"]))
    talk.progress.clear()
    first = talk.start("bench", candidate=candidate(64, title="cancelled"))
    workers = wait_for(lambda: compiling(server), "a compiler")
    second = talk.start("verify", candidate=candidate(512, title="waits its turn"))
    wait_for(lambda: any("waiting for the device" in m for _, m in talk.progress), "progress")
    first.cancel()
    with pytest.raises(CancelledError):
        first.result(timeout=60)
    wait_for(lambda: not [p for p in workers if Path(f"/proc/{p}").exists()], "workers to end", 20)
    result = second.result(timeout=120)
    assert not result.is_error and result.structured_content["passed"]
    kinds = [e["event"] for e in events(talk.loaded["run_directory"])][log:]
    assert kinds == ["candidate_screened"]
    assert talk.answer("history")["verified"] == [result.structured_content["candidate"]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "exactly one of sources, path and id"),
        ({"sources": {"sigmoid.cu": "x"}, "id": "baseline"}, "exactly one of"),
        ({"sources": {}}, "at least one changed file"),
        ({"sources": {"/etc/sigmoid.cu": "x"}}, "must be relative"),
        ({"sources": {"../sigmoid.cu": "x"}}, "must be relative"),
        ({"sources": {"sigmoid.cu": KERNEL}}, "the baseline's own sources"),
        ({"sources": {"sigmoid.cu": "x"}, "parent": "0123456789ab"}, "no candidate '0123456789ab'"),
        ({"sources": {"sigmoid.cu": "x"}, "predicted_gain": -1}, "predicted_gain"),
        ({"sources": {"sigmoid.cu": "x"}, "titel": "misspelt"}, "titel"),
        ({"id": "none"}, "no candidate 'none'"),
        ({"path": "/etc/passwd"}, "outside the directories"),
        ({"path": "../../etc/passwd"}, "outside the directories"),
        ({"path": "no-such-file.cu"}, "no such file"),
        ({"path": "a\0b"}, "zero byte"),
        ({"path": "link.cu"}, "outside the directories"),
        ({"path": "folder"}, "is a link out of"),
        ({"path": "pipe.cu"}, "neither a file nor a directory"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_what_cannot_be_a_candidate_is_an_error_in_words(talk, given, words):
    link, folder = talk.directory / "link.cu", talk.directory / "folder"
    if not folder.exists():
        link.symlink_to("/etc/hostname")
        os.mkfifo(talk.directory / "pipe.cu")
        folder.mkdir()
        (folder / "sigmoid.cu").symlink_to("/etc/hostname")
    assert words in talk.fault("verify", candidate=given)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("load_problem", {"problem": "nowhere"}, "no such file"),
        ("load_problem", {"problem": "/"}, "outside the directories"),
        ("load_problem", {"problem": "runs"}, "definition.json"),
        ("load_problem", {"problem": "sigmoid", "baseline": "/etc/x.cu::f"}, "outside the directories"),
        ("diagnose", {"candidate": "none"}, "no candidate"),
        ("diagnose", {"run": "another"}, "no run 'another' is open"),
        ("confirm", {"candidate": "baseline"}, "only what passed bench"),
        ("confirm", {}, "candidate"),
        ("history", {"run": "sigmoid"}, "no run here"),
        ("no_such_tool", {}, "Unknown tool"),
        ("bench", {"candidate": {"id": "x"}, "hypothesis": "fewer loads"}, "hypothesis"),
        ("bench", {"candidate": {"id": "x", "reason": "fewer loads"}}, "reason"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_a_mistake_is_an_error_in_words(talk, tool, arguments, words):
    assert words in talk.fault(tool, **arguments)


def test_nothing_is_judged_before_a_problem_is_loaded(talk):
    assert "call load_problem first" in talk.before


def test_a_candidate_that_does_not_build_is_a_verdict_and_no_error(talk):
    broken = {"sources": {"sigmoid.cu": KERNEL.replace("int i = ", "innt i = ")}}
    answer = talk.answer("verify", candidate=broken)
    assert answer["outcome"] == "build_failed"
    assert "sigmoid.cu:8: error" in answer["message"] and "innt i" in answer["message"]


def speak(process, method, identifier=None, **params):
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    if identifier is not None:
        message["id"] = identifier
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def hear(process, identifier):
    """The answer to a request; every line on the way has to be a message of the protocol."""
    for line in process.stdout:
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if message.get("id") == identifier:
            return message["result"]
    raise AssertionError("the server ended")


def by_hand(directory):
    """A server that is spoken to without the client's library, in the words of an older protocol."""
    command = [sys.executable, "-m", "astra_kernels", "mcp", "--device", "sim:h200"]
    process = subprocess.Popen(
        command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    who = {"name": "by hand", "version": "1"}
    speak(process, "initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=who)
    assert hear(process, 1)["serverInfo"]["name"] == "astra"
    speak(process, "notifications/initialized")
    return process


@pytest.mark.parametrize("number", with_sample([signal.SIGINT, signal.SIGTERM], 0))
def test_an_interrupted_server_ends_though_its_client_stays(tmp_path, number):
    process = by_hand(tmp_path)
    process.send_signal(number)
    try:
        code = process.wait(timeout=60)
    finally:
        process.kill()
        _, words = process.communicate()
    assert (code, words) == (130, "astra: interrupted\n")


def test_a_killed_server_leaves_a_log_that_reads_and_no_worker(tmp_path, capsys):
    """Spoken to by hand, so that nothing but the protocol may be on its output."""
    write_sigmoid(tmp_path / "sigmoid")
    process = by_hand(tmp_path)
    try:
        speak(process, "tools/call", 2, name="load_problem", arguments={"problem": "sigmoid"})
        run = hear(process, 2)["structuredContent"]["run_directory"]
        given = {"candidate": candidate(256, title="never judged")}
        speak(process, "tools/call", 3, name="bench", arguments=given)
        workers = wait_for(lambda: compiling(process.pid), "a compiler")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    wait_for(lambda: not [p for p in workers if Path(f"/proc/{p}").exists()], "workers to end")
    assert reports.report(Path(run), None, as_markdown=True) == 0
    assert "not finished" in capsys.readouterr().out
    assert [e["event"] for e in events(run)][-1] == "baseline_evaluated"


def without_sdk(*arguments):
    code = (
        "import sys; sys.modules['mcp'] = None; sys.argv[0] = 'astra'\n"
        "from astra_kernels.app.cli import main; main()"
    )
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_without_the_protocol_s_library_it_says_what_to_install():
    done = without_sdk("mcp")
    assert (done.returncode, done.stdout) == (3, "")
    assert "pip install 'astra-kernels[mcp]'" in done.stderr


def test_a_root_that_is_no_directory_is_refused(tmp_path):
    done = without_sdk("mcp", "--root", str(tmp_path / "nowhere"))
    assert done.returncode == 2 and "not a directory" in done.stderr
