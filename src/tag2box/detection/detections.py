"""`Detections`: boxes found, each with its image, class and score."""

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import as_boxes
from tag2box.data.decoding import Source
from tag2box.errors import InputError
from tag2box.names import check_names
from tag2box.runtime.arrays import read_with_header, with_header
from tag2box.runtime.files import write_whole
from tag2box.runtime.packing import stored

FORMAT = "tag2box detections 1"
COLUMNS = ("image", "xyxy", "score", "label")


@stored
@dataclass(frozen=True, eq=False)
class Detections:
    """Boxes found in a set of images, as parallel arrays.

    The arrays are checked when the record is made, and sliced together: `detections[mask]` takes any index
    that an array of n rows takes.

    Parameters
    ----------
    image : ndarray of int of shape (n,)
        The index of each box's image.
    xyxy : ndarray of shape (n, 4)
        The boxes as float32 in pixels, x2 and y2 exclusive, so that width = x2 - x1.
    score : ndarray of shape (n,)
        The score of each box; higher is surer, in any range.
    label : ndarray of int of shape (n,)
        The index of each box's class.
    ids : tuple of str, default=None
        The names of the images. With names, evaluation matches images by name; without, by position.
    classes : tuple of str, default=None
        The names of the classes, likewise.

    Examples
    --------
    >>> import tag2box as t2b
    >>> detections = t2b.Detections(
    ...     image=[0, 0, 1],
    ...     xyxy=[[0, 0, 9, 9], [2, 2, 5, 5], [1, 1, 8, 4]],
    ...     score=[0.9, 0.2, 0.6],
    ...     label=[0, 1, 0],
    ...     classes=("cat", "dog"),
    ... )
    >>> len(detections[detections.score > 0.5])
    2
    >>> [detections.classes[label] for label in detections.label]
    ['cat', 'dog', 'cat']
    """

    image: NDArray[np.intp]
    xyxy: NDArray[np.float32]
    score: NDArray[np.float64]
    label: NDArray[np.intp]
    ids: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    # For notebooks alone: not saved, not compared, kept in slices. See `with_photos`.
    _photos: ClassVar[tuple[Source, ...] | None] = None

    def __post_init__(self) -> None:
        checked = {
            "ids": _names("image", self.ids),
            "classes": _names("class", self.classes),
            "xyxy": as_boxes(self.xyxy),
            "score": _scores(self.score),
        }
        checked["image"] = _indices("image", self.image, checked["ids"])
        checked["label"] = _indices("label", self.label, checked["classes"])
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        lengths = [len(getattr(self, name)) for name in COLUMNS]
        if len(set(lengths)) > 1:
            counts = ", ".join(f"{name} {n}" for name, n in zip(COLUMNS, lengths, strict=True))
            raise InputError(f"detections need arrays of one length, but they have {counts}")

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, index: Any) -> "Detections":
        rows = np.atleast_1d(np.arange(len(self))[index])
        part = copy(self)  # what was checked once needs no second check
        for name in COLUMNS:
            object.__setattr__(part, name, getattr(self, name)[rows])
        return part

    @staticmethod
    def concatenate(parts: Iterable["Detections"], ids: Sequence[str] | None = None) -> "Detections":
        """Join detections of the same images and classes.

        Parameters
        ----------
        parts : iterable of Detections
            The records to join; they must have the same `ids` and `classes`.
        ids : sequence of str, default=None
            The names of the images, for parts that were made one image at a time, as by `detect_windows`.

        Returns
        -------
        Detections
            One record of all parts, in their order.
        """
        parts = list(parts)
        if not parts:
            raise InputError("nothing to concatenate: give at least one Detections, which may be empty")
        names = parts[0].ids, parts[0].classes
        if any((part.ids, part.classes) != names for part in parts):
            raise InputError("only detections with the same ids and classes can be concatenated")
        if ids is not None and names[0] not in {None, tuple(ids)}:
            raise InputError("these detections have ids already, and not the ones given")
        image, xyxy, score, label = (
            np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS
        )
        return Detections(image, xyxy, score, label, names[0] if ids is None else tuple(ids), names[1])

    def with_photos(self, photos: Sequence[Source]) -> "Detections":
        """Name the photos that the boxes are in, so that a notebook shows them.

        Detections of `Tag2Box.predict` name theirs already. The photos are not saved with the boxes.

        Parameters
        ----------
        photos : sequence of str, Path, ndarray or PIL.Image.Image
            The photos, one for each image, in the order of `ids`.

        Returns
        -------
        Detections
            The same boxes; a notebook shows them drawn.
        """
        needed = int(self.image.max(initial=-1)) + 1 if self.ids is None else len(self.ids)
        if len(photos) < needed:
            raise InputError(f"there are {needed} images, but {len(photos)} photos: give one for each")
        shown = copy(self)
        object.__setattr__(shown, "_photos", tuple(photos))
        return shown

    def _repr_html_(self) -> str:
        from tag2box.detection.html import as_html

        return as_html(self, self._photos)

    def to_supervision(self) -> Any:
        """Convert to `supervision.Detections`.

        Supervision draws one image at a time: slice first, `detections[detections.image == 3]`.

        Returns
        -------
        supervision.Detections
            The boxes with `confidence` and `class_id`; its `data` holds the image index, the image id and
            the class name of each box.
        """
        try:
            import supervision
        except ImportError as missing:
            raise InputError("to_supervision needs supervision: pip install supervision") from missing
        data: dict[str, Any] = {"image": self.image}
        if self.ids is not None:
            data["image_id"] = np.array(self.ids, dtype=str)[self.image]
        if self.classes is not None:
            data["class_name"] = np.array(self.classes, dtype=str)[self.label]
        return supervision.Detections(
            xyxy=self.xyxy, confidence=self.score.astype(np.float32), class_id=self.label, data=data
        )

    def to_fiftyone(self, dataset: Any, field: str = "tag2box") -> None:
        """Add the boxes to the samples of a FiftyOne dataset or view.

        Images and samples are matched by id if the images were read with `read_fiftyone`, or else by the end
        of their paths; without ids, by position.

        Parameters
        ----------
        dataset : fiftyone.core.collections.SampleCollection
            A dataset or view that holds the images.
        field : str, default="tag2box"
            The field of the samples that gets the boxes, each with its label and confidence. Images without
            boxes get an empty list.
        """
        from tag2box.detection.fiftyone_labels import add_to_fiftyone

        add_to_fiftyone(self, dataset, field)

    def save(self, path: str | Path) -> None:
        """Write the detections to a file.

        Parameters
        ----------
        path : str or Path
            The file: ``.npz`` (arrays) or ``.json`` (text). Both are exact, and neither can execute code when
            loaded.
        """
        path = _known_suffix(path)
        header = {"format": FORMAT, "ids": self.ids, "classes": self.classes}
        columns = {name: getattr(self, name) for name in COLUMNS}
        if path.suffix == ".json":
            write_whole(
                path, json.dumps(header | {name: column.tolist() for name, column in columns.items()})
            )
        else:
            write_whole(path, with_header(header, columns))

    @classmethod
    def load(cls, path: str | Path) -> "Detections":
        """Read detections that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file, ``.npz`` or ``.json``.

        Returns
        -------
        Detections
            The detections.
        """
        path = _known_suffix(path)
        if not path.is_file():
            raise InputError(f"{path} is not a file: expected detections that were saved as .npz or .json")
        try:
            content = _read_json(path) if path.suffix == ".json" else _read_npz(path)
            if content.pop("format") != FORMAT:
                raise InputError(f"its format is not {FORMAT!r}")
            return cls(**{field.name: content[field.name] for field in fields(cls)})
        except Exception as wrong:  # damage may raise anything inside zipfile, zlib or numpy
            raise InputError(f"{path} does not hold detections as tag2box saves them: {wrong}") from wrong


def _names(what: str, names: Any) -> Any:
    if names is None:
        return None
    out = tuple(names)
    check_names(what, out)
    return out


def _scores(score: Any) -> NDArray[np.float64]:
    out = np.asarray(score, dtype=np.float64)
    if out.ndim != 1 or not np.isfinite(out).all():
        raise InputError(f"score must be one finite number per box, but its shape is {out.shape}")
    return out


def _indices(what: str, values: Any, names: tuple[str, ...] | None) -> NDArray[np.intp]:
    out = np.asarray(values)
    if out.ndim != 1 or not (out.size == 0 or np.issubdtype(out.dtype, np.integer)):
        raise InputError(
            f"{what} must be one whole number per box, but it is {out.dtype} of shape {out.shape}"
        )
    out = out.astype(np.intp)
    limit = np.iinfo(np.intp).max if names is None else len(names)
    if out.size and not (out.min() >= 0 and out.max() < limit):
        known = "" if names is None else f" and below {limit}, the number of names"
        raise InputError(f"{what} must be at least 0{known}, but it spans {out.min()} to {out.max()}")
    return out


def _known_suffix(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix not in {".npz", ".json"}:
        raise InputError(f"detections are kept as .npz or .json, but the file is {path.name!r}")
    return path


def _read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _read_npz(path: Path) -> dict[str, Any]:
    header, arrays = read_with_header(path)
    return header | {name: arrays[name] for name in COLUMNS}
