"""Detection: the detector, what it finds, and the files that it is read from."""

from tag2box.detection.config import DetectConfig
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector
from tag2box.detection.suppression import detect_windows

__all__ = ["DetectConfig", "Detections", "Detector", "detect_windows"]
