"""The numbers of `confidence`, as `python -m benchmarks.confidence --fit` wrote them.

β₀, then β, mean and spread of each feature. Fitted on cards, steel, animals, tiles, voc20: on the boxes
found in the photos that each was learned from, and on detections in a third of them that was left out.
"""

__all__ = ["CLASS_ERROR", "NEW", "TAGGED"]

# How far the mean confidence of a class is from its share of right boxes on a set that was left out of the
# fit, in deviations of a coin toss.
CLASS_ERROR = 0.73
TAGGED = (
    *(0.1209,),
    *(0, 0.2166, 0.4414, 0.1753, -0.6704, -0.8173),
    *(6.166, -0.1661, 0.5328, -0.3612, 0.2215, 0.334),
    *(1.84, 0.2141, 0.3056, 0.6281, 0.173, 0.2045),
)
NEW = (
    *(-6.936,),
    *(1.194, 0, 0, 0, -0.3544, -0.5411),
    *(-10.64, -4.207, 0.09234, -2.397, 0.2788, 0.4026),
    *(2.617, 1.734, 0.1645, 1.617, 0.181, 0.2316),
)
