"""The page in a real browser: Chromium, headless, with the network watched."""

import shutil

import pytest

from astra_kernels.reporting.page import html

from .test_report import facts_of

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def browser():
    with pytest.importorskip("playwright.sync_api").sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(params=["measured", "modelled"])
def page_file(request, tmp_path, measured_run, modelled_run):
    target = tmp_path / "report.html"
    target.write_text(html(facts_of(measured_run if request.param == "measured" else modelled_run)))
    return target


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_opens_from_disk_in_silence(browser, page_file, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [page_file.as_uri()]
    for picture in page.locator("svg").all():
        box = picture.bounding_box()
        assert box["width"] > 300 and box["height"] > 60
    assert page.locator("svg").count() >= 4
    assert page.locator("svg .mark").count() > 10
    # Wide things scroll in their own boxes: a phone's page does not move sideways.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_everything_can_be_reached_from_the_keyboard(browser, page_file):
    page = browser.new_page()
    page.goto(page_file.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the verdict"
    page.keyboard.press("Enter")
    assert page.url.endswith("#verdict")
    reachable = page.locator("a[href], summary, [tabindex='0']").count()
    for _ in range(reachable):
        page.keyboard.press("Tab")
    page.close()
    assert reachable > 8


def test_it_reads_aloud(browser, page_file):
    page = browser.new_page()
    page.goto(page_file.as_uri())
    tree = page.locator("body").aria_snapshot()
    page.close()
    assert "heading" in tree and "table" in tree
    assert tree.count("- img") + tree.count('img "') >= 4  # pictures have names
    assert "banner" in tree and "main" in tree


def test_it_prints(browser, page_file):
    page = browser.new_page()
    page.goto(page_file.as_uri())
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()
