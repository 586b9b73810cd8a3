"""Pictures of the cover of one class, from a folder in the layout of the VOC devkit.

    python examples/draw_cover.py VOC2007 bicycle pictures --images 150

Writes neighbors.png (the paper's Figure 2), mined.png (Figure 5: ours green, negative mining red), gains.png
and degree.png.
"""

import argparse
from pathlib import Path

import numpy as np

from tag2box import (
    FeaturesConfig,
    ImageSet,
    cover_graph,
    find_features,
    find_projection,
    find_windows,
    greedy_cover,
    group_neighbors,
    negative_mining,
    read_images,
)
from tag2box.cover import CoverConfig, compared
from tag2box.cover.snapping import above_chance, best_share, contrast, snap
from tag2box.report import pictures
from tag2box.runtime.progress import progress_bars


def some_images(images, name, n):
    """Half of them positive, so that a picture does not need the whole set."""
    chosen = np.sort(np.concatenate([images.positives(name)[: n // 2], images.negatives(name)[: n - n // 2]]))
    pick = [int(i) for i in chosen]
    return ImageSet(
        tuple(images.ids[i] for i in pick),
        tuple(images.paths[i] for i in pick),
        images.tags[pick],
        images.classes,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("name", help="the class")
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=int, default=150)
    arguments = parser.parse_args()
    images = some_images(read_images(arguments.data), arguments.name, arguments.images)
    config = FeaturesConfig()
    with progress_bars() as progress:
        windows = find_windows(images, workers=None, progress=progress)
        projection = find_projection(images, windows, config, workers=None, progress=progress)
        features = find_features(images, windows, projection, config, workers=None, progress=progress)
        positives = images.positives(arguments.name)
        queries = windows.rows_of(positives)
        k = len(positives) // 2
        X = compared(features, CoverConfig())
        table = group_neighbors(X, features.offsets, queries, k, progress=progress)
    graph = cover_graph(table, positives, k)
    degree = np.zeros(len(windows.xyxy))
    degree[graph.V] = above_chance(graph, len(images))
    score = contrast(windows.xyxy, windows.offsets, degree)
    seeds = best_share(score, windows.offsets, 0.05)
    cover = snap(greedy_cover(cover_graph(table, positives, k, seeds)), windows.xyxy, windows.offsets, score)
    positive = images.tags[:, images.classes.index(arguments.name)] == 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    sheets = {
        "neighbors": pictures.neighbor_sheet(images, windows, table, cover, positive),
        "mined": pictures.mined_windows(images, windows, cover, negative_mining(table, positives)),
        "gains": pictures.gain_curve(cover, arguments.name),
        "degree": pictures.degree_map(images, int(positives[0]), windows, degree),
    }
    for name, picture in sheets.items():
        picture.save(arguments.out / f"{name}.png")
        print(arguments.out / f"{name}.png")


if __name__ == "__main__":
    main()
