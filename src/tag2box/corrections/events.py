"""One event of `corrections.jsonl`: somebody sets the state of one thing in one photo.

    {"set": "box", "sha256": "9f...", "photo": "dogs/1", "box": "k3...", "class": "dog",
     "xyxy": [x1, y1, x2, y2], "state": "accepted" | "rejected" | "open"}
    {"set": "tag", "sha256": "9f...", "photo": "dogs/1", "class": "dog", "tag": 1 | 0 | -1 | null}
    {"set": "photo", "sha256": "9f...", "photo": "dogs/1", "state": "reviewed" | "skipped" | "open"}

A photo is known by the SHA-256 of its file; its name is for people. An event says all of the new state and
nothing of the old one, so the last event about a thing wins, an undo is one more event, and reading an event
twice changes nothing. `docs/corrections.md` has every key.
"""

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from tag2box.errors import InputError
from tag2box.names import objection_to_name

BOX_STATES = ("accepted", "rejected", "open")
PHOTO_STATES = ("reviewed", "skipped", "open")
# Every key of an event, by what it sets; the second group may be missing.
KEYS = {
    "box": ({"box", "class", "xyxy", "state"}, {"found"}),
    "tag": ({"class", "tag"}, set()),
    "photo": ({"state"}, set()),
}
NEEDED, COMMON = {"id", "sha256", "photo"}, {"set", "time", "random", "run", "by"}
LONGEST = 1000
SHA256 = re.compile("[0-9a-f]{64}")


def new_id() -> str:
    """A name for an event or a drawn box that no other has."""
    return secrets.token_hex(8)


def check_event(event: Any) -> dict[str, Any]:
    """The event as it is kept; `InputError` where it is none."""
    kind = event.get("set") if isinstance(event, Mapping) else None
    if not isinstance(kind, str) or kind not in KEYS:
        raise InputError(f"an event sets a box, a tag or a photo, but this one is {_short(event)}")
    needed, more = KEYS[kind]
    given = set(event)
    if missing := sorted((needed | NEEDED) - given):
        raise InputError(f"an event that sets a {kind} needs {missing[0]!r}")
    if unknown := sorted(given - needed - more - NEEDED - COMMON, key=str):
        raise InputError(f"an event that sets a {kind} has no {_short(unknown[0])}")
    for key in ("id", "photo", *({"box", "class"} & given)):
        _check_name(key, event[key])
    if not isinstance(event["sha256"], str) or not SHA256.fullmatch(event["sha256"]):
        raise InputError(f"the sha256 of a photo has 64 digits 0 to f, but it is {_short(event['sha256'])}")
    _check_values(kind, event)
    return dict(event)


def check_inside(photo: str, xyxy: Sequence[float], size: Sequence[int]) -> None:
    """Refuse a box that holds nothing of its photo; size: the width and height of that."""
    x1, y1, x2, y2 = xyxy
    if x2 <= 0 or y2 <= 0 or x1 >= size[0] or y1 >= size[1]:
        place = f"photo {photo!r}, which has {size[0]} x {size[1]} pixels"
        raise InputError(f"the box {_short(list(xyxy))} lies outside {place}")


def _check_values(kind: str, event: Mapping[str, Any]) -> None:
    if kind == "box":
        _check_box(event["xyxy"])
        if (original := event.get("found")) is not None:
            if not isinstance(original, Mapping) or set(original) != {"class", "xyxy"}:
                raise InputError("found must be the class and the xyxy of the box that was found")
            _check_name("class", original["class"])
            _check_box(original["xyxy"])
    if type(event.get("time", 0)) not in (int, float) or not math.isfinite(event.get("time", 0)):
        raise InputError(f"the time of an event is a number of seconds, not {_short(event['time'])}")
    if type(event.get("random", False)) is not bool:
        raise InputError("random is true or false")
    for key in ("run", "by"):
        _check_name(key, event.get(key) or "-")
    if kind == "tag" and not (event["tag"] is None or (type(event["tag"]) is int and abs(event["tag"]) <= 1)):
        raise InputError(f"a tag is 1, 0, -1 or null, but it is {_short(event['tag'])}")
    states = {"box": BOX_STATES, "photo": PHOTO_STATES}.get(kind)
    if states and event["state"] not in states:
        raise InputError(f"the state of a {kind} is one of {', '.join(states)}, not {_short(event['state'])}")


def _check_name(key: str, value: Any) -> None:
    if why := objection_to_name(value):
        raise InputError(f"the {key} of an event {why}")
    if len(value) > LONGEST:
        raise InputError(f"the {key} of an event has more than {LONGEST} letters")


def _check_box(xyxy: Any) -> None:
    numbers = isinstance(xyxy, list | tuple) and all(type(v) in (int, float) for v in xyxy)
    if not numbers or len(xyxy) != 4 or not all(math.isfinite(v) and abs(v) < 1e6 for v in xyxy):
        raise InputError(f"xyxy must be four numbers, but it is {_short(xyxy)}")
    if not (xyxy[2] > xyxy[0] and xyxy[3] > xyxy[1]):
        raise InputError(f"a box needs x2 > x1 and y2 > y1, but it is {_short(xyxy)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
