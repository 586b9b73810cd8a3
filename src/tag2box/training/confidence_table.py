"""The numbers of `confidence`, as `python -m benchmarks.confidence --fit` wrote them.

β₀, then β, mean and spread of each feature. Fitted on cards, steel, animals, tiles, voc20: on the boxes
found in the photos that each was learned from, and on detections in a third of them that was left out.
"""

__all__ = ["CLASS_ERROR", "MIDDLE", "NEW", "TAGGED"]

# How far the mean confidence of a class is from its share of right boxes on a set that was left out of the
# fit, in deviations of a coin toss.
CLASS_ERROR = 0.40
# The probabilities of boxes in new photos, from and to, that are shown at 0.5.
MIDDLE = (0.3, 0.69)
TAGGED = (
    *(0.2795,),
    *(0, 0.1624, 0.1963, 0.2662, 0.6446),
    *(1.264, -0.1583, 0.5136, -0.3586, 0.6178),
    *(1.801, 0.2054, 0.3, 0.6251, 0.2992),
)
NEW = (
    *(-1.968,),
    *(1.216, 0, 0, 0, 0.5243),
    *(-5.024, -2.456, 0.349, -0.7652, 0.433),
    *(2.967, 1.804, 0.2752, 0.9828, 0.2756),
)
