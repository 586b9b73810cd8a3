"""`Annotators`: predictions for the tasks of a Label Studio project, and corrections out of its annotations.

An annotation says where all objects of its photo are: its rectangles are the accepted boxes, and the photo is
reviewed. What it no longer holds is open again. All goes to the log of corrections, as from the review page.
"""

from collections.abc import Iterator
from typing import Any

from tag2box.data.formats.labelstudio import address_of, guesses, rectangles, result
from tag2box.detection.config import check_min_score
from tag2box.errors import InputError
from tag2box.run.annotations import MOST_EVENTS, Annotations
from tag2box.serving.label_config import Controls

BY = "labelstudio"


class Annotators:
    """One run under annotation; every method may be called from any thread.

    min_score: of boxes in photos that the run does not have.
    """

    def __init__(self, annotations: Annotations, min_score: float) -> None:
        check_min_score(min_score)
        self.annotations, self.min_score = annotations, min_score

    def renew(self) -> None:
        """Read the run that has learned again."""
        self.annotations = self.annotations.renewed()

    @property
    def version(self) -> str:
        """That of the model."""
        return self.annotations.key

    def predict(self, task: Any, controls: Controls) -> dict[str, Any] | None:
        """The prediction for a task with a photo of the run: its boxes as they stand; None for another."""
        now = self.annotations
        if (number := _number(now, task)) is None:
            return None
        photo = _photo(now, number)
        boxes = [
            (box["id"], box["class"], 1.0 if box["state"] == "accepted" else box["confidence"], box["xyxy"])
            for box in photo["boxes"]
            if box["state"] != "rejected"
        ]
        return self._prediction((photo["width"], photo["height"]), boxes, controls)

    def detected(self, answer: dict[str, Any], controls: Controls) -> dict[str, Any]:
        """The prediction for another photo: what the detector found in it."""
        boxes = [
            (f"box{n}", box["class"], box["score"], box["xyxy"])
            for n, box in enumerate(answer["boxes"])
            if box["score"] >= self.min_score
        ]
        return self._prediction((answer["width"], answer["height"]), boxes, controls)

    def nothing(self) -> dict[str, Any]:
        """The prediction for what cannot be read."""
        return {"result": [], "score": 0.0, "model_version": self.version}

    def _prediction(
        self, size: tuple[int, int], boxes: list[tuple[str, str, float, Any]], controls: Controls
    ) -> dict[str, Any]:
        results = [
            result(key, size, controls.labels[kind], score, xyxy, controls.names)
            for key, kind, score, xyxy in boxes
            if kind in controls.labels
        ]
        best = max((item["score"] for item in results), default=0.0)
        return {"result": results, "score": best, "model_version": self.version}

    def save(self, task: Any, annotation: Any, controls: Controls) -> int:
        """Take an annotation for corrections of its photo; how many boxes it has, 0 for other photos."""
        now = self.annotations
        if (number := _number(now, task)) is None:
            return 0
        if annotation.get("was_cancelled"):
            _send(now, number, [], "skipped", annotation)
            return 0
        with now.lock:
            photo = _photo(now, number)
            boxes = list(_boxes(now, photo, annotation, controls))
            kept = {box["box"] for box in boxes}
            gone = [_open(box) for box in _accepted(photo) if box["id"] not in kept]
            _send(now, number, [*gone, *boxes], "reviewed", annotation)
        return len(boxes)

    def forget(self, annotation: Any) -> None:
        """Take back what a deleted annotation said, where nobody has spoken of its photo since."""
        now = self.annotations
        for number in now.judged_last(_by(annotation)):
            boxes = [_open(box) for box in _accepted(_photo(now, number))]
            _send(now, number, boxes, "open", annotation)


def _number(now: Annotations, task: Any) -> int | None:
    """The number of the photo that a task is about; None where the run does not have it."""
    address = address_of(task)
    names = map(now.names.find, guesses(address)) if address else ()
    return next((now.place[name] for name in names if name is not None), None)


def _photo(now: Annotations, number: int) -> dict[str, Any]:
    now.read_new()
    return now.photo(number)


def _accepted(photo: dict[str, Any]) -> list[dict[str, Any]]:
    return [box for box in photo["boxes"] if box["state"] == "accepted"]


def _boxes(
    now: Annotations, photo: dict[str, Any], annotation: Any, controls: Controls
) -> Iterator[dict[str, Any]]:
    """The rectangles of an annotation as accepted boxes."""
    own = {box["id"] for box in photo["boxes"] if box["found"]}
    for key, label, xyxy in rectangles(annotation.get("result") or [], now.images.paths[photo["number"]]):
        kind = controls.class_of(label)
        if kind is not None and xyxy[2] > xyxy[0] and xyxy[3] > xyxy[1]:
            # A rectangle that came from a prediction has kept the id of its box.
            name = key if key in own else f"{BY}-{annotation['id']}-{key}"
            yield {"set": "box", "box": name, "class": kind, "state": "accepted", "xyxy": list(xyxy)}


def _open(box: dict[str, Any]) -> dict[str, Any]:
    about = {"set": "box", "box": box["id"], "class": box["class"], "state": "open"}
    return {**about, "xyxy": list(box["xyxy"])}


def _send(now: Annotations, number: int, boxes: list[dict[str, Any]], state: str, annotation: Any) -> None:
    """Save what is said of the boxes of a photo, and at last of the photo."""
    if len(boxes) > 10 * MOST_EVENTS:
        raise InputError(f"an annotation of {len(boxes)} boxes: expected at most {10 * MOST_EVENTS}")
    events = [*boxes, {"set": "photo", "state": state}]
    for n in range(0, len(events), MOST_EVENTS):
        part = [{**event, "photo": now.run.contents[number]} for event in events[n : n + MOST_EVENTS]]
        now.save(part, by=_by(annotation))


def _by(annotation: Any) -> str:
    return f"{BY}-{annotation['id']}"
