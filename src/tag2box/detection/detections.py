"""`Detections`: boxes found, each with its image, class and score."""

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import as_boxes
from tag2box.data.decoding import Source
from tag2box.detection.config import MIN_SCORE, check_min_score
from tag2box.errors import InputError
from tag2box.names import check_names
from tag2box.runtime.arrays import read_with_header, with_header
from tag2box.runtime.files import write_whole
from tag2box.runtime.packing import stored

if TYPE_CHECKING:
    from PIL import Image

FORMAT = "tag2box detections 1"
SHOWN = 10  # rows of the table that is printed
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
    >>> print(detections)
    3 boxes in 2 images
    image  class  score  x1, y1, x2, y2
    0      cat    0.90   0, 0, 9, 9
    1      cat    0.60   1, 1, 8, 4
    0      dog    0.20   2, 2, 5, 5
    """

    image: NDArray[np.intp]
    xyxy: NDArray[np.float32]
    score: NDArray[np.float64]
    label: NDArray[np.intp]
    ids: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    # For `plot` and notebooks: not saved, not compared, kept in slices. See `with_photos`.
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
        """Name the photos that the boxes are in, so that `plot` and notebooks show them.

        Detections of `Tag2Box.predict` name theirs already. The photos are not saved with the boxes.

        Parameters
        ----------
        photos : sequence of str, Path, ndarray or PIL.Image.Image
            The photos, one for each image, in the order of `ids`.

        Returns
        -------
        Detections
            The same boxes with their photos.
        """
        needed = int(self.image.max(initial=-1)) + 1 if self.ids is None else len(self.ids)
        if len(photos) < needed:
            raise InputError(f"there are {needed} images, but {len(photos)} photos: give one for each")
        shown = copy(self)
        object.__setattr__(shown, "_photos", tuple(photos))
        return shown

    def above(self, min_score: float | None = None) -> "Detections":
        """Select the boxes that are worth showing.

        Parameters
        ----------
        min_score : float, default=None
            The lowest score. None stands for 0.3 where scores are confidences, and else for all boxes.

        Returns
        -------
        Detections
            The boxes of at least that score.
        """
        check_min_score(min_score)
        if min_score is None:
            confidences = self.score.min(initial=0) >= 0 and self.score.max(initial=0) <= 1
            min_score = MIN_SCORE if confidences else -np.inf
        return self[self.score >= min_score]

    def plot(self, photo: Source | None = None, *, min_score: float | None = None) -> "Image.Image":
        """Draw the boxes of one image on its photo, with their classes and scores.

        Parameters
        ----------
        photo : str, Path, ndarray or PIL.Image.Image, default=None
            The photo. None takes the one that `predict` or `with_photos` has named.
        min_score : float, default=None
            The lowest score of a box that is drawn; see `above`.

        Returns
        -------
        PIL.Image.Image
            The photo with its boxes; its method `save` writes it.
        """
        from tag2box.detection.html import drawn

        images = np.unique(self.image).tolist() or list(range(len(self._photos or ())))[:1]
        if len(images) > 1:
            raise InputError(
                f"there are boxes in {len(images)} images: choose one, as "
                "detections[detections.image == 0].plot()"
            )
        if photo is None:
            if not self._photos or not images:
                raise InputError("the photo is not known: give it, as detections.plot('photo.jpg')")
            photo = self._photos[images[0]]
        return drawn(self.above(min_score), photo)

    def to_dataframe(self) -> Any:
        """Convert to a table of pandas.

        Returns
        -------
        pandas.DataFrame
            A row for each box: image, class, score, x1, y1, x2, y2.
        """
        try:
            pandas = import_module("pandas")
        except ImportError as missing:
            raise InputError("to_dataframe needs pandas: pip install pandas") from missing
        columns: dict[str, Any] = {"image": self._image_names(), "class": self._class_names()}
        columns |= {"score": self.score, **dict(zip(("x1", "y1", "x2", "y2"), self.xyxy.T, strict=True))}
        return pandas.DataFrame(columns)

    def _image_names(self) -> list[str]:
        return [self.ids[i] if self.ids else str(i) for i in self.image.tolist()]

    def _class_names(self) -> list[str]:
        return [self.classes[c] if self.classes else f"class {c}" for c in self.label.tolist()]

    def _rows(self, most: int) -> list[tuple[str, str, str, str]]:
        """The boxes of the highest scores as text: image, class, score, box."""
        part = self[np.argsort(-self.score, kind="stable")[:most]]
        boxes = [", ".join(f"{side:.0f}" for side in box) for box in part.xyxy.tolist()]
        scores = [f"{score:.2f}" for score in part.score.tolist()]
        return list(zip(part._image_names(), part._class_names(), scores, boxes, strict=True))

    def __repr__(self) -> str:
        table = [("image", "class", "score", "x1, y1, x2, y2"), *self._rows(SHOWN)]
        widths = [max(len(row[column]) for row in table) for column in range(4)]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        title = f"{len(self)} boxes in {len(np.unique(self.image))} images"
        more = f"; the best {SHOWN}" if len(self) > SHOWN else ""
        return "\n".join([f"{title}{more}", *(lines if len(self) else [])])

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
            data["image_id"] = np.array(self._image_names(), dtype=str)
        if self.classes is not None:
            data["class_name"] = np.array(self._class_names(), dtype=str)
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
