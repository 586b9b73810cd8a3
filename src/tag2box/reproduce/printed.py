"""What the paper prints in Tables 2 and 3: its own figures, and those of others that it puts beside them."""

from dataclasses import dataclass

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable"),
    *("dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
SIX = ("aeroplane", "bicycle", "boat", "bus", "horse", "motorbike")
# AP in per cent, from Tables 2 and 3 of the paper.
_SVM = (
    *(23.4, 43.5, 22.4, 8.1, 6.2, 33.9, 33.8, 30.4, 0.1, 17.9),
    *(11.5, 17.1, 24.7, 40.2, 2.4, 14.8, 21.4, 15.1, 31.9, 6.2),
)
_LSVM = (
    *(28.2, 47.2, 17.6, 9.6, 6.5, 34.7, 35.5, 31.5, 0.3, 21.7),
    *(13.2, 20.7, 25.2, 39.8, 12.6, 18.6, 21.2, 18.6, 31.7, 10.2),
)
_SLSVM = (
    *(27.6, 41.9, 19.7, 9.1, 10.4, 35.8, 39.1, 33.6, 0.6, 20.9),
    *(10.0, 27.7, 29.4, 39.2, 9.1, 19.3, 20.5, 17.1, 35.6, 7.1),
)
PAPER = {
    "negative mining + SVM": dict(zip(SIX, (23.2, 15.4, 5.1, 2.0, 6.2, 17.4), strict=True)),
    "Cover + SVM": dict(zip(CLASSES, _SVM, strict=True)),
    "Cover + LSVM": dict(zip(CLASSES, _LSVM, strict=True)),
    "Cover + SLSVM": dict(zip(CLASSES, _SLSVM, strict=True)),
}


@dataclass(frozen=True)
class Other:
    """A row of others: AP of each class in per cent, of its left and right side where there are two.

    ap: (), where the paper has their mean alone.
    """

    name: str
    mean: float
    ap: tuple[float | tuple[float, float], ...] = ()


# Table 2 and Table 3. Those before Siva and Xiang learn from more than tags: poses, truncated or difficult
# objects, and Deselaers et al. from the boxes of 799 other photos.
OTHERS = {
    SIX: (
        Other(
            "Deselaers et al. 2010, left and right",
            16.0,
            ((9.1, 23.6), (33.4, 49.4), (0.0, 0.0), (0.0, 16.4), (9.6, 9.1), (20.9, 16.1)),
        ),
        Other(
            "Pandey and Lazebnik 2011, left and right",
            20.8,
            ((7.5, 21.1), (38.5, 44.8), (0.3, 0.5), (0.0, 0.3), (45.9, 17.3), (43.8, 27.2)),
        ),
        Other(
            "Deselaers et al. 2012, left and right",
            21.4,
            ((5.3, 18.1), (48.6, 61.6), (0.0, 0.0), (0.0, 16.4), (29.1, 14.1), (47.7, 16.2)),
        ),
        Other("Russakovsky et al. 2012", 22.8, (30.8, 25.0, 3.6, 26.0, 21.3, 29.9)),
    ),
    CLASSES: (
        Other("Russakovsky et al. 2012", 15.0),
        Other(
            "Siva and Xiang 2011",
            13.9,
            (
                *(13.4, 44.0, 3.1, 3.1, 0.0, 31.2, 43.9, 7.1, 0.1, 9.3),
                *(9.9, 1.5, 29.4, 38.3, 4.6, 0.1, 0.4, 3.8, 34.2, 0.0),
            ),
        ),
    ),
}
