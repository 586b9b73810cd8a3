"""Images with planted windows: what the stages behind the description are tested on."""

import numpy as np

from tag2box.description.record import Described
from tag2box.training.known import Known
from tag2box.windows.record import Windows

N_IMAGES, N_WINDOWS, D = 36, 12, 10


def planted():
    """Images of 12 windows; in a positive image of class c the window 1 + c looks like direction c."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_IMAGES, N_WINDOWS, D)).astype(np.float32)
    tags = np.full((N_IMAGES, 2), -1, np.int8)
    tags[:12, 0] = tags[8:22, 1] = 1
    for c in range(2):
        X[tags[:, c] == 1, 1 + c, c] += 5
    corner = rng.uniform(0, 60, size=(N_IMAGES, N_WINDOWS, 2))
    xyxy = np.concatenate([corner, corner + rng.uniform(20, 40, size=corner.shape)], axis=2)
    xyxy[:, 0] = (0, 0, 100, 100)
    offsets = np.arange(N_IMAGES + 1) * N_WINDOWS
    windows = Windows(xyxy.reshape(-1, 4).astype(np.float32), offsets, np.full((N_IMAGES, 2), 100))
    return Known(Described(windows, X.reshape(-1, D)), tags)
