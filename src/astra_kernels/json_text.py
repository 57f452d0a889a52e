"""JSON from outside: a model's answer, a file that was copied here, a damaged log."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def parse_json(text: str | bytes, *, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """`json.loads`, for text that nobody vouches for.

    Raises:
        ValueError: it is not JSON, nests too deeply, or holds a number that is too long to be read.
    """
    try:
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # of all that is left, Python's limit of digits
        raise ValueError("a number in it has too many digits") from None
