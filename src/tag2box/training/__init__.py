"""Training: what scores a window, learned from tags."""

from tag2box.training.initial import InitialConfig
from tag2box.training.refinement import RefineConfig
from tag2box.training.retraining import RetrainConfig
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights
from tag2box.training.two_stream import TwoStreamConfig

__all__ = ["InitialConfig", "RefineConfig", "RetrainConfig", "Scorer", "TwoStreamConfig", "Weights"]
