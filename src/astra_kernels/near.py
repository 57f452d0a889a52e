"""What somebody may have meant by a path that is not there."""

from __future__ import annotations

import difflib
from pathlib import Path


def near_names(path: Path, marker: str) -> str:
    """`; near: a, b`: directories beside `path` that hold a file `marker` and are called nearly so; "" for none."""
    folder = path.parent
    try:
        names = [p.name for p in folder.iterdir() if (p / marker).is_file()]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
    return f"; near: {', '.join(str(folder / name) for name in close)}" if close else ""
