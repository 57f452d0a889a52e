"""Files and functions stay small enough to read."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "astra_kernels"
SOURCES = sorted(PACKAGE.rglob("*.py"))
NATIVE = sorted(p for p in PACKAGE.rglob("*") if p.suffix in {".c", ".cpp", ".h"})
FILE_LINES, FUNCTION_LINES, PARAMETERS = 400, 60, 6
# Options of a command line are documented one by one; they end in a record at once.
MANY_PARAMETERS = {"app/verbs_judging.py", "app/verbs_serving.py", "app/verbs_sources.py"}


def name(path):
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", [*SOURCES, *NATIVE], ids=name)
def test_file_is_short(path):
    assert len(path.read_text().splitlines()) <= FILE_LINES


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_functions_are_short_and_take_few_parameters(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= FUNCTION_LINES, f"{node.name}: {length} lines"
            count = len(
                [
                    a
                    for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                    if a.arg not in ("self", "cls")
                ]
            )
            assert count <= PARAMETERS or name(path) in MANY_PARAMETERS, (
                f"{node.name}: {count} parameters"
            )


def test_the_loop_and_the_seams_fit_on_a_page():
    assert len((PACKAGE / "optimize.py").read_text().splitlines()) <= 220
    assert len((PACKAGE / "protocols.py").read_text().splitlines()) <= 120
