"""The numbers of `confidence`, as `python -m benchmarks.confidence --fit` wrote them.

β₀, then β, mean and spread of each feature. Fitted on cards, steel, animals, tiles, voc20: on the boxes
found in the photos that each was learned from, and on detections in a third of them that was left out.
"""

__all__ = ["CLASS_ERROR", "NEW", "TAGGED"]

# How far the mean confidence of a class is from its share of right boxes on a set that was left out of the
# fit, in deviations of a coin toss.
CLASS_ERROR = 0.52
TAGGED = (
    *(0.0,),
    *(0, 0.0, 0.0, 0.0, 1.0),
    *(0, -0.1591, 0.5147, -0.3591, 0.6),
    *(1, 0.2065, 0.2994, 0.6244, 0.3),
)
NEW = (
    *(0.0,),
    *(1.0, 0, 0, 0, 1.0),
    *(0, -1.595, 0.4078, -0.4684, 0.6),
    *(1, 1.482, 0.2886, 0.6746, 0.3),
)
