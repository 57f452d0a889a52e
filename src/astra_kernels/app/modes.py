"""What a run is unless the user says otherwise, by mode and strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from astra_kernels.errors import UserError
from astra_kernels.records.model_calls import Role
from astra_kernels.records.run import RunConfig

_SIZES: Mapping[tuple[str, str], tuple[int, int]] = {
    ("linear", "rules"): (1, 3),
    ("linear", "multi"): (1, 1),
    ("linear", "single"): (1, 1),
    ("linear", "hybrid"): (1, 3),
    ("beam", "rules"): (2, 4),
    ("beam", "multi"): (4, 4),
    ("beam", "single"): (2, 2),
    ("beam", "hybrid"): (3, 6),
}
"""Plans that are carried out in a round, and candidates that are judged for them."""


def resolved(given: Mapping[str, object], *, device: str) -> RunConfig:
    """The configuration of a run: what the user gave, and the usual values for the rest.

    Raises:
        ValidationError: a value is out of range.
        UserError: a mode that needs a model has none, or the other way round.
    """
    settings = {"device": device, "strategy": "beam", **given}
    settings.setdefault("agents", "multi" if given.get("model") or given.get("models") else "rules")
    plans, candidates = _SIZES.get(
        (str(settings["strategy"]), str(settings["agents"])),
        (1, 1),  # refused below
    )
    settings.setdefault("plans_per_round", plans)
    settings.setdefault(
        "candidates_per_round", max(candidates, int(str(settings["plans_per_round"])))
    )
    config = RunConfig.model_validate(settings)
    if "" in (config.model, *config.models.values()):
        raise UserError("--model: a model is PROVIDER:MODEL, cli:COMMAND, manual:DIR or replay:RUN")
    if config.strategy == "beam" and not config.keep_best:
        raise UserError("--replace-always is the paper's line of versions: --strategy linear")
    if config.screen is not None and not config.screen.startswith("sim:"):
        raise UserError(f"--screen: a simulated device such as sim:h200, not {config.screen}")
    if config.screen == config.device:
        raise UserError(f"--screen: {config.screen} is the device that judges anyway")
    if config.agents == "rules" and (config.model or config.models):
        raise UserError(
            "--agents rules asks no model; leave out --model, or choose multi, single or hybrid"
        )
    rest = [role for role in get_args(Role) if role not in config.models]
    if config.agents != "rules" and not config.model and rest:
        raise UserError(
            f"no model for {', '.join(rest)}: --model NAME, such as anthropic:NAME or cli:claude, serves all roles"
        )
    return config
