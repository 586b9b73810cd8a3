import numpy as np
import pytest
from PIL import Image

from tag2box.cover.greedy import cover_graph, greedy_cover
from tag2box.cover.mining import negative_mining
from tag2box.images import ImageSet
from tag2box.neighbors.search import group_neighbors
from tag2box.report import pictures
from tag2box.windows.search import Windows

RED = (200, 30, 30)


@pytest.fixture
def scene(tmp_path):
    """Six grey photos, the first three with a red square in the window that is alike in all three."""
    rng = np.random.default_rng(0)
    paths, boxes, rows = [], [], []
    for i in range(6):
        photo = np.full((40, 60, 3), 128, np.uint8)
        if i < 3:
            photo[10:30, 10:30] = RED
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(photo).save(paths[-1])
        boxes += [[10, 10, 30, 30], [35, 5, 55, 35]]
        rows += [[5.0, 0] if i < 3 else rng.normal(size=2), rng.normal(size=2)]
    tags = np.where(np.arange(6) < 3, 1, -1).astype(np.int8)[:, None]
    images = ImageSet(tuple("abcdef"), tuple(paths), tags, ("red",))
    windows = Windows(np.array(boxes, np.float32), np.arange(0, 13, 2), np.tile([60, 40], (6, 1)))
    X = np.array(rows, np.float32)
    table = group_neighbors(X, windows.offsets, np.arange(6), 3, workers=1)
    cover = greedy_cover(cover_graph(table, np.arange(3), 3))
    return images, windows, table, cover


def test_a_pick_stands_before_its_neighbors(scene):
    images, windows, table, cover = scene
    sheet = np.asarray(pictures.neighbor_sheet(images, windows, table, cover, images.tags[:, 0] == 1, 1, 2))
    step = pictures.TILE + pictures.GAP
    middle = pictures.GAP + pictures.TILE // 2
    for column in range(3):  # the pick and both neighbors are the red squares
        np.testing.assert_array_equal(sheet[middle, middle + column * step], RED)


def test_ours_is_green_and_the_rival_red(scene):
    images, windows, table, cover = scene
    sheet = pictures.mined_windows(images, windows, cover, negative_mining(table, np.arange(3)))
    colors = {color for _, color in sheet.getcolors(1 << 16)}
    assert {(44, 160, 44)} <= colors
    assert sheet.width > 4 * pictures.TILE


def test_the_map_is_bright_where_the_votes_are(scene):
    images, windows, _, _ = scene
    degree = np.zeros(12)
    degree[0] = 1.0  # the first window of the first photo
    picture = np.asarray(pictures.degree_map(images, 0, windows, degree, side=60)).astype(int)
    inside, outside = picture[20, 20], picture[20, 45]
    assert inside[1] - outside[1] > 30  # viridis: green grows with the value


def test_the_curve_is_a_picture_and_an_empty_cover_is_too(scene):
    images, windows, _, cover = scene
    assert pictures.gain_curve(cover, "red").size == (720, 420)
    empty = type(cover)(*(np.empty(0, np.int64),) * 5, 0.0, 0.0, 0, "nothing")
    assert pictures.gain_curve(empty).mode == "RGB"
    sheet = pictures.mined_windows(images, windows, empty, empty)
    assert sheet.mode == "RGB"
