"""The report in a real browser: it fits every width, and words stay whole on a phone."""

import pytest
from tests._review import copied

from tag2box.report import write_report

pytest.importorskip("selenium.webdriver")
from tests._browser import BROWSER, DRIVER, MISSING, started

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason=MISSING)

# How many lines the names of classes in the tables of words take.
LINES = """
return [...document.querySelectorAll("table.words tbody th")].map((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size;
});
"""


@pytest.fixture(scope="module")
def browser(review_run, tmp_path_factory):
    """A browser that has the report of a run in sight."""
    folder = tmp_path_factory.mktemp("report")
    page = write_report(copied(review_run, folder))
    driver = started(folder / "browser")
    driver.get(page.as_uri())
    yield driver
    driver.quit()


@pytest.mark.parametrize("width", [360, 1200, 2560])
def test_the_report_fits(browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    lines = browser.execute_script(LINES)
    assert lines
    assert set(lines) == {1}
    # About as many letters in a line as a book has.
    longest = "return Math.max(...[...document.querySelectorAll('p')].map((p) => p.clientWidth / "
    longest += "parseFloat(getComputedStyle(p).fontSize)))"
    assert browser.execute_script(longest) <= 60
