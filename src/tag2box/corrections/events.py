"""One event of `corrections.jsonl`: somebody sets the state of one thing in one photo.

    {"set": "box", "sha256": "9f...", "photo": "dogs/1", "box": "k3...", "class": "dog",
     "xyxy": [x1, y1, x2, y2], "state": "accepted" | "rejected" | "open"}
    {"set": "tag", "sha256": "9f...", "photo": "dogs/1", "class": "dog", "tag": 1 | 0 | -1 | null}
    {"set": "photo", "sha256": "9f...", "photo": "dogs/1", "state": "reviewed" | "skipped" | "open"}

A photo is known by the SHA-256 of its file; its name is for people. An event says all of the new state and
nothing of the old one, so the last event about a thing wins, an undo is one more event, and reading an event
twice changes nothing. `docs/corrections.md` has every key.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from tag2box.errors import InputError
from tag2box.names import objection_to_name
from tag2box.runtime.checks import Choice, Range, conform

BOX_STATES = ("accepted", "rejected", "open")
PHOTO_STATES = ("reviewed", "skipped", "open")
# Numbers come from files and requests of others: none is beyond what a photo or a clock may have.
Box = Annotated[tuple[Annotated[float, Range(-1_000_000, 1_000_000)], ...], Range(4, 4)]
Seconds = Annotated[float, Range(-1e12, 1e12)]
# What every event has, what one that sets a thing has too, and what may be missing or null.
ALWAYS = {"id": str, "sha256": str, "photo": str}
KINDS: dict[str, dict[str, Any]] = {
    "box": {"box": str, "class": str, "xyxy": Box, "state": Annotated[str, Choice(*BOX_STATES)]},
    "tag": {"class": str, "tag": Annotated[int, Range(-1, 1)]},
    "photo": {"state": Annotated[str, Choice(*PHOTO_STATES)]},
}
OPTIONAL = {"set": str, "time": Seconds, "random": bool, "run": str, "by": str}
NULLABLE = {"run", "by", "found", "tag"}
LONGEST = 1000
SHA256 = re.compile("[0-9a-f]{64}")


def new_id() -> str:
    """A name for an event or a drawn box that no other has."""
    return secrets.token_hex(8)


def check_event(event: Any) -> dict[str, Any]:
    """The event as it is kept; `InputError` where it is none."""
    kind = event.get("set") if isinstance(event, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"an event sets a box, a tag or a photo, but this one is {_short(event)}")
    needed = ALWAYS | KINDS[kind]
    kinds = needed | OPTIONAL | ({"found": None} if kind == "box" else {})
    if missing := sorted(needed.keys() - event.keys()):
        raise InputError(f"an event that sets a {kind} needs {missing[0]!r}")
    if unknown := sorted(event.keys() - kinds.keys(), key=str):
        raise InputError(f"an event that sets a {kind} has no {_short(unknown[0])}")
    for key, value in event.items():
        if key == "found" and value is not None:
            _check_original(value)
        elif value is not None or key not in NULLABLE:
            _check(key, value, kinds[key])
    return dict(event)


def check_inside(photo: str, xyxy: Sequence[float], size: Sequence[int]) -> tuple[float, ...]:
    """The part of a box that lies in its photo of size (width, height); refused where there is none."""
    x1, y1, x2, y2 = xyxy
    if x2 <= 0 or y2 <= 0 or x1 >= size[0] or y1 >= size[1]:
        place = f"photo {photo!r}, which has {size[0]} x {size[1]} pixels"
        raise InputError(f"the box {_short(list(xyxy))} lies outside {place}")
    return max(x1, 0), max(y1, 0), min(x2, size[0]), min(y2, size[1])


def _check_original(value: Any) -> None:
    if not isinstance(value, Mapping) or set(value) != {"class", "xyxy"}:
        raise InputError("found must be the class and the xyxy of the box that was found")
    _check("class", value["class"], str)
    _check("xyxy", value["xyxy"], Box)


def _check(key: str, value: Any, kind: Any) -> None:
    if kind is str and (why := objection_to_name(value)):
        raise InputError(f"the {key} of an event {why}")
    conform(value, kind, f"the {key} of an event")
    if kind is str and len(value) > LONGEST:
        raise InputError(f"the {key} of an event has more than {LONGEST} letters")
    if key == "sha256" and not SHA256.fullmatch(value):
        raise InputError(f"the sha256 of a photo has 64 digits 0 to f, but it is {_short(value)}")
    if key == "xyxy" and not (value[2] > value[0] and value[3] > value[1]):
        raise InputError(f"a box needs x2 > x1 and y2 > y1, but it is {_short(value)}")


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."
