"""Photos are known by their name, their file or their content, whatever folders they are in."""

from pathlib import Path

import numpy as np
import pytest

from tag2box.images import ImageSet
from tag2box.run.same_photos import called_as
from tag2box.runtime.files import content_hash


def image_set(names, paths):
    tags = np.ones((len(names), 1), np.int8)
    return ImageSet(tuple(names), tuple(paths), tags, ("cat",))


@pytest.fixture
def photos(tmp_path):
    """Three photos in two folders: those learned from, and copies with the true boxes."""
    for folder in ("cat", "truth"):
        (tmp_path / folder).mkdir()
        for n in range(3):
            (tmp_path / folder / f"{n}.jpg").write_bytes(bytes([n]))
    return tmp_path


def learned(photos, numbers=(0, 1, 2)):
    return image_set([f"cat/{n}" for n in numbers], [photos / "cat" / f"{n}.jpg" for n in numbers])


def truth(photos, folder):
    return image_set("012", [photos / folder / f"{n}.jpg" for n in range(3)])


def contents(images):
    return [content_hash(path) for path in images.paths]


def test_a_file_is_the_same_photo_whatever_it_is_called(photos):
    assert called_as(learned(photos, (2, 0)), truth(photos, "cat")).ids == ("2", "0")


def test_a_copy_is_the_same_photo_where_contents_are_known(photos):
    images = learned(photos, (1, 2))
    assert called_as(images, truth(photos, "truth")) is images
    assert called_as(images, truth(photos, "truth"), contents(images)).ids == ("1", "2")


def test_copies_of_one_photo_have_a_name_each(photos):
    for path in photos.glob("*/*.jpg"):
        path.write_bytes(b"one")
    images = learned(photos)
    assert called_as(images, truth(photos, "truth"), contents(images)).ids == ("0", "1", "2")


def test_names_stay_where_the_truth_has_them_or_lacks_a_photo(photos):
    named = image_set("01", [Path("elsewhere"), Path("gone")])
    assert called_as(named, truth(photos, "cat")) is named
    images = learned(photos)
    (photos / "truth" / "2.jpg").write_bytes(b"another")
    assert called_as(images, truth(photos, "truth"), contents(images)) is images
