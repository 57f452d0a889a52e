"""What the site needs besides docs/: the Markdown files of the root, and lists of folders that pages link to.

The sources stay as a forge shows them. A link to `../README.md` in docs/, or to `docs/x.md` in the root, is
turned to the page of the site; a link to a folder, which a forge lists, goes to a list of its files.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = {
    "README.md": "quickstart.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "LICENSE.txt",
}
"""Files of the repository's root, and what they are called in the site."""

_LINK = re.compile(
    r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))|(?<=^\]: )(?!\w+:)([^\s#]+)(#\S*)?"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files of the root, and a list of files for every folder that a page links to."""
    docs = Path(config.docs_dir)
    for name, page in ROOT.items():
        text = _turned((docs.parent / name).read_text(), docs, "", in_root=True)
        files.append(File.generated(config, page, content=text))
    for source in sorted(docs.glob("*.md")):
        for match in _LINK.finditer(source.read_text()):
            folder = docs / (match[1] or match[3])
            page = posixpath.join(match[1] or match[3], "index.md")
            inside = not page.startswith("..")
            if inside and folder.is_dir() and page not in files.src_uris:
                files.append(File.generated(config, page, content=_listing(folder)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links that leave docs/, and links to folders."""
    if page.file.generated_by is not None:
        return markdown
    docs = Path(config.docs_dir)
    return _turned(markdown, docs, posixpath.dirname(page.file.src_uri), in_root=False)


def _turned(markdown: str, docs: Path, folder: str, *, in_root: bool) -> str:
    def turned(match: re.Match[str]) -> str:
        target, anchor = match[1] or match[3], match[2] or match[4] or ""
        if in_root:
            target = target.removeprefix("docs/")
        target = ROOT.get(target.removeprefix("../"), target)
        if (docs / folder / target).is_dir():
            target = posixpath.join(target, "index.md")
        return target + anchor

    return _LINK.sub(turned, markdown)


def _listing(folder: Path) -> str:
    """A page that lists a folder's files."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [
        f"- [{path.relative_to(folder)}]({path.relative_to(folder).as_posix()})" for path in found
    ]
    return f"# {folder.name}\n\n" + "\n".join(lines) + "\n"
