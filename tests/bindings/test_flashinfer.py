"""FlashInfer's own operators, with their own signatures, out of its installed package."""

import ast
import importlib.util
import json
from pathlib import Path

import jinja2
import pytest

pytestmark = [pytest.mark.flashinfer, pytest.mark.tvm_ffi]

FLAGS = ["-use_fast_math", "-DFLASHINFER_ENABLE_F16", "-DFLASHINFER_ENABLE_BF16"]
HEADERS = [
    {"distribution": "flashinfer-python", "version": "0.7.4", "root": f"flashinfer/data/{folder}"}
    for folder in ("csrc", "include")
]
EMPTY = ("cublasLt.h", "cublas_v2.h", "curand_kernel.h")
PDL = {"name": "enable_pdl", "ctype": "bool", "value": False}


@pytest.fixture(scope="module")
def package():
    (place,) = importlib.util.find_spec("flashinfer").submodule_search_locations
    return Path(place)


def written(root, name, text, extra, arguments):
    """Puts one operator in place of a problem's baseline."""
    baseline = root / "baseline"
    for file in baseline.glob("*.cu"):
        file.unlink()
    (baseline / f"{name}.cu").write_text(text)
    for header in extra:
        (baseline / header).write_text("// Empty on purpose.\n")
    solution = json.loads((baseline / "solution.json").read_text())
    solution["spec"] |= {
        "entry_point": f"{name}.cu::{name}",
        "compile_options": {"cuda_cflags": FLAGS},
        "headers": HEADERS,
        "arguments": arguments,
    }
    solution["sources"] = [{"path": p} for p in (f"{name}.cu", *extra)]
    (baseline / "solution.json").write_text(json.dumps(solution))
    return root


def test_silu_and_mul_as_flashinfer_generates_it(package, copied, judged):
    tree = ast.parse((package / "jit" / "activation.py").read_text())
    texts = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    made = jinja2.Template(texts["activation_templ"]).render(
        act_func_name="silu", act_func_def=texts["silu_def_cu_str"]
    )
    root = copied("tvm_ffi_silu_and_mul")
    written(root, "silu_and_mul", made, (), ["out", "x", PDL])
    outcome = judged(root, hidden=7)
    assert outcome.outcome == "passed", outcome


@pytest.mark.full
def test_rmsnorm_of_its_csrc(package, copied, judged):
    text = (package / "data" / "csrc" / "norm.cu").read_text()
    start, end = text.index("void rmsnorm("), text.index("void rmsnorm_quant(")
    made = (
        '#include <flashinfer/norm.cuh>\n#include "tvm_ffi_utils.h"\nusing namespace flashinfer;\n'
        f"{text[start:end]}TVM_FFI_DLL_EXPORT_TYPED_FUNC(rmsnorm, rmsnorm);\n"
    )
    root = copied("tvm_ffi_rmsnorm")
    written(root, "rmsnorm", made, EMPTY, ["out", "x", "weight", "eps", PDL])
    outcome = judged(root, hidden=7)
    assert outcome.outcome == "passed", outcome
    wrong = written(root, "rmsnorm", made, EMPTY, ["out", "x", "x", "eps", PDL])
    outcome = judged(wrong)
    assert outcome.outcome == "crashed" and "weight must be a 1D tensor" in outcome.detail
