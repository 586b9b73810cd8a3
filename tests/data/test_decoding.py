import hashlib

import numpy as np
import pytest
from PIL import Image

from tag2box.data import decoding
from tag2box.data.decoding import decode, read_image, read_photo, read_small
from tag2box.errors import InputError


def ramp(h=40, w=60):
    y, x = np.mgrid[:h, :w]
    return np.stack([4 * x, 6 * y, 128 + x - y], axis=2).astype(np.uint8)


def saved(tmp_path, picture, name="picture.png", **options):
    picture.save(tmp_path / name, **options)
    return tmp_path / name


@pytest.mark.parametrize(
    ("mode", "error"),
    [("RGB", 0), ("RGBA", 0), ("CMYK", 0), ("P", 51), ("YCbCr", 3), ("HSV", 8)],
)
def test_color_survives_every_mode(mode, error):
    picture = Image.fromarray(ramp())
    rgb = read_image(picture.convert(mode))
    assert rgb.dtype == np.uint8
    assert np.abs(rgb.astype(int) - ramp()).max() <= error


@pytest.mark.parametrize("mode", ["1", "L", "LA", "I;16", "I", "F"])
def test_grey_becomes_three_equal_channels(mode):
    grey = ramp()[:, :, 0]
    picture = {
        "I;16": lambda: Image.fromarray(grey.astype(np.uint16) * 257),
        "I": lambda: Image.fromarray(grey.astype(np.int32) * 257),
        "F": lambda: Image.fromarray(grey.astype(np.float32) / 255),
    }.get(mode, lambda: Image.fromarray(grey).convert(mode))()
    assert picture.mode == mode
    rgb = read_image(picture)
    assert (rgb == rgb[:, :, :1]).all()
    if mode != "1":
        np.testing.assert_array_equal(rgb[:, :, 0], grey)


def test_alpha_is_laid_over_white(tmp_path):
    picture = np.dstack([ramp(), np.zeros((40, 60), np.uint8)])
    picture[:, 30:, 3] = 255
    rgb = read_image(picture)
    assert (rgb[:, :30] == 255).all()
    np.testing.assert_array_equal(rgb[:, 30:], ramp()[:, 30:])
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([10, 20, 30])
    assert (read_image(saved(tmp_path, palette, "see_through.gif", transparency=0)) == 255).all()


@pytest.mark.parametrize(
    "array",
    [
        ramp()[:, :, 0],
        ramp()[:, :, :1],
        np.dstack([ramp()[:, :, 0], np.full((40, 60), 255)]).astype(np.uint8),
        ramp()[:, :, 0].astype(np.uint16) * 257,
        ramp()[:, :, 0] / 255.0,
        (ramp()[:, :, 0] / 255).astype(np.float32),
    ],
    ids=["2d", "one channel", "grey and alpha", "uint16", "float64", "float32"],
)
def test_grey_arrays(array):
    np.testing.assert_array_equal(read_image(array), np.repeat(ramp()[:, :, :1], 3, axis=2))


def test_arrays_need_not_be_contiguous_and_stay_as_they_were():
    flipped = ramp()[::-1, ::-2]
    before = flipped.copy()
    out = read_image(flipped)
    np.testing.assert_array_equal(out, before)
    out[:] = 0
    np.testing.assert_array_equal(flipped, before)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("side", [None, 30])
def test_exif_rotation_is_undone(tmp_path, orientation, mode, side):
    """What is stored is turned such that the tag turns it back: bright at the top left."""
    upright = np.zeros((48, 64), np.uint8)
    upright[:24, :32] = 255
    back = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}[orientation]
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright, -1),
        7: upright[::-1, ::-1].T,
        8: np.rot90(upright, 1),
    }[back]
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path, Image.fromarray(stored.copy()).convert(mode), "turned.jpg", exif=exif, quality=95)
    rgb, size = read_small(path, side)
    assert size == (64, 48)
    h, w, _ = rgb.shape
    assert w > h
    assert rgb[: h // 2 - 2, : w // 2 - 2].min() > 200
    assert max(rgb[h // 2 + 2 :].max(), rgb[:, w // 2 + 2 :].max()) < 60


def test_only_the_first_frame_counts(tmp_path):
    frames = [Image.new("RGB", (9, 7), color) for color in ("red", "blue")]
    path = saved(tmp_path, frames[0], "moving.gif", save_all=True, append_images=frames[1:])
    assert (read_image(path) == (255, 0, 0)).all()


def test_sixteen_bit_files(tmp_path):
    grey = ramp()[:, :, 0]
    path = saved(tmp_path, Image.fromarray(grey.astype(np.uint16) * 257))
    np.testing.assert_array_equal(read_image(path)[:, :, 1], grey)


@pytest.mark.parametrize("side", [1, 7, 33, 60, 500])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (5000, 1), (100, 37)])
def test_shrinking_keeps_the_shape_and_tells_the_size(shape, side):
    rgb, (width, height) = read_small(np.zeros(shape, np.uint8), side)
    assert (height, width) == shape
    assert max(rgb.shape[:2]) == min(side, max(shape))
    assert min(rgb.shape[:2]) >= 1


def test_large_jpegs_shrink_to_what_they_show(tmp_path):
    wide = np.asarray(Image.fromarray(ramp()).resize((2400, 1600), Image.Resampling.BILINEAR))
    path = saved(tmp_path, Image.fromarray(wide), "large.jpg", quality=95)
    from_file, size = read_small(path, 60)
    assert size == (2400, 1600)
    assert np.abs(from_file.astype(int) - read_small(wide, 60)[0]).max() <= 6


@pytest.mark.parametrize("kind", ["jpg", "png", "gif", "webp", "tif"])
def test_files_cut_short_are_refused_in_one_line(tmp_path, kind):
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (80, 80, 3), dtype=np.uint8))
    path = saved(tmp_path, picture, f"cut.{kind}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=f"cut.{kind}") as caught:
        read_image(path)
    assert "\n" not in str(caught.value)


def test_what_is_not_an_image_is_refused(tmp_path):
    (tmp_path / "notes.jpg").write_text("no picture")
    (tmp_path / "empty.png").write_bytes(b"")
    for name, says in [("notes.jpg", "not an image"), ("empty.png", "not an image"), ("none.jpg", "no such")]:
        with pytest.raises(InputError, match=says):
            read_image(tmp_path / name)
    with pytest.raises(InputError, match="folder"):
        read_image(tmp_path)


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((3, 4, 5), np.uint8), "shape"),
        (np.zeros(7, np.uint8), "shape"),
        (np.zeros((0, 4, 3), np.uint8), "at least one pixel"),
        (np.full((2, 2), -1.0), "between 0 and 1"),
        (np.full((2, 2), np.nan), "between 0 and 1"),
        (np.full((2, 2), 300), "uint8"),
        (np.zeros((2, 2), complex), "complex"),
    ],
)
def test_arrays_that_are_no_images_are_refused(array, says):
    with pytest.raises(InputError, match=says):
        read_image(array)


def test_bombs_are_refused_before_they_are_unpacked(tmp_path):
    path = saved(tmp_path, Image.new("1", (10_000, 10_000)), "bomb.png")
    with pytest.raises(InputError, match="pixels"):
        read_image(path)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_picture_has_its_upright_size(tmp_path, suffix, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (60, 20)).save(tmp_path / f"p.{suffix}", exif=exif)
    small, size = read_small(tmp_path / f"p.{suffix}", 30)
    expected = (20, 60) if orientation > 4 else (60, 20)
    assert size == expected
    assert small.shape[1::-1] == tuple(side // 2 for side in expected)


def test_a_decoded_photo_has_the_pixels_of_its_file(tmp_path):
    """Whoever decodes once gets what everybody else decodes again."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (60, 80, 3)).astype(np.uint8))
    for name, size in (("large.jpg", (2400, 1800)), ("small.png", (320, 240))):
        coarse.resize(size).save(tmp_path / name)
        once = decode(tmp_path / name)
        assert once.size == size
        for side in (64, 500, 1024):
            (one, full), (two, _) = (read_small(source, side) for source in (once, tmp_path / name))
            assert full == size
            assert max(one.shape) <= max(side, 64)
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "tif", "bmp", "gif"])
@pytest.mark.parametrize("side", [None, 40, 1500])
def test_a_photo_that_was_read_is_what_it_was(tmp_path, kind, side):
    """The bytes that are hashed are those that are decoded, whatever becomes of the file."""
    path = saved(tmp_path, Image.fromarray(ramp(80, 120)), f"a.{kind}")
    content = path.read_bytes()
    expected = read_small(path, side)
    photo = read_photo(path)
    path.write_bytes(b"another")
    assert photo.sha256 == hashlib.sha256(content).hexdigest()
    np.testing.assert_array_equal(photo.small(side)[0], expected[0])
    assert photo.small(side)[1] == expected[1] == (120, 80)
    path.unlink()
    np.testing.assert_array_equal(decode(photo).rgb, photo.small(1024)[0])


def test_a_file_is_opened_once_to_be_read(tmp_path, monkeypatch):
    path = saved(tmp_path, Image.fromarray(ramp()), "a.jpg")
    opened = []
    whole = decoding.open_file
    monkeypatch.setattr(decoding, "open_file", lambda path: opened.append(path) or whole(path))
    read_small(read_photo(path), 30)
    assert opened == [path]


def test_a_file_that_is_too_large_for_a_photo_is_not_read(tmp_path):
    with (tmp_path / "large.jpg").open("wb") as file:
        file.truncate(decoding.MAX_FILE + 1)
    with pytest.raises(InputError, match=r"large\.jpg: more than 512 MB"):
        read_photo(tmp_path / "large.jpg")
