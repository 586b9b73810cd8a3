"""Events of corrections, as a page would send them."""

import hashlib
import random
from dataclasses import asdict

from tag2box.corrections import CorrectionLog, State, read_state
from tag2box.corrections.events import new_id


def content_of(photo):
    """What stands for the SHA-256 of a photo where there is no file."""
    return hashlib.sha256(photo.encode()).hexdigest()


BOX = {
    "set": "box",
    "id": "1",
    "photo": "a",
    "sha256": content_of("a"),
    "box": "b",
    "class": "dog",
    "xyxy": [1, 2, 3, 4],
}


def box(photo="a", name="b", state="accepted", kind="dog", xyxy=(1, 2, 30, 40), **more):
    return {
        **BOX,
        "id": new_id(),
        "photo": photo,
        "sha256": content_of(photo),
        "box": name,
        "state": state,
        "class": kind,
        "xyxy": list(xyxy),
        **more,
    }


def reviewed(photo="a", state="reviewed"):
    return {
        "set": "photo",
        "id": new_id(),
        "photo": photo,
        "sha256": content_of(photo),
        "state": state,
    }


def tag(photo, kind, value):
    return {
        "set": "tag",
        "id": new_id(),
        "photo": photo,
        "sha256": content_of(photo),
        "class": kind,
        "tag": value,
    }


def correct(run, *events):
    """Add events to the log of a run, with the contents of its photos."""
    content = dict(zip(run.images.ids, run.contents, strict=True))
    CorrectionLog(run.folder).append({**event, "sha256": content[event["photo"]]} for event in events)


def by_name(folder):
    """What is said in the run folder, with photos by their names."""
    said, named = read_state(folder), State()
    named.photos = {said.names[content]: photo for content, photo in said.photos.items()}
    return named


def random_event(name):
    """One that depends on its name alone."""
    rng = random.Random(name)
    photo, kind = f"photo {rng.randrange(5)}", rng.choice(["dog", "cat"])
    x, y = rng.uniform(0, 50), rng.uniform(0, 50)
    made = rng.choice(
        [
            box(photo, f"b{rng.randrange(4)}", rng.choice(["accepted", "rejected", "open"]), kind),
            tag(photo, kind, rng.choice([1, 0, -1, None])),
            reviewed(photo, rng.choice(["reviewed", "skipped", "open"])),
        ]
    )
    if made["set"] == "box":
        made["xyxy"] = [x, y, x + rng.uniform(1, 50), y + rng.uniform(1, 50)]
    return {**made, "id": name}


def as_dict(state):
    """What a state says of every photo, as plain values."""
    return {content: asdict(photo) for content, photo in state.photos.items()}
