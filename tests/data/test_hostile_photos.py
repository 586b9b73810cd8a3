"""Files that are no photos, or photos meant to do harm: each is refused in one line, and costs little."""

import os
import socket
import struct
import subprocess
import sys
import warnings
import zlib

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image, PngImagePlugin

from tag2box import InputError, read_images
from tag2box.data.decoding import MAX_MEMORY, MAX_PIXELS, image_size, read_image, read_small
from tag2box.data.first_look import look
from tag2box.data.photos import find_photos

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n0 0 9 9 rectfill\nshowpage\n%%EOF\n"


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
def test_a_jpg_that_holds_eps_starts_no_program(tmp_path, monkeypatch):
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(EPS)
    for read in (read_image, image_size):
        with pytest.raises(InputError, match=r"photo\.jpg: not an image that is read here"):
            read(photo)
    assert not (tmp_path / "started").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_or_socket_called_jpg_is_named_and_not_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    folder = tmp_path / "cat"
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "photo.jpg")
    os.mkfifo(folder / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("cat/socket.jpg")
        images = read_images(tmp_path)
        assert images.ids == ("cat/photo",)
        assert [line.split(": ")[0].rpartition("/")[2] for line in images.skipped] == [
            "pipe.jpg",
            "socket.jpg",
        ]
        named = find_photos([folder / "pipe.jpg"])  # a name that was given is taken as it is
        assert "a pipe" in look(named).unreadable[0].reason
        for name in ("pipe.jpg", "socket.jpg"):
            with pytest.raises(InputError, match="a pipe, a socket or a device"):
                image_size(folder / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize("name", ["data.yaml", "instances.json", "annotations/train.json", "tags.csv"])
def test_a_pipe_in_the_place_of_a_description_is_not_opened(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError):
        read_images(tmp_path)


def test_sixteen_bits_in_both_byte_orders(tmp_path):
    grey = np.arange(48, dtype=np.uint16).reshape(6, 8) * 1300
    for order in "<>":
        path = tmp_path / "grey.tif"
        path.write_bytes(tiff(grey.astype(f"{order}u2"), order))
        with Image.open(path) as picture:
            assert picture.mode == {"<": "I;16", ">": "I;16B"}[order]
        np.testing.assert_array_equal(read_image(path)[:, :, 0], grey >> 8)
        np.testing.assert_array_equal(read_image(grey.astype(f"{order}u2"))[:, :, 1], grey >> 8)
    assert read_small(path, 4)[0].shape == (3, 4, 3)


def tiff(pixels, order):
    """A TIFF of one strip of uncompressed 16-bit grey."""
    height, width = pixels.shape
    data = pixels.tobytes()
    kind = {258: 16, 259: 1, 262: 1, 277: 1}
    return _tiff(order, data, {256: width, 257: height, **kind, 273: 8, 278: height, 279: len(data)})


def tiled(side):
    """A TIFF of one pixel, in a compressed tile of side x side."""
    data = zlib.compress(bytes(9))
    kind = {258: 16, 259: 8, 262: 1, 277: 1}
    return _tiff("<", data, {256: 1, 257: 1, **kind, 322: side, 323: side, 324: 8, 325: len(data)})


def _tiff(order, data, entries):
    data += bytes(len(data) % 2)
    table = b"".join(struct.pack(f"{order}HHII", tag, 4, 1, value) for tag, value in sorted(entries.items()))
    start = {"<": b"II*\x00", ">": b"MM\x00*"}[order] + struct.pack(f"{order}I", 8 + len(data))
    return start + data + struct.pack(f"{order}H", len(entries)) + table + bytes(4)


def png(width, height, depth, color, *chunks, behind=()):
    """A PNG of zeros: next to nothing in the file, and a lot in memory."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    bands = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    pack = zlib.compressobj(9)
    row = bytes(1 + (width * bands * depth + 7) // 8)
    data = b"".join(pack.compress(row) for _ in range(height)) + pack.flush()
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", data), *behind, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


MEASURE = """
import resource, sys
from tag2box import InputError
from tag2box.data.decoding import read_small
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_small(sys.argv[1], 600)
except InputError as error:
    print(error, file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def cost(path):
    """Bytes that a process needs to read the photo, over what it needs anyhow."""
    answer = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    return int(answer.stdout)


SIDE = int(MAX_PIXELS**0.5) - 1


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes there")
@pytest.mark.parametrize(
    ("content", "bound"),
    [
        # An eighth of a byte per pixel in the file, a transparent color: 11 KB, and once 844 MB.
        (lambda: png(SIDE, SIDE, 1, 0, (b"tRNS", b"\0\0")), 150e6),
        (lambda: png(6000, 6000, 8, 6), 200e6),
        # 112 bytes, and once 1.1 GB.
        (lambda: tiled(20_000), 50e6),
    ],
    ids=["one bit and transparent", "RGBA", "a tile that is larger than its picture"],
)
def test_small_files_cost_little_memory(tmp_path, content, bound):
    path = tmp_path / "bomb.png"
    path.write_bytes(content())
    assert cost(path) < bound


def test_the_bound_on_memory_is_told_before_decoding(tmp_path):
    Image.new("RGB", (6000, 6000)).save(tmp_path / "large.webp", lossless=True, quality=0, method=0)
    with pytest.raises(
        InputError, match=f"would take 576 MB to decode, more than the {MAX_MEMORY // 10**6} MB"
    ):
        read_small(tmp_path / "large.webp", 60)
    assert image_size(tmp_path / "large.webp") == (6000, 6000)


def test_a_jpeg_of_many_scans_is_refused_at_once(tmp_path):
    path = tmp_path / "scans.jpg"
    Image.new("L", (64, 64)).save(path, progressive=True)
    assert read_image(path).shape == (64, 64, 3)
    whole = path.read_bytes()
    scan = whole[whole.rindex(b"\xff\xda") : -2]
    path.write_bytes(whole[:-2] + 5000 * scan + whole[-2:])  # at 64 megapixels these once took 98 s
    with pytest.raises(InputError, match=r"scans\.jpg: a JPEG of 50.. scans, more than 100"):
        read_image(path)


def test_the_size_of_a_png_is_read_without_its_pixels(tmp_path, monkeypatch):
    """EXIF may stand behind the pixels, where Pillow looks for it by decoding them."""
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = (b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0"))
    path = tmp_path / "turned.png"
    for before, behind in [((turned,), ()), ((), (turned,)), ((), ())]:
        path.write_bytes(png(60, 20, 8, 2, *before, behind=behind))
        expected = (20, 60) if before or behind else (60, 20)
        assert read_image(path).shape[1::-1] == expected
        with monkeypatch.context() as patch:
            patch.setattr(PngImagePlugin.PngImageFile, "load_prepare", None)
            assert image_size(path) == expected


def test_nothing_is_written_about_odd_metadata(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / "odd.jpg"
    Image.new("RGB", (60, 20)).save(path, exif=exif)
    whole = path.read_bytes()
    start = whole.index(b"Exif\0\0") + 6
    path.write_bytes(whole[:start] + b"MM\0*" + b"\xff" * 12 + whole[start + 16 :])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert read_image(path).shape == (20, 60, 3)  # the pixels are whole: which way up nobody knows
        assert image_size(path) == (60, 20)
    assert told == []


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "1", "I;16", "F", "CMYK"])
@pytest.mark.parametrize("side", [None, 1500, 90])
def test_strips_give_the_same_as_the_whole_picture(mode, side, monkeypatch):
    y, x = np.mgrid[:1511, :1013]
    grey = (x // 3 + y // 5).astype(np.uint8)
    picture = {
        "I;16": lambda: Image.fromarray(grey.astype(np.uint16) * 257),
        "F": lambda: Image.fromarray(grey.astype(np.float32) / 255),
        "RGBA": lambda: Image.merge(
            "RGBA", [Image.fromarray(band) for band in (grey, 255 - grey, grey, grey)]
        ),
    }.get(mode, lambda: Image.fromarray(grey).convert(mode))()
    strips, size = read_small(picture, side)
    monkeypatch.setattr("tag2box.data.decoding.STRIP", 1 << 40)
    whole, _ = read_small(picture, side)
    np.testing.assert_array_equal(strips, whole)
    assert size == (1013, 1511)


def test_a_file_that_may_not_be_opened_says_so(tmp_path, monkeypatch):
    path = tmp_path / "photo.jpg"
    Image.new("RGB", (8, 8)).save(path)

    def closed(*_args, **_options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Image, "open", closed)
    with pytest.raises(InputError, match=r"photo\.jpg: cannot be read: Permission denied"):
        read_image(path)
