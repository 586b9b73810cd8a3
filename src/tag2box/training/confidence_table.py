"""The numbers of `confidence`, as `python -m benchmarks.confidence --fit` wrote them.

β₀, then β, mean and spread of each feature. Fitted on cards, steel, animals, tiles, voc20: on the boxes
found in the photos that each was learned from, and on detections in thirds of them that were left out.
"""

__all__ = ["CLASS_ERROR", "MIDDLE", "NEW", "TAGGED"]

# How far the mean confidence of a class is from its share of right boxes on a set that was left out of the
# fit, in deviations of a coin toss.
CLASS_ERROR = 0.40
# The probabilities of boxes in new photos, from and to, that are shown at 0.5.
MIDDLE = (0.3, 0.7319)
TAGGED = (
    *(0.2783,),
    *(0, 0.161, 0.1869, 0.2755, 0.6509),
    *(0.5778, -0.1583, 0.5133, -0.359, 0.6172),
    *(0.7606, 0.2055, 0.3, 0.6253, 0.2988),
)
NEW = (
    *(-0.8325,),
    *(0.8852, 0, 0, 0, 0.637),
    *(-1.702, -1.292, 0.4114, -0.4984, 0.4475),
    *(1.637, 1.249, 0.2963, 0.7333, 0.2898),
)
