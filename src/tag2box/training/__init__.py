"""Training: from the first windows of each class to its detector."""

from tag2box.training.initial import InitialConfig
from tag2box.training.refinement import RefineConfig
from tag2box.training.scoring import Weights, score_windows

__all__ = ["InitialConfig", "RefineConfig", "Weights", "score_windows"]
