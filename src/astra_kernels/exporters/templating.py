"""Templates beside this module, rendered strictly: a name that is missing is an error, not a blank."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined


def render(name: str, facts: dict[str, object]) -> str:
    """The template `templates/NAME`, filled in.

    Raises:
        jinja2.UndefinedError: it uses a fact that is not given.
    """
    return _environment().get_template(name).render(facts)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_text),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _text(name: str) -> str | None:
    file = files(__package__).joinpath("templates", name)
    return file.read_text(encoding="utf-8") if file.is_file() else None
