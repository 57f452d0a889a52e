"""Where the user stands is neither searched for modules nor readable for a candidate."""

import json
import os
import subprocess
import sys

import pytest

from astra_kernels.jobs.spec import RESULT_FILE

from .staging import SILU, stage
from .test_tampering import LAUNCH, tampered


@pytest.mark.parametrize("options", [[], ["-P"]])
def test_a_candidate_cannot_read_there(tmp_path, toolchain, build_cache, options):
    home = tmp_path / "home"
    home.mkdir()
    secret = home / "secret.txt"
    secret.write_text("a secret")
    read = f'if (sys(2, (long)"{secret}", 0, 0) >= 0) return 77;'
    job = stage(tmp_path / "job", tampered(read, SILU), tampered("", SILU))
    assert LAUNCH in SILU
    if options:
        for module in ("queue", "numpy", "json"):
            (home / f"{module}.py").write_text("raise SystemExit('shadowed')\n")
    words = [sys.executable, *options, "-m", "astra_kernels.jobs", str(job)]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [*words, "--cache", str(build_cache)],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((job / RESULT_FILE).read_text())["outcome"] == "passed"
