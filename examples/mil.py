"""Multiple-instance learning in a minute: labels on bags, and the model says which instance is the reason.

Each bag is a photo cut into tiles, each tile an instance. A bag is positive when a flower is somewhere in it.
Nobody says where; `SmoothLatentSVC` finds out. The photos come with scikit-learn.
"""

import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tag2box import Bags, LatentSVC, PerInstance, SmoothLatentSVC

TILE, TILES_PER_BAG, N_BAGS = 32, 12, 120


def tile_features(tile):
    """Mean and spread of the colors, and of the gradients: nothing that knows a flower."""
    pixels = tile.reshape(-1, 3) / 255
    gradients = [np.abs(np.diff(tile.mean(axis=2), axis=axis)).mean() / 255 for axis in (0, 1)]
    return np.concatenate([pixels.mean(axis=0), pixels.std(axis=0), gradients])


def random_tiles(photo, n, rng, where):
    """`n` tiles from random places of `photo` inside the box `where`, each in another light."""
    x1, y1, x2, y2 = where
    for _ in range(n):
        x, y = rng.integers(x1, x2 - TILE), rng.integers(y1, y2 - TILE)
        light = rng.uniform(0.4, 1.2, size=3)
        noise = rng.normal(scale=12, size=(TILE, TILE, 3))
        yield tile_features(np.clip(photo[y : y + TILE, x : x + TILE] * light + noise, 0, 255))


def make_bags(seed=0):
    """Bags of tiles of a temple and of blurred leaves; in a positive one, one tile shows petals instead."""
    china, flower = load_sample_images().images
    rng = np.random.default_rng(seed)
    y = np.arange(N_BAGS) % 2
    matrices, petals = [], []
    for label in y:
        n_petals = int(label)
        ground = [
            *random_tiles(china, TILES_PER_BAG // 2, rng, (0, 0, 640, 427)),
            *random_tiles(flower, TILES_PER_BAG // 2 - n_petals, rng, (0, 0, 200, 427)),
        ]
        rows = [*random_tiles(flower, n_petals, rng, (280, 150, 420, 290)), *ground]
        order = rng.permutation(TILES_PER_BAG)
        matrices.append(np.array(rows)[order])
        petals.append(order < n_petals)
    return Bags.from_list(matrices), y, np.concatenate(petals)


def main():
    bags, y, petals = make_bags()
    print(f"{bags}\nHalf of them are positive: there, one tile of 12 shows petals.\n")
    for model in (LatentSVC(C=10), SmoothLatentSVC(C=10, mu=0.5)):
        pipeline = make_pipeline(PerInstance(StandardScaler()), model)
        accuracy = (cross_val_predict(pipeline, bags, y, cv=10) == y).mean()
        scaled = pipeline.fit(bags, y)[0].transform(bags)
        found = petals[pipeline[-1].witness(scaled)[y == 1]].mean()
        print(f"{type(model).__name__:16} bags right (10-fold): {accuracy:.1%}")
        print(f"{'':16} positive bags whose best tile shows petals, though nobody pointed: {found:.1%}")
    print("\nNext: your own bags as Bags(X, offsets); help(tag2box.SmoothLatentSVC) has every parameter.")


if __name__ == "__main__":
    main()
