"""What a project of Label Studio calls its rectangles, its image and its labels."""

from dataclasses import dataclass

from tag2box.data.formats.parsing import parse_xml
from tag2box.errors import InputError

EXAMPLE = '<RectangleLabels name="label" toName="image"> for an <Image name="image">'


@dataclass(frozen=True)
class Controls:
    """names: of the rectangles and of the image. labels: class of the run -> label of the project."""

    names: tuple[str, str]
    labels: dict[str, str]

    def class_of(self, label: str) -> str | None:
        """The class that a label of the project stands for; None where the run does not know it."""
        return next((kind for kind, own in self.labels.items() if own == label), None)


def read_config(text: object, classes: tuple[str, ...]) -> Controls:
    """The first rectangles over an image in the labeling configuration `text`, for these classes.

    A class has the label that lists it in `predicted_values`, as Label Studio's own backends have it, or the
    one of its name, in any case of letters.
    """
    if not isinstance(text, str):
        raise InputError(f"the project has no labeling configuration: expected {EXAMPLE}")
    root = parse_xml(text, "the labeling configuration is not XML")
    images = {image.get("name") for image in root.iter("Image")}
    for control in root.iter("RectangleLabels"):
        target = control.get("toName", "")
        if control.get("name") and target in images:
            known = [
                (label.get("value", ""), label.get("predicted_values", "")) for label in control.iter("Label")
            ]
            return Controls((control.get("name", ""), target), _labels(known, classes))
    raise InputError(f"the labeling configuration has no rectangles: expected {EXAMPLE}")


def _labels(known: list[tuple[str, str]], classes: tuple[str, ...]) -> dict[str, str]:
    out = {}
    for kind in classes:
        for label, others in known:
            named = [name.strip() for name in others.split(",")]
            if kind in named or kind.casefold() == label.casefold():
                out[kind] = label
                break
    return out
