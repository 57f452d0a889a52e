"""Prompts are text files beside this module, rendered strictly: a name that is missing is an error, not a blank."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment

from astra_kernels.templating import beside


def render(name: str, /, **facts: object) -> str:
    """The prompt of `prompts/NAME.md`. The same facts give the same bytes.

    Raises:
        jinja2.UndefinedError: the template uses a fact that is not given.
    """
    return _environment().get_template(f"{name}.md").render(**facts).strip() + "\n"


@cache
def _environment() -> Environment:
    return beside(__package__, "prompts")
