"""`read_fiftyone`: images and tags of a FiftyOne dataset or view; and which sample a name means."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tag2box.data.formats.annotations import Annotation, Object, assemble, size_if_known
from tag2box.data.formats.files import without_suffix
from tag2box.errors import InputError
from tag2box.images import ImageSet


def read_fiftyone(samples: Any, field: str = "tags", *, classes: Sequence[str] | None = None) -> ImageSet:
    """Read the images and tags of a FiftyOne dataset or view.

    Parameters
    ----------
    samples : fiftyone.core.collections.SampleCollection
        A dataset or a view of images.
    field : str, default="tags"
        The field that says what is in an image: text, a list of texts (as the tags of every sample are),
        `Classification`, `Classifications` or `Detections`.
    classes : sequence of str, default=None
        The classes to keep, in this order. None keeps all.

    Returns
    -------
    ImageSet
        The images; their ids are those of the samples. A class is +1 where the field names it and -1 where it
        does not; where the field is empty (None), all are 0. Boxes of `Detections` are in `truth`: for
        evaluation only.

    See Also
    --------
    Detections.to_fiftyone : The way back.

    Examples
    --------
    >>> import fiftyone.zoo as foz  # doctest: +SKIP
    >>> import tag2box as t2b
    >>> view = foz.load_zoo_dataset("quickstart").limit(50)  # doctest: +SKIP
    >>> images = t2b.read_fiftyone(view, "ground_truth")  # doctest: +SKIP
    """
    known = samples.get_field_schema()
    if field not in known:
        raise InputError(f"no field {field!r} here: the fields are {', '.join(known)}")
    if samples.media_type not in {"image", None}:
        raise InputError(f"samples must be images, but they are {samples.media_type}")
    ids, files, values = samples.values(["id", "filepath", field])
    if not ids:
        raise InputError("there are no samples: give a dataset or view that has some")
    annotations = [_annotation(*each, field) for each in zip(files, values, strict=True)]
    images = assemble(annotations, ids=ids)
    return images if classes is None else images.only(classes)


def _annotation(file: str, value: Any, field: str) -> Annotation:
    labels = list(_labels(value, field))
    width, height = size_if_known(Path(file)) if any(box is not None for _, box in labels) else (0, 0)
    boxes = [
        Object(name, (box[0] * width, box[1] * height, (box[0] + box[2]) * width, (box[1] + box[3]) * height))
        for name, box in labels
        if box is not None
    ]
    tags = {name: 1 for name, _ in labels}
    return Annotation(file, Path(file), tags, boxes or None, rest=0 if value is None else -1)


def _labels(value: Any, field: str) -> Iterator[tuple[str, Any]]:
    """(label, box) of what a field holds; the box is None where there is none."""
    many = [value] if isinstance(value, str) or hasattr(value, "label") else value
    for name in ("classifications", "detections"):
        many = getattr(many, name, many)
    if many is None:
        return
    if not isinstance(many, list | tuple):
        raise InputError(f"the field {field!r} holds {type(value).__name__}: expected texts or labels")
    for item in many:
        if isinstance(item, str):
            yield item, None
        elif getattr(item, "label", None) is not None:
            yield str(item.label), getattr(item, "bounding_box", None)
        else:
            raise InputError(f"the field {field!r} holds {type(item).__name__}: expected texts or labels")


def sample_ids(names: Sequence[str], samples: Any) -> list[str]:
    """The sample that each image is: by its own id, or by the end of its path with or without suffix."""
    ids, files = samples.values(["id", "filepath"])
    own, ends = set(ids), _ends(ids, files)
    matches = [name if name in own else ends.get(name) for name in names]
    if missing := [name for name, sample in zip(names, matches, strict=True) if sample is None]:
        raise InputError(
            f"{len(missing)} images are not in the dataset, or several there have their name, such as "
            f"{missing[0]!r}: read the images with read_fiftyone, which names them as the samples are"
        )
    return [sample for sample in matches if sample is not None]


def _ends(ids: Sequence[str], files: Sequence[str]) -> dict[str, str | None]:
    """Every end of a path -> its sample; None where several have it."""
    out: dict[str, str | None] = {}
    for sample, file in zip(ids, files, strict=True):
        parts = file.replace(os.sep, "/").split("/")
        for start in range(len(parts)):
            end = "/".join(parts[start:])
            for name in {end, without_suffix(end)}:
                out[name] = None if name in out else sample
    return out
