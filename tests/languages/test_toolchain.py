"""Finding nvcc in each place, in order, and what is said where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from astra_kernels.errors import ToolchainNotFound
from astra_kernels.languages.cuda.build import build
from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.request import BuildRequest
from astra_kernels.languages.cuda.sass import instruction_mix
from astra_kernels.languages.cuda.toolchain import find_toolchain

WITHOUT_CUDA = {"PATH": "/usr/bin:/bin"}
WHEELS = ["cuda-toolkit[cccl,crt,cudart,nvcc,nvvm]==13.0.2", "nvidia-cuda-nvdisasm>=13.2,<14"]


def pretend_nvcc(directory: Path, version: str) -> Path:
    """A toolkit whose nvcc only says its version and root."""
    (directory / "bin").mkdir(parents=True)
    (directory / "lib").mkdir()
    (directory / "lib" / "libcudart.so.12").touch()
    nvcc = directory / "bin" / "nvcc"
    nvcc.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = --version ] && echo "Cuda compilation tools, V{version}" '
        f"|| echo '#$ TOP={directory}' >&2\n"
    )
    nvcc.chmod(0o755)
    return nvcc


def test_places_in_order(tmp_path):
    given, home, cuda_path, on_path, wheel = (
        pretend_nvcc(tmp_path / name, "12.8.93")
        for name in ("given", "home", "cuda_path", "on_path", "site/nvidia/cu12")
    )
    environment = {
        "CUDA_HOME": str(home.parent.parent),
        "CUDA_PATH": str(cuda_path.parent.parent),
        "PATH": f"{on_path.parent}:/usr/bin:/bin",
    }
    site = [tmp_path / "site"]
    found = find_toolchain(environment, nvcc=given, site_packages=site)
    assert (found.nvcc, found.origin, found.version) == (given, "given", "12.8.93")
    assert find_toolchain(environment, nvcc=given.parent.parent, site_packages=site) == found
    for variable, nvcc in (("CUDA_HOME", home), ("CUDA_PATH", cuda_path)):
        found = find_toolchain(environment, site_packages=site)
        assert (found.nvcc, found.origin) == (nvcc, variable)
        del environment[variable]
    assert find_toolchain(environment, site_packages=site).origin == "PATH"
    found = find_toolchain(WITHOUT_CUDA, site_packages=site)
    assert (found.nvcc, found.origin) == (wheel, "wheels")
    assert found.cudart == "libcudart.so.12"


def test_a_script_on_path_leads_to_the_real_toolkit(toolchain, tmp_path):
    script = tmp_path / "nvcc"
    script.write_text(f'#!/bin/sh\nexec {toolchain.nvcc} "$@"\n')
    script.chmod(0o755)
    found = find_toolchain({"PATH": f"{tmp_path}:/usr/bin:/bin"}, site_packages=[])
    assert (found.nvcc, found.root) == (toolchain.nvcc, toolchain.root)


def test_older_compiler_is_passed_over(tmp_path):
    old = pretend_nvcc(tmp_path / "old", "12.6.20")
    new = pretend_nvcc(tmp_path / "site/nvidia/cu13", "13.0.88")
    environment = {"PATH": f"{old.parent}:/usr/bin:/bin"}
    assert find_toolchain(environment, site_packages=[tmp_path / "site"]).nvcc == new
    with pytest.raises(ToolchainNotFound, match=r"is CUDA 12\.6\.20; 12\.8 or newer is needed"):
        find_toolchain(environment, site_packages=[])


def test_nothing_found_says_what_to_install():
    with pytest.raises(ToolchainNotFound, match=r"pip install 'astra-kernels\[toolchain\]'"):
        find_toolchain(WITHOUT_CUDA, site_packages=[])


def test_given_path_is_not_replaced_by_another(tmp_path):
    with pytest.raises(ToolchainNotFound, match="absent/nvcc does not exist"):
        find_toolchain(os.environ, nvcc=tmp_path / "absent" / "nvcc")


def test_missing_host_compiler_is_named(tmp_path):
    with pytest.raises(ToolchainNotFound, match=r"g\+\+"):
        find_toolchain({"PATH": str(tmp_path)})


@pytest.mark.full
def test_wheels_alone_build_and_disassemble(tmp_path, launcher):
    """Needs a package index; everything else on this machine is kept out of the way."""
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(site), *WHEELS]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    toolchain = find_toolchain(WITHOUT_CUDA, site_packages=[site])
    assert (toolchain.origin, toolchain.version[:4]) == ("wheels", "13.0")
    request = BuildRequest(sources={"k.cu": launcher}, entry_symbols=("run",))
    built = build(request, toolchain, tmp_path / "cache")
    assert isinstance(built, Built), built
    assert instruction_mix(built, toolchain)[0].classes["fp16"] >= 1
