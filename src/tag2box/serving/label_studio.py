"""`Annotators`: predictions for the tasks of a Label Studio project, and corrections out of its annotations.

An annotation says where all objects of its photo are: its rectangles are the accepted boxes, and the photo is
reviewed. What it no longer holds is open again. All goes to the log of corrections, as from the review page.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tag2box.corrections import CorrectionLog, new_id
from tag2box.data.formats.labelstudio import address_of, guesses, rectangles, result
from tag2box.errors import InputError
from tag2box.review.session import MOST_EVENTS, Session
from tag2box.run.same_photos import PhotoNames
from tag2box.serving.label_config import Controls

BY = "labelstudio"


class Annotators:
    """One run under annotation; every method may be called from any thread."""

    def __init__(self, session: Session, min_score: float) -> None:
        self.session, self.min_score = session, min_score
        self._names = PhotoNames(session.images)

    def photo(self, task: Any) -> int | None:
        """The number of the photo that a task is about; None where the run does not have it."""
        address = address_of(task)
        names = (self._names.find(guess) for guess in guesses(address)) if address else iter(())
        return next((self.session.number[name] for name in names if name is not None), None)

    def known(self, number: int, controls: Controls) -> dict[str, Any]:
        """The prediction for a photo of the run: its boxes as they stand."""
        (photo,) = self.session.photos([number])
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
        return {"result": [], "score": 0.0, "model_version": self.session.key}

    def _prediction(
        self, size: tuple[int, int], boxes: list[tuple[str, str, float, Any]], controls: Controls
    ) -> dict[str, Any]:
        results = [
            result(key, size, controls.labels[kind], score, xyxy, controls.names)
            for key, kind, score, xyxy in boxes
            if kind in controls.labels
        ]
        best = max((item["score"] for item in results), default=0.0)
        return {"result": results, "score": best, "model_version": self.session.key}

    def save(self, task: Any, annotation: Any, controls: Controls) -> int:
        """Take an annotation for corrections of its photo; how many boxes it has, 0 for other photos."""
        with self.session.lock:  # or the run might be learned again, and the number be another photo's
            return self._save(task, annotation, controls)

    def _save(self, task: Any, annotation: Any, controls: Controls) -> int:
        number = self.photo(task)
        if number is None:
            return 0
        if annotation.get("was_cancelled"):
            self._send([{"set": "photo", "photo": number, "state": "skipped"}], annotation)
            return 0
        boxes = list(self._boxes(number, annotation, controls))
        gone = self._accepted(number).keys() - {box["box"] for box in boxes}
        events = [*(self._open(number, key) for key in sorted(gone)), *boxes]
        self._send([*events, {"set": "photo", "photo": number, "state": "reviewed"}], annotation)
        return len(boxes)

    def _boxes(self, number: int, annotation: Any, controls: Controls) -> Iterator[dict[str, Any]]:
        path: Path = self.session.images.paths[number]
        own = {box["id"] for box in self.session.photos([number])[0]["boxes"] if box["found"]}
        for key, label, xyxy in rectangles(annotation.get("result") or [], path):
            kind = controls.class_of(label)
            if kind is not None and xyxy[2] > xyxy[0] and xyxy[3] > xyxy[1]:
                # A rectangle that came from a prediction has kept the id of its box.
                name = key if key in own else f"{BY}-{annotation['id']}-{key}"
                event = {"set": "box", "photo": number, "box": name, "class": kind, "state": "accepted"}
                yield event | {"xyxy": list(xyxy)}

    def forget(self, annotation: Any) -> None:
        """Take back what a deleted annotation said, where nobody has spoken of its photo since."""
        last: dict[str, str] = {}
        for event in CorrectionLog(self.session.run.folder).read_new():
            if event["set"] == "photo":
                last[event["sha256"]] = event.get("by", "")
        with self.session.lock:
            for content in (content for content, by in last.items() if by == _by(annotation)):
                if content in self.session.run.contents:
                    number = self.session.run.contents.index(content)
                    events = [self._open(number, key) for key in self._accepted(number)]
                    self._send([*events, {"set": "photo", "photo": number, "state": "open"}], annotation)

    def _accepted(self, number: int) -> dict[str, dict[str, Any]]:
        (photo,) = self.session.photos([number])
        return {box["id"]: box for box in photo["boxes"] if box["state"] == "accepted"}

    def _open(self, number: int, key: str) -> dict[str, Any]:
        box = self._accepted(number)[key]
        event = {"set": "box", "photo": number, "box": key, "class": box["class"], "state": "open"}
        return event | {"xyxy": list(box["xyxy"])}

    def _send(self, events: list[dict[str, Any]], annotation: Any) -> None:
        """Save the events; the last one says that the photo is done."""
        if len(events) > 10 * MOST_EVENTS:
            raise InputError(f"an annotation of {len(events)} boxes: expected at most {10 * MOST_EVENTS}")
        for n in range(0, len(events), MOST_EVENTS):
            part = [
                {"id": new_id(), **event, "photo": self.session.run.contents[event["photo"]]}
                for event in events[n : n + MOST_EVENTS]
            ]
            self.session.save(part, by=_by(annotation))


def _by(annotation: Any) -> str:
    return f"{BY}-{annotation['id']}"
