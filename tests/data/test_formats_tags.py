"""Tags in folders and tables."""

import json

import numpy as np
import pytest
from PIL import Image

from tag2box import InputError, read_images
from tag2box.data.first_look import look


def photo(path, shade=0, size=(8, 6)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (shade, 10, 20)).save(path)
    return path


def table(images):
    """{id: {class: tag}}: what an image set says."""
    return {
        name: dict(zip(images.classes, row, strict=True))
        for name, row in zip(images.ids, images.tags.tolist(), strict=True)
    }


def test_a_folder_per_class(tmp_path):
    for shade, name in enumerate(
        [
            "cat/1.jpg",
            "dog/1.jpg",
            "dog/more dogs/1.JPG",
            "_none/1.png",
            "Background/ü 2.webp",
            "cat/.hidden.jpg",
        ]
    ):
        photo(tmp_path / name, shade)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    images = read_images(tmp_path)
    assert images.classes == ("cat", "dog")
    none, cat, dog = {"cat": -1, "dog": -1}, {"cat": 1, "dog": -1}, {"cat": -1, "dog": 1}
    assert table(images) == {
        "Background/ü 2": none,
        "_none/1": none,
        "cat/1": cat,
        "dog/1": dog,
        "dog/more dogs/1": dog,
    }
    assert all(path.is_file() for path in images.paths)
    assert images.truth is None


def test_the_same_bytes_in_two_class_folders_are_one_image_with_two_tags(tmp_path):
    for name in ["cat/a.png", "dog/b.png", "cow/c.png", "cow/d.png"]:
        photo(tmp_path / name, shade=100 if name[:3] != "cow" else 200)
    for kind in ("cat", "dog"):
        (tmp_path / kind / "empty.jpg").touch()  # the same bytes, but no image
    images = read_images(tmp_path)
    assert images.ids == ("cat/a", "cat/empty", "cow/c", "cow/d", "dog/empty")
    assert table(images)["cat/a"] == {"cat": 1, "cow": -1, "dog": 1}
    assert images.positives("cow").tolist() == [2, 3]  # the same twice in one folder: for the first look


def test_suffixes_tell_files_of_one_name_apart(tmp_path):
    for shade, name in enumerate(["cat/a.jpg", "cat/a.png", "cat/b.jpg"]):
        photo(tmp_path / name, shade)
    assert read_images(tmp_path).ids == ("cat/a.jpg", "cat/a.png", "cat/b")


def test_links_that_lead_out_are_reported_and_not_followed(tmp_path):
    photo(tmp_path / "data/cat/a.jpg")
    photo(tmp_path / "secret.jpg", 1)
    photo(tmp_path / "elsewhere/b.jpg", 2)
    photo(tmp_path / "data/stray.jpg", 3)
    (tmp_path / "data/cat/out.jpg").symlink_to(tmp_path / "secret.jpg")
    (tmp_path / "data/cat/in.jpg").symlink_to("a.jpg")
    (tmp_path / "data/dog").symlink_to(tmp_path / "elsewhere")
    images = read_images(tmp_path / "data")
    assert images.ids == ("cat/a", "cat/in")
    assert images.classes == ("cat",)
    assert [line.split(": ")[1] for line in images.skipped] == [
        "a symbolic link that leads out of the folder",
        "a symbolic link to a folder, which is not followed",
        "in no class folder",
    ]
    (tmp_path / "data/tags.csv").write_text("file,tags\ncat/a.jpg,cat\ncat/out.jpg,dog\n")
    images = read_images(tmp_path / "data")
    assert images.ids == ("cat/a",)
    assert len(images.skipped) == 1


def test_folders_of_splits(tmp_path):
    photo(tmp_path / "train/cat/a.jpg")
    photo(tmp_path / "val/cat/b.jpg")
    assert read_images(tmp_path).ids == ("cat/a",)
    assert read_images(tmp_path, split="val").ids == ("cat/b",)
    with pytest.raises(InputError, match="no split 'test': it has train, val"):
        read_images(tmp_path, split="test")
    with pytest.raises(InputError, match="no splits: leave out the split 'val'"):
        read_images(tmp_path / "train", split="val")


@pytest.mark.parametrize(
    ("names", "sees", "type_"),
    [
        (["photos/cat/a.jpg", "photos/dog/b.jpg", "test/cat/c.jpg"], "photos, test", "{}/photos`"),
        (["images/a.jpg", "images/b.jpg"], "images", "{}/images --tags FILE`"),
        (["photos/a.jpg", "test/b.jpg", "runs/c.jpg"], "photos, test", "{}/photos --tags FILE`"),
        (["Images/a.jpg", "negative/b.jpg"], "Images", "{}/Images --tags FILE`"),
    ],
)
def test_the_folder_above_the_data_is_refused_with_what_to_type(tmp_path, names, sees, type_):
    for shade, name in enumerate(names):
        photo(tmp_path / name, shade)
    with pytest.raises(InputError) as error:
        read_images(tmp_path)
    assert str(error.value).startswith(f"{tmp_path} holds {sees}: by ")
    assert f"`tag2box run {type_.format(tmp_path)}" in str(error.value)


def test_images_without_any_class_alone_are_named(tmp_path):
    photo(tmp_path / "background/a.jpg")
    photo(tmp_path / "_none/b.jpg", 9)
    with pytest.raises(InputError, match="only images without any class, in _none, background: add a folder"):
        read_images(tmp_path)


@pytest.fixture
def flat(tmp_path):
    for shade, name in enumerate(["a.jpg", "b b.png", "ü.jpg", "sub/d.jpg", "unnamed.jpg"]):
        photo(tmp_path / "photos" / name, shade)
    return tmp_path / "photos"


EXPECTED = {
    "a": {"cat": 1, "red dog": 1},
    "b b": {"cat": -1, "red dog": 1},
    "sub/d": {"cat": -1, "red dog": -1},
}
CSV = {
    "tags": "file,tags\na.jpg,cat;red dog\nb b.png, red dog\nsub/d.jpg,\n",
    "row per tag": "Image\tLabel\na.jpg\tcat\nb b.png\tred dog\na.jpg\tred dog\nsub/d.jpg\t\n",
    "one-hot": 'file,"red dog",cat\na.jpg,1,1\nb b.png,1,0\nsub/d.jpg,0,-1\n',
    "pandas": "\ufefffilename;cat;red dog\r\na.jpg;1.0;1.0\r\nb b.png;0.0;1.0\r\n\r\nsub/d.jpg;False;0.0\r\n",
    "without suffixes": "file,tags\na,cat;red dog\n./b b,red dog\nsub\\d,\n",
}


@pytest.mark.parametrize("text", CSV.values(), ids=CSV)
def test_csv(flat, text):
    path = flat.parent / "tags.csv"
    path.write_text(text, encoding="utf-8")
    assert table(read_images(flat, path)) == EXPECTED
    assert read_images(flat, str(path), classes=["red dog"]).tags.tolist() == [[1], [1], [-1]]


def test_json_lines_say_what_they_know(flat):
    records = [
        {"file": "a.jpg", "tags": ["cat"]},
        {"file": "b b.png", "tags": ["cat"], "not": ["dog"]},
        {"file": "ü.jpg", "tags": {"cow": True, "dog": False, "cat": None}},
        {"file": "sub/d.jpg", "not": ["cow"]},
    ]
    expected = {
        "a": {"cat": 1, "cow": -1, "dog": -1},
        "b b": {"cat": 1, "cow": 0, "dog": -1},
        "ü": {"cat": 0, "cow": 1, "dog": -1},
        "sub/d": {"cat": 0, "cow": -1, "dog": 0},
    }
    lines = flat.parent / "tags.jsonl"
    lines.write_text("\n".join(json.dumps(record) for record in records) + "\n\n")
    assert table(read_images(flat, lines)) == expected
    whole = flat / "tags.json"  # found by its name
    whole.write_text(json.dumps(records))
    assert table(read_images(flat)) == expected
    assert table(read_images(whole)) == expected


def test_a_split_column(flat):
    path = flat / "tags.csv"
    path.write_text("file,tags,split\na.jpg,cat,train\nb b.png,dog,val\n")
    assert read_images(flat).ids == ("a", "b b")
    assert read_images(flat, split="val").ids == ("b b",)
    path.write_text("file,tags\na.jpg,cat\n")
    with pytest.raises(InputError, match="no 'split'"):
        read_images(flat, split="val")


def test_missing_files_are_named_or_skipped(flat):
    path = flat.parent / "tags.csv"
    path.write_text("file,tags\na.jpg,cat\nx1.jpg,cat\nx2.jpg,cat\n../photos/x3.jpg,cat\nx4.jpg,cat\n")
    with pytest.raises(InputError, match=r"4 of the files .* \(x1.jpg, x2.jpg, ../photos/x3.jpg, \.\.\.\)"):
        read_images(flat, path)
    images = read_images(flat, path, on_error="skip")
    assert images.ids == ("a",)
    assert len(images.skipped) == 4
    path.write_text("file,tags\nx1.jpg,cat\n")
    with pytest.raises(InputError, match="names no image below"):
        read_images(flat, path, on_error="skip")
    with pytest.raises(InputError, match="must be one of fail, skip"):
        read_images(flat, path, on_error="ignore")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("t.csv", "", "must name the columns"),
        ("t.csv", "a.jpg,cat\n", "must name the columns"),
        ("t.csv", "file,cat,cat\na.jpg,1,1\n", "each once"),
        ("t.csv", "file,tags,width\na.jpg,cat,3\n", "columns width"),
        ("t.csv", "file,tags\na.jpg,cat,dog\n", "line 2: 3 cells under 2"),
        ("t.csv", "file,cat\na.jpg,yes!\n", "line 2: under 'cat' expected 1, 0, -1"),
        ("t.csv", 'file,tags\na.jpg,"cat\n', "not CSV"),
        ("t.csv", "file,tags\na.jpg,\n", "names no class"),
        ("t.csv", "file,cat\na.jpg,1\na.jpg,0\n", "line 3: 'a.jpg' is said to have the class 'cat' and not"),
        ("t.jsonl", "{", "line 1: not JSON"),
        ("t.jsonl", "[" * 100_000, "line 1: not JSON"),
        ("t.jsonl", "3", 'expected {"file"'),
        ("t.jsonl", '{"file": "a.jpg"}', 'expected {"file"'),
        ("t.jsonl", '{"file": "a.jpg", "tags": 3}', "list of names or an object"),
        ("t.jsonl", '{"file": "a.jpg", "tags": {"cat": "yes"}}', "true, false, or null"),
        ("t.jsonl", '{"file": "a.jpg", "tags": ["cat"], "not": 1}', '"not" must be a list'),
        ("t.jsonl", '{"file": "a.jpg", "tags": ["cat"], "not": ["cat"]}', "both there and not there"),
        ("t.json", "{}", "no file of tags"),
        ("t.json", "{", "is not JSON"),
        ("t.xlsx", "", "no file of tags"),
    ],
)
def test_bad_tables_are_one_line(flat, name, text, says):
    path = flat.parent / name
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_images(flat, path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_many_rows_are_joined_in_any_order(flat):
    lines = CSV["row per tag"].splitlines()
    path = flat.parent / "tags.tsv"
    path.write_text("\n".join([lines[0], *reversed(lines[1:])]))
    images = read_images(flat, path)
    assert table(images) == EXPECTED
    assert images.tags.dtype == np.int8


def test_a_class_in_two_spellings_is_one(tmp_path):
    """M3 of a review: composed or not, with a space of no width or without, each was the other's negative."""
    spellings = ["caf\u00e9", "cafe\u0301", "cafe\u0301\u200b", "\ufeffcaf\u00e9 "]
    for i, name in enumerate([*spellings, "background"]):
        photo(tmp_path / "folders" / name / f"{i}.jpg", 50 * i)
    rows = "".join(f"{i}.jpg,{name}\n" for i, name in enumerate(spellings))
    (tmp_path / "tags.csv").write_text("file,tags\n" + rows, encoding="utf-8")
    for i in range(4):
        photo(tmp_path / f"{i}.jpg", 50 * i)
    folders, table = read_images(tmp_path / "folders"), read_images(tmp_path, tmp_path / "tags.csv")
    assert folders.classes == table.classes == ("caf\u00e9",)
    assert sorted(folders.tags[:, 0]) == [-1, 1, 1, 1, 1]
    assert table.tags.tolist() == [[1]] * 4
    assert folders.only(["cafe\u0301"]).tags.tolist() == folders.tags.tolist()


def test_classes_that_look_alike_are_named(tmp_path):
    for name in ("Cat", "cat", "hot dog", "hot-dog", "dog"):
        photo(tmp_path / name / "1.jpg")
    odd = "\n".join(look(read_images(tmp_path)).odd())
    assert "'Cat' = 'cat'; 'hot dog' = 'hot-dog'\n" in odd


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e400", "-1e400"])
def test_a_true_box_that_is_no_place_is_refused(tmp_path, number):
    photo(tmp_path / "1.jpg")
    box = f'{{"image_id": 1, "category_id": 1, "bbox": [1, 1, {number}, 5]}}'
    (tmp_path / "instances.json").write_text(
        '{"images": [{"id": 1, "file_name": "1.jpg"}], "categories": [{"id": 1, "name": "cat"}], '
        f'"annotations": [{box}]}}'
    )
    with pytest.raises(InputError, match="no place in a photo"):
        read_images(tmp_path)


def test_true_boxes_end_where_their_photo_does(tmp_path):
    photo(tmp_path / "1.jpg")
    (tmp_path / "instances.json").write_text(
        '{"images": [{"id": 1, "file_name": "1.jpg", "width": 30, "height": 20}], '
        '"categories": [{"id": 1, "name": "cat"}], '
        '"annotations": [{"image_id": 1, "category_id": 1, "bbox": [-5, 3, 5000, 5000]}]}'
    )
    assert read_images(tmp_path).truth.xyxy.tolist() == [[0, 3, 30, 20]]
