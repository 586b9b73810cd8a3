"""The cover of one class as a page, from a folder in the layout of the VOC devkit.

    python examples/draw_cover.py VOC2007 bicycle cover.html --images 150

Shows the windows selected and their neighbors (the paper's Figure 2), the gain curve, maps of the votes, and
in each photo the window of negative mining and that of the cover (Figure 5).
"""

import argparse
from pathlib import Path

import numpy as np
from tag2box.cover.snapping import above_chance, best_share, contrast, snap

from tag2box import (
    FeaturesConfig,
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
from tag2box.report.content import ClassRecords, build_content
from tag2box.report.page import render_page
from tag2box.report.thumbnails import votes
from tag2box.runtime.progress import progress_bars


def some_images(images, name, n):
    """Half of them positive, so that a page does not need the whole set."""
    images = images.only([name])
    return images.take(
        np.sort(np.append(images.positives(name)[: n // 2], images.negatives(name)[: n - n // 2]))
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
        k = len(positives) // 2
        X, queries = compared(features, CoverConfig()), windows.rows_of(positives)
        table = group_neighbors(X, features.offsets, queries, k, progress=progress)
    graph = cover_graph(table, positives, k)
    degree = np.zeros(len(windows.xyxy))
    degree[graph.V] = above_chance(graph, len(images))
    score = contrast(windows.xyxy, windows.offsets, degree)
    seeds = best_share(score, windows.offsets, 0.05)
    cover = snap(greedy_cover(cover_graph(table, positives, k, seeds)), windows.xyxy, windows.offsets, score)
    rival, ours = (
        {int(i): windows.xyxy[row] for i, row in zip(*some.first(), strict=True)}
        for some in (negative_mining(table, positives), cover)
    )
    records = ClassRecords(cover, lambda i: votes(windows[i], degree[windows.rows_of(i)]), rival, ours)
    content = build_content(images, windows, {arguments.name: records}, title=arguments.name, neighbors=table)
    arguments.out.write_text(render_page(content), encoding="utf-8")
    print(arguments.out)


if __name__ == "__main__":
    main()
