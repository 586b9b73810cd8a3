"""The numbers of `confidence`, as `python -m benchmarks.confidence --fit` wrote them.

β₀, then β, mean and spread of each feature. Fitted on cards, steel, animals, tiles, voc20: on the boxes
found in the photos that each was learned from, and on detections in a third of them that was left out.
"""

__all__ = ["CLASS_ERROR", "NEW", "TAGGED"]

# How far the mean confidence of a class is from its share of right boxes on a set that was left out of the
# fit, in deviations of a coin toss.
CLASS_ERROR = 0.52
TAGGED = (
    *(0.4352,),
    *(0, 0.1446, 0.3105, 0.1798, 0.4722, 0.268),
    *(7.717, -0.1591, 0.5147, -0.3591, 0.6432, 0.5139),
    *(1.906, 0.2065, 0.2994, 0.6244, 0.161, 0.1809),
)
NEW = (
    *(-1.709,),
    *(1.185, 0, 0, 0, 0.3954, 0.3015),
    *(0.5768, -2.401, 0.3569, -0.6759, 0.5552, 0.5303),
    *(3.074, 1.835, 0.2764, 0.8766, 0.2119, 0.1699),
)
