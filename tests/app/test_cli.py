"""The command line without a device: bad input, exit codes, generated documents."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys

import pytest


def astra(*arguments, cwd, **env):
    return subprocess.run(
        [sys.executable, "-m", "astra_kernels", *map(str, arguments)],
        cwd=cwd, env={**os.environ, "COLUMNS": "200", **env}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["optimize"], 2, "give a PROBLEM, or --resume RUN"),
        (["optimize", "no-such-problem"], 2, "not a problem directory"),
        (["optimize", "p", "--resume", "r"], 2, "give no PROBLEM, models, search or budget"),
        (["optimize", "--resume", "r", "--rounds", "9"], 2, "give no PROBLEM"),
        (["optimize", "{repo}/examples/silu_and_mul", "--model", ""], 2, "cli:COMMAND"),
        (
            ["optimize", "{repo}/examples/silu_and_mul", "--models.codng", "cli:x"],
            2,
            "--models.codng",
        ),
        (
            ["optimize", "{repo}/examples/silu_and_mul", "--models.coding", "cli:cat"],
            2,
            "no model for testing",
        ),
        (["optimize", "{repo}/examples/silu_and_mul", "--screen", "cuda:0"], 2, "--screen"),
        (["optimize", "{repo}/examples/silu_and_mul", "--agents", "multi"], 2, "--model NAME"),
        (["optimize", "{repo}/examples/silu_and_mul", "--device", "sim:nope"], 2, "h200"),
        (["optimize", "{repo}/examples/silu_and_mul", "--model", "nosuch:thing"], 2, "nosuch"),
        (
            ["optimize", "{repo}/examples/silu_and_mul", "--model", "cli:no-such-command-here"],
            3,
            "no-such-command-here",
        ),
        (["optimize", "{repo}/examples/silu_and_mul", "--rounds", "0"], 2, "--rounds"),
        (["optimize", "{repo}/examples/silu_and_mul", "--seconds", "-1"], 2, "--seconds"),
        (["optimize", "{repo}/examples/silu_and_mul", "--rounds", "many"], 2, "rounds"),
        (
            ["optimize", "{repo}/examples/silu_and_mul", "--run", "/proc/nope/run"],
            2,
            "cannot be written",
        ),
        (["optimize", "--resume", "nowhere"], 2, "no run here"),
        (["verify", "{repo}/examples/silu_and_mul", "missing.cu"], 2, "missing.cu"),
        (["verify", "{repo}/examples/silu_and_mul"], 2, "CANDIDATE is missing"),
        (["show", "nowhere"], 2, "no run here"),
        (["optimize", "{repo}/examples/silu_and_mul", "--seed", "-1"], 2, "--seed"),
        (["bench", "{repo}/examples/silu_and_mul", "--seed", "-1"], 2, "--seed"),
        (["schema", "everything"], 2, "definition, workload, solution, provenance, event"),
        (["frobnicate"], 2, "frobnicate"),
        (["worker", "nowhere"], 2, "job.json"),
        (["bench", "{repo}/examples/silu_and_mul", "--device", "sim:h9000"], 2, "h200"),
    ],
)
def test_bad_input_is_one_message_and_exit_code(arguments, code, message, repository, tmp_path):
    done = astra(*(a.replace("{repo}", str(repository)) for a in arguments), cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing half-written"


def test_a_full_run_directory_leaves_nothing_behind(repository, tmp_path):
    """A limit on file sizes stands in for a full disk."""
    command = f"ulimit -f 2; exec {sys.executable} -m astra_kernels optimize {repository}/examples/silu_and_mul --run run"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "run" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_compiler_is_exit_code_3(repository, tmp_path):
    """No nvcc and no wheels in sight, but g++: the job itself says what is missing."""
    problem = repository / "examples" / "silu_and_mul"
    done = astra(
        "bench",
        problem,
        "--device",
        "sim:h200",
        cwd=tmp_path,
        PATH="/usr/bin:/bin",
        CUDA_HOME="",
        CUDA_PATH="",
    )
    if done.returncode == 0:
        pytest.skip("the compiler's wheels are installed beside the package")
    assert done.returncode == 3, done.stderr
    assert "astra-kernels[toolchain]" in done.stderr


def test_modules_in_the_current_directory_are_not_imported(repository, tmp_path):
    (tmp_path / "queue.py").write_text("raise SystemExit('shadowed')")
    problem = repository / "examples" / "silu_and_mul"
    code = "import sys; from astra_kernels.app.cli import main; sys.argv = ['astra', *sys.argv[1:]]; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "verify", str(problem), str(problem / "baseline"), "--device", "sim:h200"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_doctor_speaks_json(tmp_path):
    done = astra("doctor", "--json", cwd=tmp_path)
    findings = {f["subject"]: f for f in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert findings["CUDA compiler"]["state"] == "ok"
    assert all(f["advice"] for f in findings.values() if f["state"] == "missing")


def test_doctor_without_a_compiler_says_what_to_do(tmp_path):
    """An empty PATH and no wheels in sight: exit code 3 and the install command."""
    done = astra("doctor", cwd=tmp_path, PATH=str(tmp_path), CUDA_HOME="", CUDA_PATH="")
    if "wheels" in done.stdout:
        pytest.skip("the compiler's wheels are installed beside the package")
    assert done.returncode == 3
    assert "astra-kernels[toolchain]" in done.stdout


@pytest.mark.parametrize("script", ["docs", "tables"])
def test_generated_documents_are_up_to_date(repository, script):
    path = str(repository / "scripts" / script)
    loader = importlib.machinery.SourceFileLoader(f"scripts_{script}", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    for document, text in module.generated().items():
        assert document.read_text() == text, f"{document} is stale: run scripts/{script}"
