"""The numbers of `confidence`, as `python -m benchmarks.confidence --fit` wrote them.

β₀, then β, mean and spread of each feature. Fitted on cards, steel, animals, tiles, voc20: on the boxes
found in the photos that each was learned from, and on detections in a third of them that was left out.
"""

__all__ = ["CLASS_ERROR", "NEW", "TAGGED"]

# How far the mean confidence of a class is from its share of right boxes on a set that was left out of the
# fit, in deviations of a coin toss.
CLASS_ERROR = 0.92
TAGGED = (
    *(0.2825,),
    *(0, 0.3664, 0.1009, 0.2307, -0.4919, -0.4117),
    *(6.159, -0.1543, 0.5688, -0.3602, 0.2212, 0.3281),
    *(1.844, 0.2075, 0.3043, 0.6203, 0.1733, 0.2066),
)
NEW = (
    *(-6.776,),
    *(1.177, 0, 0, 0, -0.2552, -0.263),
    *(-10.74, -4.3, 0.09424, -2.454, 0.3031, 0.4218),
    *(2.576, 1.796, 0.1696, 1.615, 0.1967, 0.2559),
)
