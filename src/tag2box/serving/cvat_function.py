"""A detector inside CVAT, without its serverless stack: an auto-annotation function for its SDK.

    cvat-cli task auto-annotate 137 --function-module tag2box.serving.cvat_function -p run=str:runs/photos

or, in a program, `cvat_sdk.auto_annotation.annotate_task(client, 137, create("runs/photos"))`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL.Image import Image

from tag2box.detection.config import MIN_SCORE, check_min_score
from tag2box.detection.detector import Detector
from tag2box.errors import InputError, install_command
from tag2box.run.folder import RunFolder


class CvatFunction:
    """What CVAT calls: `spec` has the labels, `detect` finds their boxes in one image.

    min_score: the confidence of a box, where CVAT asks for none of its own.
    """

    def __init__(self, detector: Detector, min_score: float = MIN_SCORE) -> None:
        self._cvat = _package()
        check_min_score(min_score)
        self._detector, self._min_score = with_confidences(detector), min_score
        labels = [self._cvat.label_spec(name, c, type="rectangle") for c, name in enumerate(detector.classes)]
        self.spec = self._cvat.DetectionFunctionSpec(labels=labels)

    def detect(self, context: Any, image: Image) -> list[Any]:
        """The boxes of an image, as CVAT has them, the surest of each class first."""
        boxes = self._detector.detect(image)
        asked = context.conf_threshold
        boxes = boxes[boxes.score >= (self._min_score if asked is None else asked)]
        rows = zip(boxes.label.tolist(), boxes.xyxy.tolist(), boxes.score.tolist(), strict=True)
        return [self._cvat.rectangle(label, corners, score=score) for label, corners, score in rows]


def create(run: str, min_score: float = MIN_SCORE) -> CvatFunction:
    """The function of a run folder, or of its detector.npz alone: what CVAT's command line calls."""
    return CvatFunction(detector_of(run), min_score)


def with_confidences(detector: Detector) -> Detector:
    """The same detector; its scores are confidences, as other tools expect, whatever its settings say."""
    return replace(detector, settings=replace(detector.settings, confidence=True))


def detector_of(run: str | Path) -> Detector:
    """The detector of a run folder, or in a file; refused where its network is not here."""
    detector = Detector.load(run) if str(run).endswith(".npz") else RunFolder(run).detector
    detector.description.settings.check_network()
    return detector


def _package() -> Any:
    try:
        from cvat_sdk import auto_annotation
    except ImportError as missing:
        raise InputError(f"auto-annotation in CVAT needs its SDK: {install_command('cvat')}") from missing
    return auto_annotation
