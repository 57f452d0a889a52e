"""Imports go one way, importing does nothing, and the light tier stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "astra_kernels"

# Each layer may import itself and what is named here; siblings that are not named do not see each other.
ALLOWED = {
    "errors": set(),
    "json_text": set(),
    "near": set(),
    "templating": set(),
    "records": {"errors"},
    "protocols": {"records", "errors"},
    "simulator": {"errors"},
    "languages": {"json_text", "errors"},
    "devices": {"simulator", "languages", "records", "errors"},
    "jobs": {"json_text", "devices", "languages", "simulator", "records", "errors"},
    "importers": {"json_text", "near", "records", "errors", "protocols"},
    "reporting": {"templating", "records", "errors"},
    "exporters": {
        "templating",
        "extraction",
        "evaluation",
        "jobs",
        "records",
        "errors",
        "protocols",
    },
    "extraction": {"importers", "evaluation", "jobs", "languages", "records", "errors"},
    "store": {"json_text", "near", "records", "errors"},
    "memory": {"records", "errors"},
    "search": {"records", "protocols", "errors"},
    "evaluation": {"jobs", "protocols", "records", "errors"},
    "agents": {"templating", "json_text", "protocols", "records", "errors"},
    "models": {"json_text", "records", "errors"},
    "baseline": {"records", "errors"},
    "rounds": {"protocols", "records", "errors"},
    "optimize": {"baseline", "rounds", "evaluation", "protocols", "records", "errors"},
}
LIGHT = ("simulator", "languages", "devices", "jobs")
LIGHT_RECORDS = {
    "astra_kernels.records",
    "astra_kernels.records.evaluation",
    "astra_kernels.records.dtypes",
}
LIGHT_FOREIGN = {"numpy"}
LAZY_IN_LIGHT = {"ml_dtypes", "torch", "safetensors", "cuda"}


def layer(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    """(module, is it at the top level) for every import of a file."""
    tree = ast.parse(path.read_text())
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) not in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module, id(node) not in inside


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down_only(path):
    own = layer(path)
    if own in ("app", "__init__", "__main__"):
        return
    for module, _ in imports(path):
        if module.startswith("astra_kernels."):
            target = module.split(".")[1]
            assert target == own or target in ALLOWED[own], f"{own} imports {module}"


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if layer(p) in LIGHT], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_light_tier_imports_stdlib_and_numpy_only(path):
    for module, at_top in imports(path):
        root = module.split(".")[0]
        if root == "astra_kernels":
            if module.startswith("astra_kernels.records"):
                assert module in LIGHT_RECORDS, f"{module} needs pydantic"
        elif root not in sys.stdlib_module_names and root not in LIGHT_FOREIGN:
            assert root in LAZY_IN_LIGHT and (
                not at_top or (root == "cuda" and layer(path) == "devices")
            ), module


def run_python(code):
    return subprocess.run(
        [sys.executable, "-I", "-B", "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_worker_runs_without_pydantic_and_friends():
    done = run_python(
        "import sys\n"
        "for name in ('pydantic', 'ml_dtypes', 'torch', 'safetensors', 'cyclopts', 'rich', 'tree_sitter', 'cuda', 'tvm_ffi'):\n"
        "    sys.modules[name] = None\n"
        "import astra_kernels.jobs.run_job, astra_kernels.jobs.__main__, astra_kernels.jobs.worker\n"
    )
    assert done.returncode == 0, done.stderr


def test_importing_the_package_does_no_io_and_stays_light():
    done = run_python(
        "import sys\n"
        "seen = []\n"
        "def hook(event, args):\n"
        "    if event in ('socket.connect', 'subprocess.Popen', 'os.mkdir', 'os.system') or (\n"
        "            event == 'open' and args[1] and any(c in str(args[1]) for c in 'wax+')):\n"
        "        seen.append((event, args))\n"
        "sys.addaudithook(hook)\n"
        "import astra_kernels\n"
        "assert not {'torch', 'numpy', 'pydantic', 'openai', 'anthropic'} & sys.modules.keys()\n"
        "import astra_kernels.app.commands, astra_kernels.optimize\n"
        "heavy = {'torch', 'openai', 'anthropic', 'pydantic_ai', 'cuda'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
        "assert not seen, seen\n"
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_help_imports_neither_numpy_nor_pydantic():
    done = run_python(
        "import sys\n"
        "from astra_kernels.app import cli\n"
        "assert not {'numpy', 'pydantic', 'tree_sitter'} & sys.modules.keys()\n"
    )
    assert done.returncode == 0, done.stderr
