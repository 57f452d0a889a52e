"""The child's own failures are the machine's, never the candidate's."""

import json
import os
import subprocess
import sys


def test_a_failure_of_the_child_itself_is_a_machine_event():
    request, feed = os.pipe()
    answers, say = os.pipe()
    go, release = os.pipe()
    os.write(feed, b"not a request")
    os.close(feed)
    os.close(release)
    command = [sys.executable, "-m", "astra_kernels.jobs.child", *map(str, (request, say, go))]
    done = subprocess.run(
        command, pass_fds=(request, say, go), capture_output=True, text=True, check=False
    )
    for descriptor in (request, say, go):
        os.close(descriptor)
    with os.fdopen(answers) as stream:
        events = [json.loads(line) for line in stream]
    assert events[0]["kind"] == "machine"
    assert "the child failed at" in events[0]["detail"]
    assert "Traceback" not in done.stderr
