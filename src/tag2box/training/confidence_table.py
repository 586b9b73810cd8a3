"""The numbers of `confidence`, as `python -m benchmarks.confidence --fit` wrote them.

β₀, then β, mean and spread of each feature. Fitted on cards, steel, animals, tiles, voc20: on the boxes
found in the photos that each was learned from, and on detections in thirds of them that were left out.
"""

# How far the mean confidence of a class is from its share of right boxes on a set that was left out of the
# fit, in deviations of a coin toss.
CLASS_ERROR = 0.40
# The probabilities of boxes in new photos, from and to, that are shown at 0.5.
MIDDLE = (0.35, 0.6689)
TAGGED = (
    *(0.2783,),
    *(0, 0.161, 0.1869, 0.2755, 0.6509),
    *(0.5778, -0.1583, 0.5133, -0.359, 0.6172),
    *(0.7606, 0.2055, 0.3, 0.6253, 0.2988),
)
NEW = (
    *(-0.5336,),
    *(0.7554, 0, 0, 0, 0.6609),
    *(-1.449, -1.071, 0.4331, -0.4378, 0.4579),
    *(1.705, 1.13, 0.299, 0.6617, 0.2934),
)
