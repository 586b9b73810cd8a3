"""A real browser without a window, and what a person does on the review page."""

import shutil
import time

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from tests._events import by_name

# Debian's, or that of GitHub's machines.
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = "no browser here: apt-get install chromium chromium-driver"
# Seconds to wait for what takes a fraction of one: this machine may be busy.
PATIENCE = 300
# A change of the layout is drawn in the frame after it.
TWO_FRAMES = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
NOTE_CLICK = "window.clicked = false; arguments[0].addEventListener('click', () => (window.clicked = true))"
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking "
    "--disable-component-update --disable-sync --no-first-run --window-size=1280,800"
)


def started(folder):
    """The browser, with its files in `folder`."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for option in [*OPTIONS.split(), f"--user-data-dir={folder}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(DRIVER))


class Page:
    """What a person does on the page."""

    def __init__(self, browser, run):
        self.browser, self.run = browser, run

    def open(self, address):
        self.problems()  # those of another test
        self.browser.get(address)
        self.until(lambda: self.find("body").get_attribute("data-ready"))
        return self

    def until(self, true):
        return WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05).until(lambda _: true())

    def find(self, css):
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def text(self, css):
        return self.browser.execute_script("return document.querySelector(arguments[0]).textContent", css)

    def press(self, *keys, held=None):
        chain = ActionChains(self.browser)
        for key in keys:
            chain = chain.key_down(held).send_keys(key).key_up(held) if held else chain.send_keys(key)
        chain.perform()

    def touch(self, kind, *points):
        """Fingers at these points of the window."""
        fingers = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)]
        self.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

    def tap(self, element):
        """With one finger; again where Chromium makes no click of it, as of touches in quick succession."""
        for _ in range(3):
            self.browser.execute_script(NOTE_CLICK, element)
            time.sleep(0.5)
            finger = ActionBuilder(self.browser, mouse=PointerInput("touch", "finger"))
            finger.pointer_action.move_to(element).pointer_down().pointer_up()
            finger.perform()
            end = time.monotonic() + 5
            while time.monotonic() < end:
                if self.browser.execute_script("return window.clicked"):
                    return
                time.sleep(0.05)
        raise AssertionError("three taps, and no click")

    def saved(self):
        """Wait until the page says so and is drawn anew; what is on the disk then."""
        self.until(lambda: self.text("#saved") == "saved")
        self.browser.execute_async_script(TWO_FRAMES)
        return by_name(self.run)

    def drag(self, css, dx, dy):
        """From a box that the page may draw anew between a look and a grip: then it is tried again."""
        WebDriverWait(
            self.browser, PATIENCE, 0.05, ignored_exceptions=[StaleElementReferenceException]
        ).until(lambda _: self._drag(css, dx, dy))

    def _drag(self, css, dx, dy):
        ActionChains(self.browser).click_and_hold(self.find(css)).move_by_offset(dx, dy).release().perform()
        return True

    def only(self, name, order="name"):
        """The photo of that name in sight."""
        Select(self.find("#order")).select_by_value(order)
        for _ in range(len(self.find("#search").get_attribute("value"))):
            self.find("#search").send_keys(Keys.BACKSPACE)
        self.find("#search").send_keys(name, Keys.ESCAPE)
        self.until(lambda: self.text("#name") == name and self.text("#place") == "1 of 1")

    def problems(self):
        """What the browser complained about: errors, and what the content policy stopped."""
        return [e["message"] for e in self.browser.get_log("browser")]
