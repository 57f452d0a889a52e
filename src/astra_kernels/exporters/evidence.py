"""`evidence.json`: everything that a pull request says, as data."""

from __future__ import annotations

import dataclasses
import hashlib
import json

from astra_kernels.exporters.proof import Engaged
from astra_kernels.exporters.pull_request import Told, word_of


def evidence(told: Told, engaged: tuple[Engaged, ...], patch: str, facts: dict[str, str]) -> str:
    """The document.

    Args:
        told: what the pull request is about.
        engaged: kernels that ran on the simulated device, by workload.
        patch: the patch.
        facts: further facts: the run, versions, the tree's commit.
    """
    winner, change, problem = told.winner, told.change, told.problem
    assert problem.provenance is not None, "find_originals refuses such a problem"
    document = {
        **facts,
        "modelled": winner.modelled,
        "candidate": winner.candidate.id,
        "namespace": change.namespace,
        "patch_sha256": hashlib.sha256(patch.encode(errors="surrogateescape")).hexdigest(),
        "provenance": problem.provenance.model_dump(mode="json"),
        "files_not_in_the_tree": list(told.missing),
        "faster_over_all_workloads": winner.everywhere,
        "steps": [{"title": s.title, "plan": s.plan.model_dump(mode="json")} for s in winner.steps],
        "guard": {
            "capability": change.guard.capability,
            "conditions": list(change.guard.conditions),
            "words": list(change.guard.words),
            "regions": [dataclasses.asdict(r) for r in change.regions],
        },
        "claims": {n: dataclasses.asdict(c) for n, c in winner.confirmation.claims.items()},
        "proofs": [{"name": p.name, "verdict": word_of(p), "said": p.said} for p in told.proofs],
        "engagement": [dataclasses.asdict(e) for e in engaged],
        "end_to_end": None
        if told.share is None
        else {
            **dataclasses.asdict(told.share),
            "share": told.share.share,
            "bound": told.share.bound,
        },
        "second_look": winner.remeasured.model_dump(mode="json"),
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"
