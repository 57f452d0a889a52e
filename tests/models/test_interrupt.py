"""Ctrl-C while a command answers: it is ended, and the log holds one event that is charged in full."""

import os
import shlex
import signal
import subprocess
import sys
import time

from astra_kernels.records.history import History
from astra_kernels.store import RunStore

PROGRAM = """
import os, sys
from pathlib import Path
from pydantic_ai import Agent
from astra_kernels.models.opening import Surroundings, open_models
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.run import RunConfig
from astra_kernels.store import RunStore

store = RunStore.create(Path(sys.argv[1]))
config = RunConfig(device="sim:h200", agents="multi", model=sys.argv[2])
with open_models(config, Journal(History(), store.append), Surroundings(dict(os.environ), print)) as models:
    try:
        Agent(models("coding")).run_sync("?")
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_ctrl_c_ends_a_command_in_flight(tmp_path):
    note = tmp_path / "pid"
    hangs = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    name = f"cli:{shlex.join([sys.executable, '-c', hangs])}"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "run"), name],
        stdout=subprocess.PIPE,
        text=True,
    )
    while not (note.exists() and note.read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert output == "interrupted\n"
    assert not os.path.exists(f"/proc/{note.read_text()}")  # noqa: PTH110
    events = RunStore.open(tmp_path / "run").events()
    assert [e.event for e in events] == ["model_asked"]
    assert History.fold(events).ledger.tokens == events[0].reserved.tokens
