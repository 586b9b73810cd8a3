"""Students of toys, and students that have learned nothing: small ones, made in a moment."""

import numpy as np

from tag2box.student.record import AROUND, GRID, SIZES, Axes, Curves, Student

# Settings under which the student of the toys is learned in seconds.
SMALL = ("student.side=192", "student.hidden=32", "student.epochs=1", "student.steps=30")


def random_student(n_classes=3, hidden=12, kept=(6, 10), side=192, seed=0):
    """One that says something, anything, of every photo."""
    rng = np.random.default_rng(seed)

    def weights(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    c = sum(kept)
    dense = [(9 * c, hidden), (hidden, hidden), (hidden, len(SIZES) * (n_classes + 4))]
    regions = [((GRID**2 + AROUND**2 + 1) * c, hidden), (hidden, hidden), (hidden, n_classes + 4)]
    layers = [
        tuple(array for a, b in sizes for array in (weights(a, b), 0.1 * weights(b)))
        for sizes in (dense, regions)
    ]
    return Student(
        classes=tuple(f"class {i}" for i in range(n_classes)),
        side=side,
        early=Axes(weights(112), weights(112, kept[0])),
        last=Axes(weights(320), weights(320, kept[1])),
        dense=layers[0],
        regions=layers[1],
        calibration=Curves(
            np.column_stack([rng.uniform(0.5, 2, n_classes), rng.normal(size=n_classes)]),
            rng.uniform(0.5, 1, n_classes),
        ),
    )


def check_same(ours, theirs):
    """Boxes, scores and labels of two runtimes: the same within 0.5 pixels and 1e-3, best first in both.

    What scores the same within rounding may have changed places.
    """
    assert len(ours[0]) == len(theirs[0]) > 0
    for _, scores, _ in (ours, theirs):
        assert (np.diff(scores) <= 0).all()
    for box, score, label in zip(*ours, strict=True):
        same = (theirs[2] == label) & (np.abs(theirs[1] - score) < 1e-3)
        assert np.abs(theirs[0][same] - box).max(axis=1).min(initial=np.inf) < 0.5
