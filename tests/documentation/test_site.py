"""The site builds without a warning from the Markdown as it stands, and opens without asking anybody for anything."""

import html.parser
import importlib.util
import re
import shutil
import subprocess
import sys

import pytest

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="needs pip install --group site"
)

_LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Loaded(html.parser.HTMLParser):
    """The addresses that a page loads of its own accord."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attributes):
        address = dict(attributes).get(_LOADING.get(tag, ""))
        if address and dict(attributes).get("rel") not in ("canonical", "prev", "next"):
            self.addresses.append(address)


def built(repository, target, *words):
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", target, *words],
        cwd=repository, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(repository, made_once):
    def make(place):
        done = built(repository, place / "site")
        assert done.returncode == 0, done.stderr

    return made_once("site", make) / "site"


def elsewhere(text):
    page = Loaded()
    page.feed(text)
    return [a for a in page.addresses if re.match(r"(\w+:)?//", a) and not a.startswith("data:")]


def test_it_builds_strictly_with_a_page_for_every_document(site, repository):
    pages = {path.stem for path in (repository / "docs").glob("*.md")}
    assert pages | {"quickstart", "architecture", "contributing"} <= {
        path.stem for path in site.glob("*.html")
    }


def test_no_page_loads_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    assert {p.name: elsewhere(p.read_text()) for p in pages if elsewhere(p.read_text())} == {}
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", style.read_text()), style


def test_what_is_loaded_from_elsewhere_is_found():
    assert elsewhere('<script src="https://cdn.example/x.js"></script><a href="https://a.example">')
    assert elsewhere('<link rel="stylesheet" href="//fonts.example/css">')
    assert not elsewhere('<link rel="stylesheet" href="assets/x.css"><a href="https://a.example">')


def test_links_to_the_root_and_to_folders_lead_to_pages(site):
    index = (site / "index.html").read_text()
    assert 'href="quickstart.html#two-commands"' in index and 'href="architecture.html"' in index
    assert 'href="tutorial/index.html"' in (site / "tutorial.html").read_text()
    assert "temperature_softmax.cu" in (site / "tutorial" / "index.html").read_text()


def test_a_broken_link_is_an_error(repository, tmp_path):
    for name in ("docs", "scripts"):
        shutil.copytree(
            repository / name, tmp_path / name, ignore=shutil.ignore_patterns("results", "gpu")
        )
    (tmp_path / "docs" / "results").mkdir()
    for path in [repository / "mkdocs.yml", repository / "LICENSE", *repository.glob("*.md")]:
        shutil.copy(path, tmp_path)
    with (tmp_path / "docs" / "faq.md").open("a") as page:
        page.write("\n[nowhere](nowhere.md)\n[no heading](timing.md#no-such-heading)\n")
    done = built(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr and "no-such-heading" in done.stderr


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_a_browser_asks_the_disk_only(site):
    with pytest.importorskip("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, asked = browser.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index", "quickstart", "tutorial", "simulator", "commands"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.locator("article h1").count() == 1
        browser.close()
    assert len(asked) > 10
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
