"""Events of corrections, as a page would send them."""

import random

from tag2box.corrections.events import new_id

BOX = {"set": "box", "id": "1", "photo": "a", "box": "b", "class": "dog", "xyxy": [1, 2, 3, 4]}


def box(photo="a", name="b", state="accepted", kind="dog", xyxy=(1, 2, 30, 40), **more):
    return {
        **BOX,
        "id": new_id(),
        "photo": photo,
        "box": name,
        "state": state,
        "class": kind,
        "xyxy": list(xyxy),
        **more,
    }


def reviewed(photo="a", state="reviewed"):
    return {"set": "photo", "id": new_id(), "photo": photo, "state": state}


def tag(photo, kind, value):
    return {"set": "tag", "id": new_id(), "photo": photo, "class": kind, "tag": value}


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
