"""The cover of one class as a page, from a folder in the layout of the VOC devkit.

    python examples/draw_cover.py VOC2007 bicycle cover.html --images 150

Shows the windows selected and their neighbors (the paper's Figure 2), the gain curve, maps of the votes, and
in each photo the window of negative mining and that of the cover (Figure 5).
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tag2box import Config, cover_graph, greedy_cover, group_neighbors, negative_mining, read_images
from tag2box.cover.compared import compare
from tag2box.cover.degrees import count_neighbors
from tag2box.cover.votes import best_share
from tag2box.description.photos import describe_photos
from tag2box.description.record import Described
from tag2box.pipeline import description_settings
from tag2box.report.content import ClassRecords, build_content, render_page
from tag2box.run.heat_maps import votes
from tag2box.runtime.progress import progress_bars
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store


def some_images(images, name, n):
    """Half of them positive, so that a page does not need the whole set."""
    images = images.only([name])
    return images.take(
        np.sort(np.append(images.positives(name)[: n // 2], images.negatives(name)[: n - n // 2]))
    )


def describe_all(images, config, progress):
    """The photos as a run describes them."""
    with TemporaryDirectory() as folder:
        run = Run(Store(folder), progress=progress)
        photos = describe_photos(images.paths, description_settings(config), run)
        described = photos.described(run, range(len(images)))
        return Described(described.windows, described.X[:])  # read, before its files are removed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("name", help="the class")
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=int, default=150)
    arguments = parser.parse_args()
    images = some_images(read_images(arguments.data), arguments.name, arguments.images)
    config = Config.song2014()
    with progress_bars() as progress:
        described = describe_all(images, config, progress)
    windows, positives, cover = described.windows, images.positives(arguments.name), config.cover
    compared = compare((described, np.ones(len(images), bool)), cover.dimensions)
    above = count_neighbors(np.arange(len(images)), compared, images.tags, cover.k, workers=None).above[:, 0]
    k = len(positives) // 2
    table = group_neighbors(compared.X, compared.offsets, compared.rows_of(positives), k)
    seeds = best_share(above, windows.offsets, cover.seeds)
    ours, rival = greedy_cover(cover_graph(table, positives, k, seeds)), negative_mining(table, positives)
    before, after = (
        {int(i): windows.xyxy[row] for i, row in zip(*each.first(), strict=True)} for each in (rival, ours)
    )
    records = ClassRecords(ours, lambda i: votes(windows[i], above[windows.rows_of(i)]), before, after)
    content = build_content(images, windows, {arguments.name: records}, title=arguments.name, neighbors=table)
    arguments.out.write_text(render_page(content), encoding="utf-8")
    print(arguments.out)


if __name__ == "__main__":
    main()
