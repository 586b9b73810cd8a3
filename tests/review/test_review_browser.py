"""The whole loop in a real browser: correct by mouse and by keys, reload, restart, learn again, export."""

import time
from contextlib import contextmanager
from itertools import groupby

import httpx
import numpy as np
import pytest
from PIL import Image
from tests._events import by_name, correct, reviewed
from tests._review import Server, copied, own_run
from tests._serving import served

from tag2box import read_images
from tag2box.review.server import make_app
from tag2box.review.session import Session
from tag2box.run.corrections import corrected_boxes
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder
from tag2box.web.access import Access
from tag2box.web.listening import address as listening_at
from tag2box.web.listening import listening, new_token

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from tests._browser import BROWSER, DRIVER, MISSING, Page, started

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason=MISSING)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = started(tmp_path_factory.mktemp("browser"))
    yield driver
    driver.quit()


@pytest.fixture
def run(review_run, tmp_path):
    return copied(review_run, tmp_path)


@contextmanager
def opened(session):
    """The address of a server in a thread of this process: to start another takes seconds."""
    with listening("127.0.0.1", 0) as place:
        port, token = place.getsockname()[1], new_token()
        with served(make_app(session, token, "127.0.0.1", port), place):
            yield listening_at(Access("127.0.0.1", port, token))


@pytest.fixture
def address(run):
    with opened(Session(run)) as address:
        yield address


@pytest.fixture
def page(browser, run, address):
    return Page(browser, run).open(address)


def test_correct_by_mouse(page, run):
    page.only("toy-02")
    page.find("[data-do=accept]").click()
    (accepted,) = page.saved().photo("toy-02").accepted()
    assert accepted.found == (accepted.name, accepted.xyxy)
    page.drag(".box.selected [data-handle=nw]", 40, 60)  # resize
    (resized,) = page.saved().photo("toy-02").accepted()
    assert resized.found == accepted.found
    assert resized.xyxy[0] > accepted.xyxy[0]
    assert resized.xyxy[1] > accepted.xyxy[1]
    assert resized.xyxy[2:] == accepted.xyxy[2:]
    page.drag(".box", -20, -10)  # move
    (moved,) = page.saved().photo("toy-02").accepted()
    assert moved.xyxy[0] < resized.xyxy[0]
    width = [b.xyxy[2] - b.xyxy[0] for b in (resized, moved)]
    assert width[0] == pytest.approx(width[1], abs=0.3)
    page.drag(".box.selected [data-handle=e]", 30, 25)  # an edge: no other side moves
    (wider,) = page.saved().photo("toy-02").accepted()
    assert wider.xyxy[2] > moved.xyxy[2]
    assert [*wider.xyxy[:2], wider.xyxy[3]] == [*moved.xyxy[:2], moved.xyxy[3]]
    page.find("[data-do=draw]").click()
    stage = page.find("#stage")
    ActionChains(page.browser).move_to_element_with_offset(stage, -120, -120).click_and_hold().move_by_offset(
        60, 60
    ).release().perform()
    drawn = [b for b in page.saved().photo("toy-02").accepted() if b.found is None]
    assert len(drawn) == 1
    page.find("[data-do=remove]").click()  # a drawn box that is deleted was never there
    assert len(page.saved().photo("toy-02").boxes) == 1
    page.find("[data-do=undo]").click()
    assert len(page.saved().photo("toy-02").boxes) == 2
    for _ in range(5):
        page.find("[data-do=undo]").click()
    assert page.saved().photos == {}
    page.find("[data-do=redo]").click()
    assert page.saved().photo("toy-02").accepted() == [accepted]
    Select(page.find("#box-list select")).select_by_visible_text("other")
    assert page.saved().photo("toy-02").accepted()[0].name == "other"
    assert page.problems() == []


PLACE = "const r = document.querySelector('#photo').getBoundingClientRect();"
PLACE += "return [r.x, r.y, r.width, r.height]"


def dragged(page, x, y, to_x, to_y):
    """From one place of the photo to another, in shares of its sides; the guide lines, while it goes on."""
    left, top, width, height = page.browser.execute_script(PLACE)
    at = [(int(left + u * width), int(top + v * height)) for u, v in ((x, y), (to_x, to_y))]
    chain = ActionBuilder(page.browser)
    chain.pointer_action.move_to_location(*at[0]).pointer_down().move_to_location(*at[1])
    chain.perform()
    lines = page.find("#guides").is_displayed()
    chain = ActionBuilder(page.browser)
    chain.pointer_action.pointer_up()
    chain.perform()
    return lines


def test_a_class_stays_chosen_and_its_tag_ticks(page, run):
    """The class of the last box is that of the next, where the photo has it."""
    page.only("toy-02")  # tagged "thing" alone
    ticked = "return [...document.querySelectorAll('#tags input')].map((each) => each.checked)"
    assert page.browser.execute_script(ticked) == [False, True]
    page.press("x")  # to have room
    assert "no thing" in page.text("#teaches")
    page.press("d")
    assert dragged(page, 0.02, 0.02, 0.3, 0.3)
    assert not page.find("#guides").is_displayed()
    page.press("1")  # it is of the other class
    assert [box.name for box in page.saved().photo("toy-02").accepted()] == ["other"]
    assert page.text("#next-class") == "other"
    assert page.browser.execute_script(ticked) == [True, True]
    page.press("d")
    dragged(page, 0.02, 0.6, 0.3, 0.98)
    assert [box.name for box in page.saved().photo("toy-02").accepted()] == ["other", "other"]
    page.press("u", "u", "u")
    assert not page.saved().photo("toy-02").accepted()
    assert page.browser.execute_script(ticked) == [False, True]
    page.only("toy-04")  # which has no "other"
    assert page.text("#next-class") == "thing"
    assert page.problems() == []


def test_all_boxes_above_a_confidence_are_accepted_at_once_and_taken_back(page, run):
    boxes = Session(run).annotations.boxes
    least = int(100 * np.sort(boxes.score)[len(boxes) // 2])
    page.find("#grid-button").click()
    page.find("#least").clear()
    page.find("#least").send_keys(str(least), Keys.ESCAPE)
    page.find("[data-do=acceptSure]").click()
    sure = int((boxes.score >= least / 100).sum())
    page.until(lambda: page.text("#accepted") == f"{sure} boxes accepted")
    photos = page.saved().photos.values()
    assert sum(len(photo.accepted()) for photo in photos) == sure > 1
    page.find("#grid-bar [data-do=undo]").click()
    assert page.saved().photos == {}
    assert page.problems() == []


def test_the_page_opens_at_the_next_photo_to_do(page, run, address):
    first = page.text("#name")
    page.press(Keys.ENTER, Keys.ENTER)
    page.saved()
    page.open(address)
    assert page.text("#place") == "3 of 12"
    assert page.text("#name") != first
    assert page.problems() == []


def test_correct_by_keys_alone(page, run):
    page.press("/", "toy-04", Keys.ESCAPE)
    page.until(lambda: page.text("#name") == "toy-04")
    page.press("x")
    assert [b.state for b in page.saved().photo("toy-04").boxes.values()] == ["rejected"]
    page.press("u")
    assert page.saved().photos == {}
    page.press("r", "d", "d")  # redo; a new box in the middle
    (fresh,) = page.saved().photo("toy-04").accepted()
    assert fresh.xyxy == (24, 24, 72, 72)
    page.press(Keys.ARROW_LEFT, held=Keys.SHIFT)
    page.press(Keys.ARROW_DOWN, held=Keys.ALT)
    page.press("1")
    (placed,) = page.saved().photo("toy-04").accepted()
    assert placed.xyxy == pytest.approx((23, 24, 71, 73), abs=0.11)
    assert placed.name == "other"
    page.press("t", Keys.SPACE, Keys.SPACE)  # off, as the box had ticked it, and on
    assert page.saved().photo("toy-04").tags == {"other": 1}
    page.press(Keys.ESCAPE, Keys.ESCAPE)
    page.press(Keys.ENTER)
    assert page.saved().photo("toy-04").state == "reviewed"
    page.press("?")
    assert "learn again" in page.text("#help")
    assert "Shift+Arrows" in page.text("#help")
    page.press(Keys.ESCAPE, "m", "+", "0", "g")
    page.until(lambda: page.all("#grid .cell img"))
    page.press(Keys.ENTER)
    page.until(lambda: page.find("#stage").is_displayed())
    page.press("s")
    assert page.saved().photo("toy-04").state == "skipped"
    assert page.problems() == []


def test_filters_grid_and_figures(page, run):
    page.until(lambda: page.text("#place") == "1 of 12")
    Select(page.find("#class")).select_by_visible_text("other")
    page.until(lambda: page.text("#place").endswith("of 4"))
    Select(page.find("#class")).select_by_visible_text("all")
    page.until(lambda: page.text("#place").endswith("of 12"))
    Select(page.find("#order")).select_by_value("random")
    page.until(lambda: "order=random" in page.find("body").get_attribute("data-listed"))
    page.press(Keys.ESCAPE, Keys.HOME)
    page.until(lambda: page.text("#place") == "1 of 12")
    for n in range(1, 7):  # photos with boxes come first
        page.press(Keys.ENTER)
        page.until(
            lambda n=n: (
                f"{n} of 12 reviewed" in page.text("#run") and page.text("#place").startswith(f"{n + 1} ")
            )
        )
    page.saved()
    assert "100 %" in page.text("#figures")
    assert "make it about" in page.text("#further")
    Select(page.find("#show")).select_by_value("reviewed")
    page.until(lambda: page.text("#place").endswith("of 6"))
    page.find("#grid-button").click()
    page.until(lambda: len(page.all("#grid .cell.reviewed img")) == 6)
    # The thumbnail has the shape of the photo, or the boxes over it would be elsewhere.
    sides = "const i = document.querySelector('.cell img'); return [i.clientWidth, i.clientHeight]"
    width, height = page.browser.execute_script(sides)
    assert width == height > 100  # toys are square
    page.find('#grid .cell[data-at="2"]').click()
    page.until(lambda: page.text("#place") == "3 of 6")
    assert page.problems() == []


def test_reload_restart_learn_again(run, browser):
    server = Server(run)
    page = Page(browser, run).open(server.address)
    page.only("toy-02")
    page.press(Keys.ENTER)
    before = page.saved()
    page.browser.refresh()
    page.until(lambda: page.find("body").get_attribute("data-ready"))
    assert "1 of 12 reviewed" in page.text("#run")
    server.kill()
    page.press("s")  # nobody is there: the page does not say that it is saved
    page.until(lambda: "not saved" in page.text("#saved"))
    assert by_name(run).photos == before.photos
    again = Server(run)
    try:
        page.open(again.address)
        assert "1 of 12 reviewed" in page.text("#run")
        key = page.find("body").get_attribute("data-ready")
        page.find("#learn").click()
        page.until(lambda: page.find("body").get_attribute("data-ready") != key)
        assert "Learned in" in page.text("#learning-text")
        assert "Boxes moved in" in page.text("#learned")
    finally:
        again.kill()


def test_five_judged_boxes_stay_and_the_page_says_what_they_changed(browser, run):
    with opened(Session(run)) as address:
        page = Page(browser, run).open(address)
        Select(page.find("#class")).select_by_visible_text("thing")
        page.until(lambda: "class=thing" in page.find("body").get_attribute("data-listed"))
        names = []
        for n in range(1, 6):
            names.append(page.text("#name"))
            page.press(Keys.ESCAPE, Keys.ESCAPE, "]", "x", "d", "d", Keys.ENTER)  # another box, in the middle
            page.until(lambda n=n: f"{n} of 12 reviewed" in page.text("#run"))
        said = page.saved()
        assert page.text("#changes") == ""
        key = page.find("body").get_attribute("data-ready")
        page.press("l")
        page.until(lambda: page.find("body").get_attribute("data-ready") != key)
        assert "thing: " in page.text("#changes")
        assert page.text("#about").startswith("not reviewed")  # the next photo to do
        assert "moved" in page.text("#changes") or "all its boxes are judged" in page.text("#changes")
        for name in names:
            page.only(name)
            assert "drawn, accepted" in page.text("#box-list")
            assert "found earlier, rejected" in page.text("#box-list")
        assert page.problems() == []  # while the server is there: the page may still ask it
    now = corrected_boxes(RunFolder(run)).detections
    for name in names:  # in its own photo nothing but what a person accepted
        of_photo = now.xyxy[now.image == now.ids.index(name)]
        np.testing.assert_allclose(of_photo, [box.xyxy for box in said.photo(name).accepted()])


@pytest.fixture
def doubting(monkeypatch):
    """Every tag is odd: of toys hardly any is."""
    monkeypatch.setattr("tag2box.training.tag_scores.TagScores.odd", lambda _, tags: tags != 0)


def test_one_key_keeps_a_suspect_tag_and_another_changes_it(doubting, page, run):
    suspects = Session(run).suspects
    order = suspects.order
    Select(page.find("#order")).select_by_value("tags")
    page.until(lambda: "order=tags" in page.find("body").get_attribute("data-listed"))
    page.press(Keys.ESCAPE, Keys.HOME)
    names = [Session(run).images.ids[n] for n in order[:3]]
    first = suspects.of(order[0])
    page.until(lambda: page.text("#name") == names[0])
    assert f"“{first['class']}”" in page.text("#suspect-text")
    page.press("y")
    page.until(lambda: page.text("#name") == names[1])
    page.press("w")
    page.until(lambda: page.text("#name") == names[2])
    page.find("[data-do=flipTag]").click()
    said = page.saved()
    assert said.photo(names[0]).tags == {first["class"]: first["tag"]}
    for n, name in zip(order[1:3], names[1:], strict=True):
        was = suspects.of(n)
        assert said.photo(name).tags == {was["class"]: -was["tag"]}
    assert Session(run).suspects.of(order[0])["class"] != first["class"]  # that one was looked at
    page.press("u", "u", "u")
    page.until(lambda: page.text("#name") == names[0])
    assert not page.saved().photo(names[0]).tags
    assert page.problems() == []


def test_who_checks_tags_is_told_where_none_looks_wrong(monkeypatch, page, run):
    monkeypatch.setattr("tag2box.training.tag_scores.TagScores.odd", lambda _, tags: tags > 1)
    with opened(Session(run)) as address:
        page.open(address)
        assert not page.find("#suspect").is_displayed()
        Select(page.find("#order")).select_by_value("tags")
        page.until(lambda: page.text("#suspect-text") == "No tag of this photo looks wrong.")
        assert not page.find("[data-do=keepTag]").is_displayed()
        place = page.text("#place")
        page.press(Keys.ESCAPE, "y", "w")  # nothing was asked: nothing is said
        assert page.saved().photos == {}
        assert page.text("#place") == place
    assert page.problems() == []


def sized(page, width, height):
    """A window of that size."""
    page.browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    page.until(lambda: page.browser.execute_script("return innerWidth") == width)


OVERLAPS = """
const shown = [...document.querySelectorAll(arguments[0])].filter((e) => e.offsetWidth > 1);
const rects = shown.map((e) => e.getBoundingClientRect());
const before = (a, b) => a.right <= b.left + 1 || a.bottom <= b.top + 1;
const apart = (a, b) => before(a, b) || before(b, a);
return rects.flatMap((a, i) => rects.slice(i + 1).filter((b) => !apart(a, b)).map(() => shown[i].outerHTML));
"""


@pytest.mark.parametrize("width", [360, 768, 1200, 3840])
def test_every_width_fits(page, width):
    """Nothing lies over another or reaches out, however long names are, and every control has a name."""
    sized(page, width, 700)
    page.browser.execute_script(
        "document.getElementById('run-name').textContent = 'a long name of a run '.repeat(4);"
        "document.getElementById('reviewed').textContent = '1234 of 5011 reviewed';"
        "document.getElementById('place').textContent = '1234 of 5011'"
    )
    controls = "header h1 > *, header select, #search, #more summary, header .row > *, #actions button"
    assert page.browser.execute_script(OVERLAPS, controls) == []
    assert page.browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert page.find("#stage").size["height"] > 200
    if width >= 1200:  # the button that learns is in sight, and filters are in one row
        learn = page.find("#learn").rect
        assert 0 < learn["y"] < learn["y"] + learn["height"] <= 700
        assert page.find("header").size["height"] < 100
    shown = [each for each in page.all("header button, main button, select, input") if each.is_displayed()]
    assert len(shown) > 12
    for control in shown:
        assert control.accessible_name, control.get_attribute("outerHTML")
    page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_fingers_have_room_on_a_phone(page):
    """What is touched is 44 pixels high; the photo and what is done with it are in sight at once."""
    sized(page, 360, 740)
    touched = page.all("#actions button, header select, #search, header .row button, #box-list button")
    assert min(each.rect["height"] for each in touched if each.is_displayed()) >= 44
    last = page.find("[data-do=next]").rect
    assert last["y"] + last["height"] <= 740
    page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_focus_goes_from_left_to_right_and_down(page):
    """By Tab: the filters, the buttons beside them, the photo's boxes, what is done with them, the side."""
    page.press(Keys.HOME)
    order = []
    page.browser.execute_script("document.activeElement.blur(); window.getSelection().removeAllRanges()")
    for _ in range(40):
        ActionChains(page.browser).send_keys(Keys.TAB).perform()
        where = "return document.activeElement.closest('form, .row, #boxes, nav, aside')?.tagName"
        order.append(page.browser.execute_script(where))
    parts = [name for name, _ in groupby(filter(None, order))]
    assert parts[:4] == ["FORM", "DIV", "NAV", "ASIDE"]


def test_touch_pans_and_zooms(page):
    """Two fingers apart: the photo is larger; boxes follow."""
    page.only("toy-02")

    def width():  # in one step: the page draws boxes anew whenever it likes
        return page.browser.execute_script("return document.querySelector('.box').clientWidth")

    before = width()
    around = page.find("#stage").rect
    x, y = around["x"] + around["width"] / 2, around["y"] + around["height"] / 2

    page.touch("touchStart", (x - 30, y))
    page.touch("touchStart", (x - 30, y), (x + 30, y))
    page.touch("touchMove", (x - 60, y), (x + 60, y))
    page.touch("touchEnd")
    page.until(lambda: width() > 1.5 * before)


def test_fingers_accept_move_and_draw(page):
    page.only("toy-02")

    def middle(css):
        where = "const r = document.querySelector(arguments[0]).getBoundingClientRect();"
        return page.browser.execute_script(f"{where} return [r.x + r.width / 2, r.y + r.height / 2]", css)

    def drag(x, y, dx, dy):
        page.touch("touchStart", (x, y))
        for k in (1, 2, 3):
            page.touch("touchMove", (x + dx * k / 3, y + dy * k / 3))
        page.touch("touchEnd")

    page.tap(page.find("[data-do=accept]"))
    page.until(lambda: page.saved().photo("toy-02").accepted())
    (before,) = page.saved().photo("toy-02").accepted()
    drag(*middle(".box"), -20, -10)
    page.until(lambda: page.saved().photo("toy-02").accepted() != [before])
    (moved,) = page.saved().photo("toy-02").accepted()
    assert moved.xyxy[0] < before.xyxy[0]
    assert moved.xyxy[1] < before.xyxy[1]
    page.tap(page.find("[data-do=draw]"))
    x, y = middle("#photo")
    drag(x - 100, y - 100, 80, 70)
    page.until(lambda: len(page.saved().photo("toy-02").accepted()) == 2)
    page.tap(page.find("[data-do=undo]"))
    page.until(lambda: len(page.saved().photo("toy-02").accepted()) == 1)
    assert page.problems() == []


def test_zoom_pan_and_the_object_map(page):
    page.only("toy-02")
    sides = "const r = document.querySelector('#photo').getBoundingClientRect(); return [r.x, r.y, r.width]"
    x, y, width = page.browser.execute_script(sides)
    stage = page.find("#stage")
    wheel = selenium_wheel(page, stage, -300)
    assert wheel > width
    corner = page.browser.execute_script(sides)[:2]
    ActionChains(page.browser).move_to_element_with_offset(stage, 250, 200).click_and_hold().move_by_offset(
        50, 40
    ).release().perform()
    moved = page.browser.execute_script(sides)[:2]
    assert (moved[0] - corner[0], moved[1] - corner[1]) == pytest.approx((50, 40), abs=1)
    page.press("0")
    assert page.browser.execute_script(sides) == pytest.approx([x, y, width], abs=1)
    assert not page.find("#map").is_displayed()
    page.press("m")
    loaded = "const m = document.querySelector('#map'); return m.complete ? m.naturalWidth : 0"
    page.until(lambda: page.browser.execute_script(loaded) > 0)
    assert page.find("#map").is_displayed()
    page.press("m")
    assert not page.find("#map").is_displayed()
    assert page.problems() == []


def selenium_wheel(page, stage, by):
    """Turn the wheel over the middle of the stage; how wide the photo is then."""
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    ActionChains(page.browser).scroll_from_origin(ScrollOrigin.from_element(stage), 0, by).perform()
    return page.browser.execute_script(
        "return document.querySelector('#photo').getBoundingClientRect().width"
    )


LATE = """
const plain = window.fetch;
let first = true;
window.fetch = async (url, ...rest) => {
  const answer = await plain(url, ...rest);
  if (first && String(url).includes("list?")) {
    first = false;
    await new Promise((done) => setTimeout(done, 500));
    document.body.dataset.late = "here";
  }
  return answer;
};
for (const [id, value] of [["search", "toy-1"], ["search", "toy-0"]]) {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event("change", {bubbles: true}));
}
"""


def test_an_answer_that_comes_late_replaces_no_later_one(page):
    page.browser.execute_script(LATE)
    page.until(lambda: page.find("body").get_attribute("data-late") == "here")
    page.until(lambda: "search=toy-0" in page.find("body").get_attribute("data-listed"))
    time.sleep(0.3)  # what the late answer might still do
    assert "search=toy-0" in page.find("body").get_attribute("data-listed")
    assert page.text("#place").endswith(" of 10")
    assert page.problems() == []


@pytest.fixture
def growing(review_run, tmp_path):
    """A run over photos of its own; `grow()` adds one before all others, and learns again."""
    return own_run(review_run, tmp_path)


def grow(run):
    toys = run.images.paths[0].parent
    Image.fromarray(np.full((96, 96, 3), 99, np.uint8)).save(toys / "a-00.png")
    lines = (toys / "tags.csv").read_text().splitlines()
    (toys / "tags.csv").write_text("\n".join([lines[0], "a-00.png,", *lines[1:]]) + "\n")
    fit_run(read_images(toys, toys / "tags.csv"), run.config, run.folder, workers=1)


def test_a_stale_page_is_loaded_anew_and_clicks_stay_with_their_photo(browser, growing):
    """Another photo has the number of the one in sight now: what is said, and undone, is of the right one."""
    session = Session(growing.folder)
    with opened(session) as address:
        page = Page(browser, growing.folder).open(address)
        page.only("toy-04")
        page.press("x")
        (before,) = page.saved().photos.items()
        grow(growing)
        httpx.get(f"{address}start")  # as another tab asks
        page.press("s")
        page.until(lambda: "of 13 reviewed" in page.text("#run"))
        (after,) = page.saved().photos.items()
        assert (after[0], after[1].state) == ("toy-04", "skipped")
        assert page.text("#name") == "toy-04"
        page.press("u")
        page.until(lambda: list(page.saved().photos.items()) == [before])
        page.press("u")
        page.until(lambda: page.saved().photos == {})


def test_the_page_names_what_is_left_out(browser, growing):
    correct(growing, reviewed("toy-00"), reviewed("toy-02"))
    file = growing.folder / "corrections.jsonl"
    file.write_bytes(file.read_bytes().replace(b"reviewed", b"skipped!", 1))
    with pytest.warns(UserWarning, match="1 of 2 lines are damaged"):
        session = Session(growing.folder)
    with opened(session) as address:
        page = Page(browser, growing.folder).open(address)
        assert "1 of 2 lines are damaged and left out (1)" in page.text("#left-out")


def test_two_tabs_see_each_other(page, run, address):
    page.only("toy-02")
    first = page.browser.current_window_handle
    page.browser.switch_to.new_window("tab")
    try:
        page.open(address)
        page.only("toy-02")
        page.press("x")
        page.saved()
    finally:
        page.browser.close()
        page.browser.switch_to.window(first)
    page.until(lambda: "rejected" in page.text("#box-list"))
    page.press("a")
    (box,) = page.saved().photo("toy-02").boxes.values()
    assert box.state == "accepted"
