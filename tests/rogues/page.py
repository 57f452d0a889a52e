"""The part of docs/rogues.md that is made from the gallery."""

from .gallery import ROGUES

BEGIN, END = "<!-- gallery: written by scripts/docs -->", "<!-- end of the gallery -->"


def with_gallery(page: str) -> str:
    """The page with its tables of rogues and look-alikes as the gallery has them now."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{_tables()}\n{END}{after}"


def _tables() -> str:
    cheats = [r for r in ROGUES if not r.honest]
    honest = [r for r in ROGUES if r.honest]
    lines = [
        "| rogue | trick | on `sim:h200` | on a GPU | why |",
        "|---|---|---|---|---|",
        *(
            f"| `{r.name}` | {r.trick} | {_cell(r, 'sim')} | {_cell(r, 'gpu')} | {r.why} |"
            for r in cheats
        ),
        "",
        "These look like one of them and pass:",
        "",
        "| look-alike | what it does | not yet |",
        "|---|---|---|",
        *(f"| `{r.name}` | {r.trick} | {'; '.join(r.pending.values())} |" for r in honest),
    ]
    return "\n".join(lines) + "\n"


def _cell(rogue, device: str) -> str:
    outcomes = " or ".join(f"`{one}`" for one in getattr(rogue, device).split("|"))
    missing = rogue.pending.get(device)
    return f"{outcomes}; not yet: {missing}" if missing else outcomes
