"""A detector as a base model of autodistill: it labels a folder, and a smaller model is trained on that.

base_model("runs/photos").label("photos", extension=".jpg", output_folder="dataset")
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tag2box.detection.config import MIN_SCORE, check_min_score
from tag2box.detection.detections import Detections
from tag2box.errors import InputError, install_command
from tag2box.names import place_of_class
from tag2box.serving.cvat_function import detector_of, with_confidences


def base_model(
    run: str | Path, ontology: Mapping[str, str] | None = None, *, min_score: float = MIN_SCORE
) -> Any:
    """The detector of a run as autodistill's `DetectionBaseModel`.

    ontology: the classes of the run that are wanted, and what each is called in the data set; all of them
    under their own names by default. min_score: the lowest confidence of a box.
    """
    try:
        from autodistill.detection import CaptionOntology, DetectionBaseModel
    except ImportError as missing:
        raise InputError(f"a base model needs autodistill: {install_command('autodistill')}") from missing
    check_min_score(min_score)
    detector = with_confidences(detector_of(run))
    names = dict(ontology or {name: name for name in detector.classes})
    wanted = [place_of_class(name, detector.classes) for name in names]

    class Tag2BoxModel(DetectionBaseModel):
        def __init__(self) -> None:
            self.ontology = CaptionOntology(names)

        def predict(self, input: Any) -> Any:  # noqa: A002  autodistill's word
            """The boxes of a photo: a file, an image of PIL, or an array as OpenCV reads it."""
            photo = input[..., ::-1] if isinstance(input, np.ndarray) else input  # OpenCV: blue, green, red
            boxes = detector.detect(photo)
            return _of_classes(boxes[boxes.score >= min_score], wanted).to_supervision()

    return Tag2BoxModel()


def _of_classes(boxes: Detections, wanted: list[int]) -> Detections:
    """The boxes of these classes alone, numbered by their place among them."""
    classes = boxes.classes or ()
    part = boxes[np.isin(boxes.label, wanted)]
    place = np.array([wanted.index(label) for label in part.label.tolist()], np.intp)
    names = tuple(classes[c] for c in wanted)
    return Detections(part.image, part.xyxy, part.score, place, part.ids, names)
