"""Detections in a notebook: pictures where photos are known, names as text, and no more than fits."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from tag2box import Detections, InputError
from tag2box.detection import html
from tag2box.run.estimator import Tag2Box

PHOTO = np.full((60, 80, 3), 128, np.uint8)


def some(n, **more):
    """A box in each of n images, all of class 0."""
    return Detections(range(n), [[10, 10, 50, 40]] * n, np.linspace(0.6, 0.9, n), [0] * n, **more)


def pictures(page):
    codes = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(code)))) for code in codes]


def test_a_box_is_drawn_where_it_is():
    (picture,) = pictures(some(1).with_photos([PHOTO])._repr_html_())
    scale = html.SIDE / 80
    assert picture.shape[:2] == (60 * scale, html.SIDE)
    changed = np.abs(picture.astype(int) - 128).max(axis=2) > 40
    y, x = np.nonzero(changed)
    assert [x.min(), y.min(), x.max(), y.max()] == pytest.approx(np.array([10, 10, 50, 40]) * scale, abs=3)
    assert not changed[int(20 * scale) : int(30 * scale), int(20 * scale) : int(40 * scale)].any()


def test_boxes_that_are_not_sure_are_named_and_not_drawn():
    doubtful = Detections([0], [[10, 10, 50, 40]], [0.2], [0], classes=("cat",)).with_photos([PHOTO])
    (picture,) = pictures(doubtful._repr_html_())
    assert np.abs(picture.astype(int) - 128).max() < 10
    assert "best: cat 0.20" in doubtful._repr_html_()
    margins = Detections([0], [[10, 10, 50, 40]], [-1.3], [0]).with_photos([PHOTO])
    assert "class 0 -1.30" in margins._repr_html_()


def test_names_are_text_with_and_without_photos():
    names = {"ids": ('"><img src=x onerror=y>',), "classes": ("<script>alert(1)</script>",)}
    for found in (some(1, **names), some(1, **names).with_photos([PHOTO])):
        page = found._repr_html_()
        assert "<script" not in page
        assert "<img src=x" not in page
        assert "&lt;script&gt;" in page


def test_a_page_holds_no_more_than_fits():
    page = some(100).with_photos([PHOTO] * 100)._repr_html_()
    assert len(pictures(page)) == html.PHOTOS
    assert "100 boxes in 100 images" in page
    assert some(100)._repr_html_().count("<tr>") == 1 + html.ROWS


def test_photos_stay_with_slices_and_out_of_files(tmp_path):
    found = some(3).with_photos([PHOTO] * 3)
    assert len(pictures(found[1:]._repr_html_())) == 2
    found.save(tmp_path / "found.npz")
    assert pictures(Detections.load(tmp_path / "found.npz")._repr_html_()) == []
    with pytest.raises(InputError, match="there are 3 images, but 2 photos"):
        some(3).with_photos([PHOTO] * 2)


def test_a_photo_that_is_gone_is_named():
    page = some(1, ids=("a",)).with_photos(["nowhere/a.jpg"])._repr_html_()
    assert "nowhere/a.jpg" in page
    assert "class 0 0.60" in page


def test_nothing_found_is_said():
    assert "0 boxes in 0 images" in Detections([], np.empty((0, 4)), [], []).with_photos([])._repr_html_()


def test_an_estimator_that_has_learned_nothing_looks_as_scikit_learn_has_it():
    bundle = Tag2Box()._repr_mimebundle_()
    assert "sk-" in bundle["text/html"]
    assert bundle["text/plain"] == repr(Tag2Box())
