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
    *(-0.9039,),
    *(0.8858, 0, 0, 0, 0.3763, 0.3813),
    *(2.521, -1.595, 0.4078, -0.4684, 0.5736, 0.5222),
    *(2.654, 1.482, 0.2886, 0.6746, 0.2058, 0.1795),
)
