"""The numbers of `confidence`, as `python -m benchmarks.confidence --fit` wrote them.

β₀, then β, mean and spread of each feature. Fitted on cards, steel, animals, tiles, voc20: on the boxes
found in the photos that each was learned from, and on detections in a third of them that was left out.
"""

__all__ = ["CLASS_ERROR", "NEW", "TAGGED"]

# How far the mean confidence of a class is from its share of right boxes on a set that was left out of the
# fit, in deviations of a coin toss.
CLASS_ERROR = 0.50
TAGGED = (
    *(0.3309,),
    *(0, 0.3157, 0.1156, 0.2145, 0.5888, -0.1599),
    *(6.159, -0.1543, 0.5688, -0.3602, 0.6172, 0.3281),
    *(1.844, 0.2075, 0.3043, 0.6203, 0.1824, 0.2066),
)
NEW = (
    *(-1.652,),
    *(1.073, 0, 0, 0, 0.3598, -0.2972),
    *(0.2579, -2.307, 0.3667, -0.6859, 0.4784, 0.3744),
    *(2.74, 1.849, 0.287, 0.9046, 0.2833, 0.2374),
)
