# SPDX-License-Identifier: Apache-2.0
# Copyright: the Astra authors.

"""Builds `python/minillm/_C.so` with nvcc against the installed torch: `python build.py [--jobs N]`.

Environment: CUDACXX or CUDA_HOME say where nvcc is (default: on the PATH), TORCH_CUDA_ARCH_LIST what is compiled for
(default: 9.0).
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
TARGET = ROOT / "python" / "minillm" / "_C.so"
NVCC_FLAGS = ["-O3", "-std=c++20", "--expt-relaxed-constexpr", "--expt-extended-lambda"]
LIBRARIES = ["c10", "c10_cuda", "torch_cpu", "torch_cuda"]


def nvcc() -> str:
    """The compiler; ends the program where there is none."""
    home = os.environ.get("CUDA_HOME")
    found = os.environ.get("CUDACXX") or (f"{home}/bin/nvcc" if home else shutil.which("nvcc"))
    if not found:
        sys.exit("nvcc is not on the PATH; set CUDACXX or CUDA_HOME")
    return found


def torch_directory() -> Path:
    """Where the installed torch lies, which is not imported."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("torch is not installed: see https://pytorch.org")
    return Path(next(iter(spec.submodule_search_locations)))


def architectures() -> list[str]:
    """Flags for every architecture that is asked for."""
    listed = os.environ.get("TORCH_CUDA_ARCH_LIST") or "9.0"
    plain = [one.removesuffix("+PTX").replace(".", "") for one in listed.replace(";", " ").split()]
    return [f"-gencode=arch=compute_{one},code=sm_{one}" for one in plain]


def main() -> int:
    """Compiles every file of csrc, and links them."""
    parser = argparse.ArgumentParser(description="Build minillm's operators.")
    parser.add_argument("--jobs", type=int, default=2, help="how many files at a time")
    options = parser.parse_args()
    torch = torch_directory()
    include = [ROOT / "include", torch / "include", torch / "include/torch/csrc/api/include"]
    flags = [*NVCC_FLAGS, "-Xcompiler", "-fPIC", *architectures(), f"-I{include[0]}"]
    flags += [word for place in include[1:] for word in ("-isystem", str(place))]
    for place in sorted(
        torch.parent.glob("nvidia/*/include")
    ):  # cuBLAS and others, which torch includes
        flags += ["-Xcompiler", f"-idirafter,{place}"]
    objects = ROOT / "build"
    objects.mkdir(exist_ok=True)
    sources = sorted([*ROOT.glob("csrc/*.cu"), *ROOT.glob("csrc/*.cc")])

    def compiled(source: Path) -> str:
        target = objects / f"{source.name}.o"
        command = [nvcc(), *flags, "-x", "cu", "-c", str(source), "-o", str(target)]
        subprocess.run(command, check=True)
        return str(target)

    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            made = list(pool.map(compiled, sources))
        # The CUDA runtime is the one that torch has loaded.
        link = [nvcc(), "-shared", "-cudart", "none", *made, f"-L{torch / 'lib'}"]
        subprocess.run([*link, *(f"-l{name}" for name in LIBRARIES), "-o", str(TARGET)], check=True)
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    print(f"wrote {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
