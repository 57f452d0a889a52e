"""What a sandboxed command cannot do, and what is left of it afterwards: nothing."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from astra_kernels.errors import MachineFault
from astra_kernels.jobs.sandbox import (
    SandboxPolicy,
    available_sandbox,
    gpu_policy,
    python_readable,
    run_sandboxed,
)
from astra_kernels.languages.sandbox import launch
from astra_kernels.languages.sandbox.run import OUTPUT_LIMIT_BYTES

LEVEL = available_sandbox()
needs_isolation = pytest.mark.skipif(
    LEVEL.name == "rlimits only", reason=f"files are not restricted here: {LEVEL.reason}"
)


@pytest.fixture
def policy(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return SandboxPolicy(scratch=scratch, deadline_s=20.0)


def replaced(policy, **fields):
    names = SandboxPolicy.__dataclass_fields__
    return SandboxPolicy(**{**{name: getattr(policy, name) for name in names}, **fields})


def shell(script, policy):
    return run_sandboxed(["sh", "-c", script], policy=policy)


def python(script, policy):
    allowed = replaced(policy, readable=(*policy.readable, *python_readable()))
    return run_sandboxed([sys.executable, "-I", "-c", script], policy=allowed)


def marked_processes(mark):
    """Processes whose command line holds a mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_result_streams_and_code(policy):
    done = shell("echo out; echo err >&2; pwd; exit 3", policy)
    assert (done.returncode, done.timed_out) == (3, False)
    assert done.stdout == f"out\n{policy.scratch}\n" and done.stderr == "err\n"
    assert done.sandbox == LEVEL.description
    assert done.wall_s > 0


def test_signal_is_a_negative_code(policy):
    assert shell("kill -SEGV $$", policy).returncode == -signal.SIGSEGV


def test_program_that_does_not_exist(policy):
    if LEVEL.name == "bubblewrap":
        pytest.skip("bubblewrap reports it as an exit code")
    with pytest.raises(MachineFault, match="no-such-program: No such file"):
        run_sandboxed(["no-such-program"], policy=policy)


def test_environment_is_scrubbed(policy, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    allowed = replaced(policy, environment={"ADDED": "yes"})
    lines = set(shell("env", allowed).stdout.splitlines()) - {f"PWD={policy.scratch}"}
    assert lines == {
        "ADDED=yes",
        f"HOME={policy.scratch}",
        f"TMPDIR={policy.scratch}",
        "LANG=C.UTF-8",
        "PATH=/usr/local/bin:/usr/bin:/bin",
    }


@needs_isolation
def test_reads_only_what_is_allowed(policy, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("hunter2")
    script = f"cat {secret}/file; ls {secret}; cat /etc/passwd; ls /root /home /proc/{os.getpid()}"
    assert "hunter2" not in shell(script, policy).stdout
    assert shell(script, policy).stdout == ""
    allowed = replaced(policy, readable=(secret,))
    assert shell(f"cat {secret}/file", allowed).stdout == "hunter2"
    assert shell(f"echo x >> {secret}/file", allowed).returncode != 0
    assert (secret / "file").read_text() == "hunter2"


@needs_isolation
def test_writes_only_what_is_allowed(policy, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").write_text("")
    done = shell(f"echo x > {other}/new; rm {other}/kept; mv {other}/kept .; echo y > mine", policy)
    assert [path.name for path in other.iterdir()] == ["kept"]
    assert (policy.scratch / "mine").read_text() == "y\n", done.stderr
    shell(f"echo x > {other}/new", replaced(policy, writable=(other,)))
    assert (other / "new").read_text() == "x\n"


@needs_isolation
def test_links_do_not_lead_out(policy, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    (policy.scratch / "link").symlink_to(secret)
    assert (
        shell("cat link; ln -s ../secret own; cat own; ln ../secret hard; cat hard", policy).stdout
        == ""
    )


@needs_isolation
def test_network_and_other_sockets_are_cut(policy):
    script = """
import socket
for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"):
    try:
        socket.socket(getattr(socket, family), socket.SOCK_DGRAM)
        print("open", family)
    except OSError as error:
        print("refused")
"""
    assert python(script, policy).stdout.split() == ["refused"] * 4
    allowed = replaced(policy, unix_sockets=True)
    assert python(script, allowed).stdout.split() == [
        "refused",
        "refused",
        "open",
        "AF_UNIX",
        "refused",
    ]


@needs_isolation
def test_listening_server_of_the_host_is_out_of_reach(policy):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = (
            f"import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('reached')"
        )
        assert "reached" not in python(script, policy).stdout
        assert python(script, replaced(policy, network=True)).stdout == "reached\n"


def test_privileges_are_gone(policy):
    allowed = replaced(policy, readable=(Path("/proc"),))
    status = dict(
        line.split(":\t", 1)
        for line in shell("cat /proc/self/status", allowed).stdout.splitlines()
        if ":\t" in line
    )
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert status["Seccomp"] == "2"


def test_other_processes_cannot_be_signalled(policy):
    with subprocess.Popen(["sleep", "60"]) as other:
        shell(f"kill -9 {other.pid}; kill -9 -1", policy)
        time.sleep(0.05)
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize("grandchild", ["&", "setsid"])
def test_deadline_kills_grandchildren(policy, grandchild):
    mark = f"86400.{time.monotonic_ns()}"
    command = f"setsid sleep {mark} &" if grandchild == "setsid" else f"sleep {mark} {grandchild}"
    done = shell(f"{command}\necho started; sleep {mark}", replaced(policy, deadline_s=1.5))
    assert done.timed_out and done.returncode is None
    assert done.stdout == "started\n"
    assert done.sandbox == LEVEL.description
    assert marked_processes(mark) == []


def test_nothing_survives_a_command_that_ends(policy):
    mark = f"86400.{time.monotonic_ns()}"
    done = shell(f"setsid sleep {mark} >/dev/null 2>&1 & setsid sleep {mark} & exit 5", policy)
    assert (done.returncode, done.timed_out) == (5, False)
    assert marked_processes(mark) == []


def test_interrupt_kills_everything(tmp_path):
    """A supervisor that is interrupted, or killed outright, leaves nothing behind."""
    mark = f"86400.{time.monotonic_ns()}"
    code = (
        "from pathlib import Path\n"
        "from astra_kernels.jobs.sandbox import SandboxPolicy, run_sandboxed\n"
        f"policy = SandboxPolicy(scratch=Path({str(tmp_path)!r}), deadline_s=60)\n"
        f"run_sandboxed(['sh', '-c', 'setsid sleep {mark} & echo up > up; sleep {mark}'], policy=policy)\n"
    )
    for stop in (signal.SIGINT, signal.SIGKILL):
        (tmp_path / "up").unlink(missing_ok=True)
        with subprocess.Popen(
            [sys.executable, "-c", code], stderr=subprocess.DEVNULL
        ) as supervisor:
            wait_until((tmp_path / "up").exists)
            supervisor.send_signal(stop)
            supervisor.wait(10)
        wait_until(
            lambda: not [pid for pid in marked_processes(mark) if pid != str(supervisor.pid)]
        )


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


def test_output_is_bounded(policy):
    done = shell("head -c 5000000 /dev/zero | tr '\\0' x; echo end >&2", policy)
    assert done.returncode == 0 and done.stderr == "end\n"
    kept, said = done.stdout[:OUTPUT_LIMIT_BYTES], done.stdout[OUTPUT_LIMIT_BYTES:]
    assert set(kept) == {"x"}
    assert said == f"\n[truncated: {5000000 - OUTPUT_LIMIT_BYTES} bytes more]\n"


def test_file_size_limit_is_reported(policy):
    done = shell("head -c 100000 /dev/zero > big", replaced(policy, file_bytes=4096))
    assert done.returncode != 0
    assert "File too large" in done.stderr
    assert (policy.scratch / "big").stat().st_size == 4096


def test_processor_time_limit(policy):
    done = shell("while :; do :; done", replaced(policy, cpu_s=1))
    assert done.returncode in (-signal.SIGXCPU, -signal.SIGKILL)


def test_descriptors_are_passed_and_no_others(policy):
    read, write = os.pipe()
    os.set_blocking(read, False)
    other = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(other, True)
    script = f"""
import os
os.write({write}, b"result")
for descriptor in range(3, 100):
    try:
        os.fstat(descriptor)
        print(descriptor)
    except OSError:
        pass
"""
    try:
        done = python(script, replaced(policy, pass_fds=(write,)))
        assert os.read(read, 100) == b"result"
        assert done.stdout.split() == [str(write)]
    finally:
        for descriptor in (read, write, other):
            os.close(descriptor)


def test_many_threads_may_run_at_once(policy):
    results = []

    def work(number):
        results.append((number, shell(f"sleep 0.1; echo {number}", policy).stdout))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(number, f"{number}\n") for number in range(8)]


def test_without_namespaces_the_tree_still_dies(policy):
    """The launcher on a kernel that gives no namespaces: it reaps and kills by itself."""
    mark = f"86400.{time.monotonic_ns()}"
    code = (
        f"import sys; sys.path.insert(0, {str(Path(launch.__file__).parent)!r}); import launch\n"
        "launch.enter_namespaces = lambda spec: []\nlaunch.main()\n"
    )
    for script, ends in (
        (f"setsid sleep {mark} & exit 7", True),
        (f"setsid sleep {mark} & sleep {mark}", False),
    ):
        read, write = os.pipe()
        command = [sys.executable, "-I", "-c", code, str(write)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(write,)) as launcher:
            os.close(write)
            launcher.stdin.write(json.dumps(plain_specification(policy, script)).encode())
            launcher.stdin.close()
            if not ends:
                wait_until(lambda: len(marked_processes(mark)) >= 2)
                launcher.terminate()
            launcher.wait(10)
        lines = [json.loads(line) for line in os.read(read, 1 << 16).splitlines()]
        os.close(read)
        assert "namespaces" not in lines[0]["sandbox"]
        assert [line for line in lines if "returncode" in line] == (
            [{"returncode": 7}] if ends else []
        )
        assert marked_processes(mark) == []


def plain_specification(policy, script):
    return {
        "command": ["/bin/sh", "-c", script],
        "supervisor": os.getpid(),
        "bubblewrap": None,
        "cwd": str(policy.scratch),
        "environment": {"PATH": "/usr/bin:/bin"},
        "readable": ["/usr", "/bin", "/lib", "/lib64"],
        "writable": [str(policy.scratch)],
        "devices": ["/dev/null"],
        "network": False,
        "own_proc": False,
        "unix_sockets": False,
        "limits": {"RLIMIT_CORE": 0},
    }


def test_threads_can_be_named_where_proc_is_readable(policy):
    """The CUDA driver does so when it starts, and fails where it cannot."""
    allowed = replaced(policy, readable=(Path("/proc"),))
    script = """
import ctypes, threading, time
libc = ctypes.CDLL(None)
libc.pthread_setname_np.argtypes = [ctypes.c_ulong, ctypes.c_char_p]
thread = threading.Thread(target=time.sleep, args=(0.3,))
thread.start()
print(libc.pthread_setname_np(thread.ident, b"named"))
try:
    open("/proc/sys/kernel/core_pattern", "r+").close()
    print("open")
except OSError:
    print("refused")
"""
    assert python(script, allowed).stdout.split() == ["0", "refused"]


@needs_isolation
def test_processes_of_the_host_are_not_listed(policy):
    done = shell("ls /proc", replaced(policy, readable=(Path("/proc"),)))
    processes = [name for name in done.stdout.split() if name.isdigit()]
    if "process" not in done.sandbox and LEVEL.name != "bubblewrap":
        pytest.skip("no process namespace with a /proc here")
    assert str(os.getpid()) not in processes and len(processes) <= 4


def test_gpu_policy_runs_this_python_with_its_packages(tmp_path):
    policy = gpu_policy(tmp_path, 60.0, environment={"EXTRA": "1"})
    script = "import numpy, os; print(open('/proc/self/comm').read().strip(), os.environ['CUDA_CACHE_PATH'])"
    done = run_sandboxed([sys.executable, "-c", script], policy=policy)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == str(tmp_path / "nv-cache")


def test_level_says_why():
    assert LEVEL.name in ("bubblewrap", "landlock", "rlimits only")
    assert LEVEL.reason and "rlimits" in LEVEL.description
