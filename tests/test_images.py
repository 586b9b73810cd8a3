import numpy as np
import pytest

from tag2box import ImageSet, InputError, read_images
from tag2box.images import Numbers, Truth


def devkit(root, xml="<annotation></annotation>"):
    for folder in ("ImageSets/Main", "Annotations", "JPEGImages"):
        (root / folder).mkdir(parents=True)
    (root / "ImageSets/Main/train.txt").write_text("000001\n000002\n")
    (root / "ImageSets/Main/cat_train.txt").write_text("000001  1\n000002 -1\n")
    (root / "ImageSets/Main/dog_train.txt").write_text("000001  0\n000002  1\n")
    (root / "Annotations/000001.xml").write_text(xml)
    return root


CAT = """<annotation><object><name>cat</name><difficult>1</difficult>
<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>10</xmax><ymax>20</ymax></bndbox></object>
<object><name>person</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object>
</annotation>"""


def test_a_devkit_is_read(tmp_path):
    images = read_images(devkit(tmp_path, CAT), split="train")
    assert images.ids == ("000001", "000002")
    assert images.classes == ("cat", "dog")
    np.testing.assert_array_equal(images.tags, [[1, 0], [-1, 1]])
    assert images.positives("cat").tolist() == [0]
    assert images.negatives("cat").tolist() == [1]
    np.testing.assert_array_equal(images.truth.xyxy, [[0, 1, 10, 20]])  # 1-based inclusive -> exclusive
    assert images.truth.difficult.tolist() == [True]


def test_real_voc_is_as_described(voc_folder):
    images = read_images(voc_folder, split="trainval")
    assert len(images) == 1062
    assert images.classes == ("aeroplane", "bicycle", "boat", "bus", "horse", "motorbike")
    assert (images.tags == 1).sum(axis=0).min() >= 120
    assert all(path.is_file() for path in images.paths)
    assert len(read_images(voc_folder, split="test")) == 784


def test_bad_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        read_images(tmp_path / "none")
    with pytest.raises(InputError, match="in no format known here"):
        read_images(tmp_path)
    root = devkit(tmp_path)
    with pytest.raises(InputError, match="no split 'test': it has train"):
        read_images(root, split="test")
    (root / "ImageSets/Main/cat_train.txt").write_text("000001 yes\n")
    with pytest.raises(InputError, match="line 1: expected an image and 1, -1 or 0"):
        read_images(root, split="train")


def test_bad_records_are_refused():
    tags = np.zeros((2, 1), np.int8)
    with pytest.raises(InputError, match="must differ"):
        ImageSet(("a", "a"), ("a", "a"), tags, ("cat",))
    with pytest.raises(InputError, match="as many ids"):
        ImageSet(("a",), ("a", "b"), tags, ("cat",))
    with pytest.raises(InputError, match="n_classes"):
        ImageSet(("a", "b"), ("a", "b"), tags, ("cat", "dog"))
    with pytest.raises(InputError, match="no class 'dog'"):
        ImageSet(("a", "b"), ("a", "b"), tags, ("cat",)).positives("dog")


def test_a_part_keeps_all_that_is_known(tmp_path):
    truth = Truth(
        np.array([0, 1, 1, 2]),
        np.arange(16, dtype=np.float32).reshape(4, 4),
        np.array([0, 0, 1, 1]),
        np.array([False, True, False, False]),
    )
    tags = np.array([[1, -1], [1, 1], [0, 1]], np.int8)
    images = ImageSet(
        ("a", "b", "c"), tuple("abc"), tags, ("cat", "dog"), truth, Numbers((7, 8, 9), (1, 2)), ("x: why",)
    )
    part = images.take([2, 1])
    assert (part.ids, part.paths, part.skipped) == (("c", "b"), ("c", "b"), ("x: why",))
    assert part.numbers == Numbers((9, 8), (1, 2))
    assert part.truth.image.tolist() == [1, 1, 0]
    np.testing.assert_array_equal(part.truth.xyxy, truth.xyxy[1:])
    one = part.only(["dog"])
    assert (one.classes, one.tags.tolist(), one.numbers.classes) == (("dog",), [[1], [1]], (2,))
    assert (one.truth.image.tolist(), one.truth.label.tolist()) == ([1, 0], [0, 0])
    assert images.take([True, False, False]).ids == ("a",)
    assert len(images.take([]).truth.image) == 0
    with pytest.raises(InputError, match="no class 'cow'"):
        images.only(["cow"])
