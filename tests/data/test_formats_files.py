"""Names and sizes of files; and that no file, whatever is in it, does more than fail in one line."""

import copy
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tag2box import ImageSet, InputError, read_detections, read_images
from tag2box.data.decoding import image_size
from tag2box.data.formats.files import list_images, same_content, unique_ids

NAMES = st.lists(
    st.sampled_from(["a", "b", "sub/a", "a.jpg", "ü"]).flatmap(
        lambda stem: st.sampled_from([".jpg", ".png", ".JPG", ".x"]).map(lambda suffix: stem + suffix)
    ),
    unique=True,
)


@given(NAMES)
def test_ids_are_unique_and_short_where_they_can_be(names):
    ids = unique_ids(names)
    assert len(set(ids)) == len(names)
    assert all(name.startswith(short) for short, name in zip(ids, names, strict=True))
    if len({name.lower().rpartition(".")[0] for name in names}) == len(names) == 1:
        assert ids[0] == names[0].removesuffix(".jpg").removesuffix(".png").removesuffix(".JPG")


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_sizes_are_those_of_the_upright_image(tmp_path, suffix, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"x.{suffix}"
    Image.new("RGB", (40, 20)).save(path, exif=exif)
    assert image_size(path) == ((40, 20) if orientation < 5 else (20, 40))


@given(st.lists(st.binary(max_size=2), max_size=12))
def test_same_content_is_equality_of_bytes(tmp_path_factory, contents):
    root = tmp_path_factory.mktemp("same")
    paths = [root / str(i) for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    together = {content: [i for i, other in enumerate(contents) if other == content] for content in contents}
    expected = sorted(group for content, group in together.items() if content and len(group) > 1)
    assert same_content([*paths, root / "missing"]) == expected


def test_full_names_come_before_names_without_suffix(tmp_path):
    for name in ("a.jpg", "a.jpg.png", "b.jpg", "b.png", "back\\slash.jpg"):
        (tmp_path / name).touch()
    listing = list_images(tmp_path)
    assert listing.find("a.jpg") == "a.jpg"
    assert listing.find("a") == "a.jpg"
    assert listing.find("b") is None  # which of the two?
    assert listing.find("back\\slash.jpg") == "back\\slash.jpg"
    assert listing.find("../a.jpg") is None
    assert listing.find("") is None


COCO = {
    "images": [{"id": 1, "file_name": "a.jpg"}],
    "categories": [{"id": 1, "name": "cat"}],
    "annotations": [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 5, 5], "score": 1.0, "iscrowd": 0}],
}
TASKS = [
    {
        "data": {"image": "/data/upload/a.jpg"},
        "annotations": [
            {
                "was_cancelled": False,
                "result": [
                    {"value": {"choices": ["cat"]}},
                    {
                        "original_width": 9,
                        "original_height": 9,
                        "value": {"x": 1, "y": 1, "width": 5, "height": 5, "rectanglelabels": ["cat"]},
                    },
                ],
            }
        ],
    }
]
RECORDS = [{"file": "a.jpg", "tags": {"cat": True}, "not": ["dog"]}]
RESULTS = [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 5, 5], "score": 1.0}]
JUNK = st.sampled_from([None, True, -1, 1e300, 10**400, "", "x", [], [None], [[1]], {}, {"x": 1}])


def places(value, path=()):
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


@st.composite
def damaged(draw):
    """Valid JSON of one of the formats in which one value is something else."""
    whole = copy.deepcopy(draw(st.sampled_from([COCO, TASKS, RECORDS, RESULTS])))
    *path, last = draw(st.sampled_from([place for place in places(whole) if place]))
    part = whole
    for key in path:
        part = part[key]
    part[last] = draw(JUNK)
    return json.dumps(whole)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("fuzz")
    Image.new("RGB", (9, 9)).save(root / "a.jpg")
    return root


def holds_or_one_line(function, *arguments, **options):
    try:
        return function(*arguments, **options)
    except InputError as error:
        message = str(error)
    assert len(message.splitlines()) == 1
    return None


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=damaged())
def test_damaged_json_is_read_or_refused_in_one_line(folder, text):
    path = folder / "x.json"
    path.write_text(text)
    images = holds_or_one_line(read_images, path)
    assert images is None or isinstance(images, ImageSet)
    holds_or_one_line(read_detections, path)
    known = ImageSet(("a",), (folder / "a.jpg",), np.ones((1, 1), np.int8), ("cat",))
    holds_or_one_line(read_detections, path, known)


@given(st.text(alphabet="filetgsc,;\t\n\"'01?-aj.p\x00\x85", max_size=60))
def test_any_csv_is_read_or_refused_in_one_line(folder, text):
    for start in ("", "file,tags\n", "file,cat\na.jpg,"):
        (folder / "x.csv").write_text(start + text, newline="")
        holds_or_one_line(read_images, folder, folder / "x.csv", on_error="skip")
        holds_or_one_line(read_detections, folder / "x.csv")


@given(st.text(alphabet="names: []{}\n-'\"#\\,01%\t", max_size=60))
def test_any_yaml_is_read_or_refused_in_one_line(folder, text):
    (folder / "x.yaml").write_text("names: [cat]\ntrain: .\n" + text)
    holds_or_one_line(read_images, folder / "x.yaml")


@given(st.text(alphabet="01 .-e\nnainf\x00", max_size=30))
def test_any_label_file_is_read_or_refused_in_one_line(folder, text):
    (folder / "y.yaml").write_text("names: [cat, dog]\ntrain: .\n")
    (folder / "a.txt").write_text(text)
    try:
        holds_or_one_line(read_images, folder / "y.yaml")
    finally:
        (folder / "a.txt").unlink()
