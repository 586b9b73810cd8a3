import re
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageColor

from tag2box import Config, corloc, evaluate
from tag2box.cover.compared import Compared, compare
from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import count_neighbors
from tag2box.cover.graph import cover_graph
from tag2box.cover.greedy import greedy_cover
from tag2box.description.record import Described
from tag2box.detection.detections import Detections
from tag2box.images import ImageSet, Truth
from tag2box.neighbors.search import group_neighbors
from tag2box.report.charts import LEFT, gain_chart, recall_chart
from tag2box.report.content import ClassRecords, build_content, render_page
from tag2box.report.pictures import AFTER, BEFORE, contact_sheet, cut, heated
from tag2box.run.heat_maps import votes
from tag2box.windows.search import Windows

RED = (220, 20, 20)
NASTY = '<script>alert("x")</script> & "red"'
EVENTS = [
    {"event": "started", "stage": "windows"},
    {"event": "finished", "stage": "windows", "seconds": 3.0, "peak_mb": 200, "workers_peak_mb": 100},
    {"event": "reused", "stage": "features"},
    {"event": "finished", "stage": "windows", "seconds": 1.0, "peak_mb": 250, "workers_peak_mb": 0},
    {"event": "finished", "stage": "cover", "seconds": 12.0},
]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Eight grey photos, the first four with a red square; a class of that, with a name that is no HTML."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    paths, boxes, rows = [], [], []
    for i in range(8):
        photo = rng.integers(90, 150, (90, 120, 3)).astype(np.uint8)
        if i < 4:
            photo[20:60, 20:60] = RED
        paths.append(folder / f"{i}.png")
        Image.fromarray(photo).save(paths[-1])
        boxes += [[20, 20, 60, 60], [70, 10, 110, 70]]
        rows += [[5.0, 0] if i < 4 else rng.normal(size=2), rng.normal(size=2)]
    tags = np.where(np.arange(8) < 4, 1, -1).astype(np.int8)[:, None]
    objects = np.arange(4), np.tile(np.float32([20, 20, 60, 60]), (4, 1)), np.zeros(4, int), np.zeros(4, bool)
    images = ImageSet(tuple("abcdefgh"), tuple(paths), tags, (NASTY,), Truth(*objects))
    windows = Windows(np.array(boxes, np.float32), np.arange(0, 17, 2), np.tile([120, 90], (8, 1)))
    X = np.array(rows, np.float32)
    neighbors = group_neighbors(X, windows.offsets, np.arange(8), 4, workers=1)
    graph = cover_graph(neighbors, np.arange(4), 4)
    above = count_neighbors(np.arange(8), Compared(X, windows.offsets), tags, 1.0).above[:, 0]

    def heat(i):
        return votes(windows[i], above[2 * i : 2 * i + 2])

    found = Detections(
        image=[0, 1, 2, 5],
        xyxy=[[20, 20, 60, 60], [22, 20, 60, 60], [70, 10, 110, 70], [0, 0, 50, 50]],
        score=[2.0, 1.5, 1.0, 0.5],
        label=[0, 0, 0, 0],
        ids=images.ids,
        classes=images.classes,
    )
    before = {i: windows.xyxy[2 * i + 1] for i in range(4)}
    after = {i: windows.xyxy[2 * i] for i in range(4)}
    return SimpleNamespace(
        images=images,
        windows=windows,
        neighbors=neighbors,
        found=found,
        of={NASTY: ClassRecords(greedy_cover(graph), heat, before, after)},
    )


@pytest.fixture(scope="module")
def content(records):
    return build_content(
        records.images,
        records.windows,
        records.of,
        title=f"Report of {NASTY}",
        neighbors=records.neighbors,
        detections=records.found,
        scores=evaluate(records.found, records.images),
        corlocs={"cover": corloc(records.found, records.images)},
        events=EVENTS,
        config={"windows.mode": "fast", "features.cut": None, "cover.odd": NASTY},
    )


VOID = {"circle", "img", "line", "meta", "polyline", "rect"}


class Page(HTMLParser):
    """The tags of a page with their attributes, and what is open when it ends."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.headings = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, name):
        return [attrs for tag, attrs in self.tags if tag == name]


@pytest.fixture(scope="module")
def html(content):
    return render_page(content)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_the_page_is_whole_and_asks_for_nothing(page, html):
    assert page.open == []
    for _, attrs in page.tags:
        for name in ("src", "href"):
            if name in attrs:
                assert attrs[name].startswith(("data:image/jpeg;base64,", "#"))
    assert not re.search(r"https?://|@import|url\(", html)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object"}


def test_names_are_text_not_markup(html):
    assert NASTY not in html
    assert "&lt;script&gt;" in html


def test_the_page_can_be_read_without_seeing_it(page):
    assert page.all("html")[0]["lang"] == "en"
    assert all(len(image["alt"]) > 5 for image in page.all("img"))
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in page.all("svg"))
    assert all(cell["scope"] in {"col", "row"} for cell in page.all("th"))
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(page.headings, page.headings[1:], strict=False))
    names = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(names) == len(set(names))
    for attrs in page.all("section"):
        assert attrs["aria-labelledby"] in names


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return np.dot(linear, (0.2126, 0.7152, 0.0722))


def test_text_stands_out_from_its_ground_in_both_schemes(html):
    schemes = re.findall(r":root \{(.*?)\}", html, re.DOTALL)
    assert len(schemes) == 2  # light and dark
    for scheme in schemes:
        colors = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", scheme))
        for ground in ("paper", "card"):
            for text in ("ink", "soft", "accent", "good", "bad"):
                light, dark = sorted((luminance(colors[text]), luminance(colors[ground])))[::-1]
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)  # WCAG 2 AA


def test_a_class_shows_what_the_records_say(content):
    (part,) = content.classes
    assert len(part.picks[0]) == 1 + 3  # the pick and the three other positive images
    assert [p.caption for p in part.boxes] == ["IoU 0.00 → 1.00"] * 4
    assert all(p.good for p in part.boxes)
    assert [p.caption for p in part.best] == ["a · 2.00 · right", "b · 1.50 · right"]
    assert [p.caption for p in part.worst] == ["c · 1.00 · background", "f · 0.50 · background"]
    assert [p.caption for p in part.learned] == [f"{name} · IoU 1.00" for name in "abcd"]
    facts = dict(part.facts)
    assert facts["tagged with it"] == "4"
    assert facts["CorLoc, cover"] == "0.50"


def pixels_of(picture):
    return np.asarray(Image.open(BytesIO(picture.jpeg))).astype(int)


def test_a_pick_is_cut_where_its_window_is(records):
    pixels = pixels_of(cut(records.images.paths[0], np.float32([20, 20, 60, 60]), 128, "red"))
    assert pixels.shape == (128, 128, 3)
    assert np.abs(pixels - RED).mean() < 10


def test_picks_and_their_neighbours_are_what_is_alike(content):
    """The windows that are alike hold the red square, in four photos; all are shown with the first pick."""
    row = content.classes[0].picks[0]
    assert len(row) == 4
    for picture in row:
        assert np.abs(pixels_of(picture).mean(axis=(0, 1)) - RED).max() < 10


def test_boxes_before_and_after_have_their_colours(content):
    for picture in content.classes[0].boxes:
        pixels = pixels_of(picture)
        for colour in (BEFORE, AFTER):
            lines = np.abs(pixels - ImageColor.getrgb(colour)).max(axis=2) < 60
            assert lines.sum() > 50


def test_a_map_is_bright_where_its_values_are(records):
    heat = votes(np.float32([[20, 20, 60, 60], [70, 10, 110, 70]]), np.array([1.0, 0.0]))
    pixels = pixels_of(heated(records.images.paths[4], heat, (), 120, "a map"))
    assert pixels.shape == (90, 120, 3)
    inside, outside = pixels[25:55, 25:55].mean(axis=(0, 1)), pixels[25:55, 75:105].mean(axis=(0, 1))
    assert inside[1] - outside[1] > 60  # green grows with the value


def test_without_truth_nothing_is_called_right_or_wrong(records):
    blind = ImageSet(records.images.ids, records.images.paths, records.images.tags, records.images.classes)
    content = build_content(blind, records.windows, records.of, detections=records.found)
    (part,) = content.classes
    assert not content.judged
    assert {p.good for p in (*part.boxes, *part.best, *part.worst)} == {None}
    assert [p.caption for p in part.best] == ["a · 2.00", "b · 1.50", "c · 1.00"]
    assert [p.caption for p in part.worst] == ["f · 0.50"]  # the least sure first
    assert Page(render_page(content)).open == []


def test_the_contact_sheet_begins_with_the_most_doubtful(records):
    sheet = contact_sheet(records.images, records.found)
    assert [p.caption.split()[-1] for p in sheet] == ["0.50", "1.00", "1.50", "2.00"]
    assert sheet[0].alt.startswith("f: ")
    gone = records.images.paths[0].with_name("gone.png")
    moved = replace(records.images, paths=(gone, *records.images.paths[1:]))
    assert len(contact_sheet(moved, records.found)) == 3  # a photo that is gone does not stop the others


def test_every_photo_can_be_enlarged(page):
    figures = [attrs["id"] for attrs in page.all("figure")]
    links = {attrs.get("href") for attrs in page.all("a")}
    assert figures
    assert {f"#{name}" for name in figures} <= links


def test_a_report_of_nothing_is_a_page_too(records):
    content = build_content(records.images, records.windows, {})
    assert content.timing is None
    assert Page(render_page(content)).open == []


def test_time_adds_up_over_resumed_stages(content):
    rows = {row[0]: row[1:] for row in content.timing.rows}
    assert rows["windows"] == ("4.0 s", "25%", "300 MB")
    assert rows["cover"] == ("12 s", "75%", "")
    assert rows["all"][0] == "16 s"
    assert "features" not in rows


def points(svg, kind):
    found = re.search(rf'class="{kind}" points="([^"]*)"', svg).group(1)
    return np.array([[float(v) for v in pair.split(",")] for pair in found.split()])


def test_the_gain_curve_rises_by_the_gains():
    curve = points(gain_chart([4.0, 2, 1, 1], 10.0, "gains"), "curve")
    heights = curve[0, 1] - curve[:, 1]  # SVG counts downwards
    np.testing.assert_allclose(heights / heights[-1] * 0.8, [0, 0.4, 0.6, 0.7, 0.8], atol=1e-3)
    np.testing.assert_allclose(np.diff(curve[:, 0]), np.diff(curve[:, 0])[0], atol=0.11)


def test_a_curve_keeps_every_hit_among_thousands_of_misses():
    hit = np.zeros(5000, bool)
    hit[[0, 1, 4, 9, 4000]] = True
    recall, precision = np.cumsum(hit) / 6, np.cumsum(hit) / np.arange(1, 5001)
    curve = points(recall_chart(recall, precision, "rare hits"), "curve")
    x0, x1 = LEFT, 360 - 12
    for r, p in zip(recall[hit], precision[hit], strict=True):
        here = np.abs(curve[:, 0] - (x0 + (x1 - x0) * r)) < 0.06
        assert (np.abs(curve[here, 1] - (200 - 188 * p)) < 0.06).any()
    assert len(curve) < 20


def test_a_long_curve_is_thinned_and_an_empty_one_is_drawn():
    recall = np.linspace(0.001, 1, 5000)
    svg = recall_chart(recall, 1 - recall / 2, "long")
    assert len(points(svg, "curve")) <= 400
    np.testing.assert_array_equal(points(svg, "curve")[-1], points(svg, "faint")[-1])
    assert "<polyline" in recall_chart([], [], "none")
    assert "<polyline" in gain_chart([], 0.0, "none")


@pytest.mark.parametrize("n_classes", [6, 20])
def test_many_classes_stay_below_six_megabytes(tmp_path, n_classes):
    """Of square photos full of blotches, which take more room than what people photograph."""
    rng = np.random.default_rng(0)
    n, classes = 6, tuple(f"class {c}" for c in range(n_classes))
    paths = tuple(tmp_path / f"{i}.jpg" for i in range(n))
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (80, 80, 3)).astype(np.uint8)).resize((400, 400)).save(path)
    images = ImageSet(tuple(map(str, range(n))), paths, np.ones((n, n_classes), np.int8), classes)
    windows = Windows(np.tile(np.float32([10, 10, 300, 300]), (n, 1)), np.arange(n + 1), np.full((n, 2), 400))
    neighbors = group_neighbors(rng.normal(size=(n, 4)), windows.offsets, np.arange(n), n, workers=1)
    boxes = {i: windows.xyxy[i] for i in range(n)}
    cover = greedy_cover(cover_graph(neighbors, np.arange(n), n), t=None)
    record = ClassRecords(cover, lambda i: votes(windows[i], np.ones(len(windows[i]))), boxes, boxes)
    label = np.repeat(np.arange(n_classes), n)
    image, xyxy = np.tile(np.arange(n), n_classes), np.tile(windows.xyxy, (n_classes, 1))
    found = Detections(image, xyxy, np.ones(len(label)), label, images.ids, classes)
    content = build_content(
        images, windows, dict.fromkeys(classes, record), neighbors=neighbors, detections=found
    )
    assert all(c.picks and c.heat and c.boxes and c.learned and c.best and c.worst for c in content.classes)
    assert len(render_page(content).encode()) < 6e6


@pytest.fixture(scope="module", params=["two_stream", "song2014"])
def run(request, tmp_path_factory):
    """A run over a few scenes, with settings that take seconds; the cover is of a sample of them."""
    pytest.importorskip("skimage")
    from tag2box.demo.scenes import make_scenes
    from tag2box.run.fitting import detect_run, fit_run
    from tag2box.runtime.config import read_settings

    folder = tmp_path_factory.mktemp("run")
    fast = ("windows.mode=single", "windows.max_windows=12", "features.levels=[96]", "features.crop=4")
    fast += ("features.grid=1", "features.dimensions=8", f"method={request.param}", "cover.most_images=6")
    scenes = make_scenes(folder / "scenes", n_train=10, n_test=5)
    fit_run(scenes.train, read_settings(Config(), sets=fast), folder / "run", workers=1)
    return SimpleNamespace(folder=folder / "run", scenes=scenes, detect=detect_run)


@pytest.mark.parametrize(
    ("drawn", "images", "rows"), [([True] * 3, [0, 2, 1], [0, 3, 2]), ([True, False, True], [0, 2], [0, 3])]
)
def test_neighbors_are_those_that_the_cover_compared_by(drawn, images, rows):
    """Of two dimensions one counts; by both, another photo is nearest, another window farthest.

    A photo that was not drawn is no neighbor, and windows are rows of all.
    """
    from tag2box.report.collecting import _neighbors

    run = stored_run(drawn)
    X, offsets = run.result("described").X, run.result("described").offsets
    cover = greedy_cover(cover_graph(group_neighbors(X, offsets, np.arange(4), 2), np.arange(3), 2))
    table = _neighbors(run, (replace(cover, selected=np.array([0])),))
    assert table.image[0].tolist() == images
    assert table.window[0].tolist() == rows


def stored_run(drawn):
    """What a run of three photos would have stored; of the vectors the first dimension is compared."""
    X, offsets = np.array([[-1, 4.9], [0, -5], [4, 3], [0, -5]], np.float32), np.array([0, 2, 3, 4])
    xyxy = np.array([[i, i, i + 9, i + 9] for i in range(4)], np.float32)
    described = Described(Windows(xyxy, offsets, np.full((3, 2), 20)), X)
    results = {"described": described, "compared": compare((described, np.array(drawn)), 1)}
    images = ImageSet(tuple("abc"), ("",) * 3, np.array([[1], [-1], [1]], np.int8), ("thing",))
    return SimpleNamespace(
        result=results.__getitem__, config=Config(cover=CoverConfig(dimensions=1)), images=images
    )


def test_a_run_becomes_a_page_and_more_of_one_as_more_is_known(run):
    from tag2box.report import write_report
    from tag2box.run.folder import RunFolder

    path = write_report(run.folder)
    assert path == run.folder / "report.html"
    bare = path.read_text()
    assert Page(bare).open == []
    for word in (
        "astronaut",
        "windows.max_windows",
        "features",
        "Before and after learning",
        "How good are the boxes?",
    ):
        assert word in bare
    assert "CorLoc" not in bare

    run.detect(RunFolder(run.folder), run.scenes.test, workers=1)
    full = write_report(run.folder, truths=(run.scenes.train, run.scenes.test)).read_text()
    found = RunFolder(run.folder).detections(*RunFolder(run.folder).detected()[-1])
    for name in ("CorLoc, first windows", "CorLoc, learned", "AP (VOC 2007)", "new photos"):
        assert name in full
    assert f"{evaluate(found, run.scenes.test).mean:.3f}" in full
    assert Page(full).open == []


def test_detections_in_photos_without_tags_are_shown_too(run, tmp_path):
    from tag2box.report import write_report
    from tag2box.run.folder import RunFolder

    bare = ImageSet(run.scenes.test.ids, run.scenes.test.paths, np.zeros((5, 0), np.int8), ())
    run.detect(RunFolder(run.folder), bare, workers=1)
    assert "AP (VOC 2007)" not in write_report(run.folder, truths=(run.scenes.train,)).read_text()
    assert "AP (VOC 2007)" in write_report(run.folder, truths=(run.scenes.test,)).read_text()
