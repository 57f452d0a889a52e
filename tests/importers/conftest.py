import json

import pytest

DEFINITION = {
    "name": "scale",
    "axes": {"n": {"type": "var", "domain": {"min": 1, "max": 1000}}},
    "inputs": {
        "x": {"shape": ["n"], "dtype": "float32"},
        "factor": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
}
WORKLOAD = {
    "uuid": "one",
    "axes": {"n": 5},
    "inputs": {"x": {"type": "random"}, "factor": {"type": "scalar", "value": 2.0}},
}
SOLUTION = {
    "name": "scale_baseline",
    "definition": "scale",
    "author": "tests",
    "spec": {"language": "cuda", "binding": "c", "entry_point": "scale.cu::scale"},
    "sources": [{"path": "scale.cu"}],
}
KERNEL = 'extern "C" int scale(void*, float, void*, long long, void*) { return 0; }\n'
REFERENCE = "def run(x, factor):\n    return x * factor\n"


@pytest.fixture
def files():
    """A small, valid problem as file contents; tests change one thing and write it."""
    return {
        "definition.json": json.dumps(DEFINITION),
        "workload.jsonl": json.dumps(WORKLOAD) + "\n",
        "reference.py": REFERENCE,
        "baseline/solution.json": json.dumps(SOLUTION),
        "baseline/scale.cu": KERNEL,
    }


@pytest.fixture
def write(tmp_path):
    def write_files(files):
        root = tmp_path / "scale"
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text) if isinstance(text, bytes) else path.write_text(text)
        return root

    return write_files
