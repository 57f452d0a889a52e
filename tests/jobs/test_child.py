"""The child's own failures are the machine's, never the candidate's."""

import os
import subprocess
import sys

import pytest

from astra_kernels.errors import MachineFault
from astra_kernels.jobs.conversation import KEY_BYTES, Conversation
from astra_kernels.jobs.memory import sealed
from astra_kernels.jobs.supervise import Child, Setting
from astra_kernels.jobs.wire import Program, Request

KEY = bytes(range(KEY_BYTES))
REQUEST = Request(
    task="check",
    device="sim:h200",
    cuda_runtime="/usr/lib/none.so",
    programs=(Program(library="/none.so", symbol="f"),),
    calls=(),
)


def answered(request_fd):
    answers, say = os.pipe()
    go, release = os.pipe()
    os.close(release)
    command = [sys.executable, "-m", "astra_kernels.jobs.child", *map(str, (request_fd, say, go))]
    done = subprocess.run(
        command, pass_fds=(request_fd, say, go), capture_output=True, text=True, check=False
    )
    for descriptor in (request_fd, say, go):
        os.close(descriptor)
    with os.fdopen(answers, "rb") as stream:
        return stream.read().splitlines(), done


def test_a_failure_of_the_child_itself_is_a_machine_event():
    unusable = REQUEST.encode().replace(b'"programs": [', b'"programs": [7, ')
    lines, done = answered(sealed("request", KEY + unusable))
    assert lines == []
    assert done.returncode != 0

    raising = REQUEST.encode().replace(b'"/none.so"', b"7")
    lines, done = answered(sealed("request", KEY + raising))
    conversation = Conversation(REQUEST, KEY)
    events = [conversation.accept(line) for line in lines]
    assert [e.kind for e in events] == ["ready", "loading", "machine", "end"]
    assert "the child failed at" in events[2].detail
    assert "Traceback" not in done.stderr


def test_a_child_that_ends_before_it_loads_anything_is_the_machines_fault(monkeypatch):
    monkeypatch.setattr(Child, "_command", lambda self: ["false"])
    with Child(REQUEST, Setting(20)) as child:
        assert list(child.events()) == []
        with pytest.raises(MachineFault, match="before it loaded a program"):
            child.ending()
