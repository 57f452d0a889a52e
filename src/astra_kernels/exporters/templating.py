"""Templates beside this module, rendered strictly: a name that is missing is an error, not a blank."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment

from astra_kernels.templating import beside


def render(name: str, facts: dict[str, object]) -> str:
    """The template `templates/NAME`, filled in.

    Raises:
        jinja2.UndefinedError: it uses a fact that is not given.
    """
    return _environment().get_template(name).render(facts)


@cache
def _environment() -> Environment:
    return beside(__package__, "templates")
