"""Templates that lie beside the code that fills them, rendered strictly: a name that is missing is an error, not a blank."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined


def beside(package: str, folder: str, *, escape: bool = False) -> Environment:
    """The templates in a folder of a package; the same facts give the same bytes.

    Args:
        package: its full name.
        folder: where its templates lie, by their names.
        escape: whether facts are escaped, as HTML needs it.
    """

    def text(name: str) -> str | None:
        file = files(package).joinpath(folder, name)
        return file.read_text(encoding="utf-8") if file.is_file() else None

    return Environment(
        loader=FunctionLoader(text),
        undefined=StrictUndefined,
        autoescape=escape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
