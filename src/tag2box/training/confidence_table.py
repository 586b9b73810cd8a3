"""The numbers of `confidence`, as `python -m benchmarks.confidence --fit` wrote them.

β₀, then β, mean and spread of each feature. Fitted on cards, steel, animals, tiles, voc20: on the boxes
found in the photos that each was learned from, and on detections in a third of them that was left out.
"""

__all__ = ["CLASS_ERROR", "NEW", "TAGGED"]

# How far the mean confidence of a class is from its share of right boxes on a set that was left out of the
# fit, in deviations of a coin toss.
CLASS_ERROR = 0.52
TAGGED = (
    *(0.5055,),
    *(0, 0.1924, 0.455, 0.1166, 0.4442, -0.09512),
    *(7.717, -0.1591, 0.5147, -0.3591, 0.6432, 0.264),
    *(1.906, 0.2065, 0.2994, 0.6244, 0.161, 0.1997),
)
NEW = (
    *(-1.771,),
    *(1.297, 0, 0, 0, 0.3296, -0.1878),
    *(0.6873, -2.435, 0.3432, -0.7146, 0.5641, 0.2922),
    *(3.139, 1.833, 0.2782, 0.9004, 0.2091, 0.2261),
)
