"""docs/models.md says what the code does."""

import re

from astra_kernels.models import command_line, manual, opening, secrets
from astra_kernels.models.limits import Limits, Patience
from astra_kernels.models.providers import KEY_OF_A_URL


def guide(repository):
    return (repository / "docs" / "models.md").read_text()


def test_it_states_the_limits(repository):
    text, limits, patience = guide(repository), Limits(), Patience()
    assert f"({limits.max_output_tokens}, unless" in text
    assert f"One try may take {limits.request_s:g} s" in text
    assert (
        f"after {patience.first_wait_s:g} s, doubled each time up to {patience.longest_wait_s:g} s"
        in text
    )
    assert f"at most {patience.tries} tries and {patience.total_wait_s:g} s of waiting" in text
    assert f"{opening._CLI_TOKENS} more are set aside" in text
    assert limits.manual_s is None and manual._LOOK_S == 0.5


def test_it_states_the_commands(repository):
    text = " ".join(guide(repository).split())
    claude = " ".join(word or '""' for word in command_line._CLAUDE)
    assert f"`{claude}`" in text
    assert f"`{' '.join(command_line._CODEX)} -`" in text
    assert all(f"`{name}`" in text for name in command_line._KEPT)
    own = [b for beginnings in command_line._OWN.values() for b in beginnings]
    assert all(f"`{b}*`" in text for b in (*command_line._KEPT_BEGINNINGS, *own))


def test_it_states_the_keys(repository):
    text = guide(repository)
    assert all(f"`{ending}`" in text for ending in secrets._ENDINGS)
    assert f"(values from {secrets._SHORTEST} characters)" in text
    assert re.search(rf"in answers \(from\s{secrets._LONG}\)", text)
    assert f"`{KEY_OF_A_URL}`" in text
