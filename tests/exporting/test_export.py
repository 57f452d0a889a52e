"""A patch from a finished run: what it changes, what is proved of it, and what is said."""

import json
import subprocess

from tests.exporting.conftest import git, state_of


def test_a_c_operator_with_changed_headers(scale, exported):
    before = state_of(scale / "engine")
    made = exported(scale)
    assert state_of(scale / "engine") == before
    proofs = {p.name: p for p in made.proofs}
    assert proofs["applies"].established
    assert proofs["verified"].established, proofs["verified"]
    assert proofs["engagement"].established, proofs["engagement"]
    evidence = json.loads((scale / "out" / "evidence.json").read_text())
    rows = evidence["engagement"]
    assert {r["inside"] for r in rows} == {True, False}
    for row in rows:
        assert all((evidence["namespace"] in k) == row["inside"] for k in row["kernels"]), row
        # the macro that the candidate defines anew means to the old code what it did
        assert row["blocks"] == [[512 if row["inside"] else 32, 1, 1]]
    made_file = (scale / "out/files/csrc/scale_astra.cuh").read_text()
    assert made_file.startswith("// SPDX-License-Identifier") and "unused" not in made_file
    subprocess.run(
        ["git", "apply", str(scale / "out" / "astra.patch")], cwd=scale / "engine", check=True
    )
    said = git(scale / "engine", "status", "--porcelain").split()
    assert said == ["M", "csrc/scale.cu", "??", "csrc/scale_astra.cuh"]
    changed = git(scale / "engine", "diff", "--unified=0").splitlines()
    assert not [x for x in changed if x.startswith("-") and not x.startswith("---")]
