"""Multiple-instance learning: bags, and latent SVMs over them as scikit-learn estimators. Stands alone."""

from tag2box.mil.bags import Bags, PerInstance
from tag2box.mil.latent import LatentSVC
from tag2box.mil.smooth_latent import SmoothLatentSVC
from tag2box.mil.smoothing import simplex_projection, smoothed_max

__all__ = ["Bags", "LatentSVC", "PerInstance", "SmoothLatentSVC", "simplex_projection", "smoothed_max"]
