"""A toy data set that a run learns from in seconds: small pictures, some with a striped thing in them."""

import numpy as np
from PIL import Image

# Settings under which a run over the toys takes a second or two, once compiled.
FAST = (
    "windows.mode=single",
    "windows.max_windows=12",
    "features.levels=[96]",
    "features.crop=4",
    "features.grid=1",
    "features.dimensions=8",
)


def make_toys(folder, n=12, seed=0):
    """n pictures of 96 x 96 in `folder`; every other one holds the thing. Returns the file of tags."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["file,tags"]
    for i in range(n):
        ground = rng.integers(40, 200, 3) + rng.normal(0, 12, (96, 96, 3))
        if i % 2 == 0:
            side = int(rng.integers(30, 50))
            x, y = rng.integers(4, 92 - side, 2)
            stripes = np.where(np.arange(side) // 5 % 2, 230, 20)[:, None, None]
            ground[y : y + side, x : x + side] = stripes * np.array([1.0, 0.4, 0.2])
        Image.fromarray(ground.clip(0, 255).astype(np.uint8)).save(folder / f"toy {i:02d}.png")
        lines.append(f"toy {i:02d}.png,{'thing' if i % 2 == 0 else ''}")
    tags = folder / "tags.csv"
    tags.write_text("\n".join(lines) + "\n")
    return tags
