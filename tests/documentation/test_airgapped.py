"""docs/airgapped.md names the packages, scripts and exit codes that there are."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import astra_kernels


@pytest.fixture
def page(repository):
    return (repository / "docs" / "airgapped.md").read_text()


def test_it_carries_what_the_package_asks_for(page, repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    carried = set(re.findall(r"'([^']+)'", page.partition("pip download")[2].partition("```")[0]))
    light = {r for r in project["dependencies"] if re.match(r"numpy|ml_dtypes", r)}
    toolchain = {r for r in extras["toolchain"] if not r.startswith("astra-kernels")}
    assert carried == light | toolchain | {*extras["disassembler"], *extras["gpu"]}
    assert f"`{extras['tvm-ffi'][0]}`" in page


def test_it_names_every_script_for_a_gpu_machine(page, repository):
    scripts = {f"scripts/gpu/{path.name}" for path in (repository / "scripts/gpu").glob("*.py")}
    assert set(re.findall(r"^\| `(scripts/gpu/\w+\.py)` \|", page, re.MULTILINE)) == scripts


def worker(*words, cwd):
    sources = str(Path(astra_kernels.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "astra_kernels.jobs.worker", *words],
        cwd=cwd, env={"PYTHONPATH": sources, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_the_worker_of_the_page_starts_from_the_sources_alone(page, tmp_path):
    """Its command line is understood; a directory that is no spool ends it with the status that the page says."""
    (command,) = re.findall(r"python -m astra_kernels\.jobs\.worker (.*)", page)
    done = worker(*command.split(), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "no spool here" in done.stderr
    assert "| 2 | the directory is no spool |" in page
