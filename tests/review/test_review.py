"""The review page's server: what it shows, in which order, and what it says about how good the run is."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests._events import box, correct
from tests._review import ORIGIN, at, client_of, copied, far_box

from tag2box.corrections import read_state
from tag2box.detection.detections import Detections
from tag2box.images import ImageSet
from tag2box.review.figures import mixed, random_order, wilson
from tag2box.review.listing import Index, Query
from tag2box.review.session import Session
from tag2box.review.teaching import load_order, teaching_order
from tag2box.run.folder import RunFolder


@pytest.fixture
def opened(review_run, tmp_path):
    return client_of(copied(review_run, tmp_path))


def send(client, *events):
    given = [{"id": f"{time.monotonic_ns()}-{k}", **event} for k, event in enumerate(events)]
    answer = client.post(at("events"), json=given, headers={"origin": ORIGIN})
    assert answer.status_code == 200, answer.text
    return answer.json()


def photo(client, n):
    return client.get(at(f"photos?n={n}")).json()["photos"][0]


def judged(record, state="accepted", **more):
    (found,) = [each for each in record["boxes"] if each["class"] == "thing"]
    event = {"set": "box", "photo": record["sha256"], "box": found["id"], "class": "thing", "state": state}
    return {**event, "xyxy": found["xyxy"], **more}


def whole(record, state):
    return {"set": "photo", "photo": record["sha256"], "state": state}


def test_the_page_knows_the_run(opened):
    session, client = opened
    start = client.get(at("start")).json()
    assert start["classes"] == ["other", "thing"]
    assert (start["photos"], start["boxes"], start["reviewed"]) == (12, len(session.annotations.boxes), 0)
    record = photo(client, 0)
    assert (record["name"], record["width"], record["height"]) == ("toy-00", 96, 96)
    assert {each["class"] for each in record["boxes"]} == {"other", "thing"}
    assert all(each["state"] == "open" and 0 <= each["confidence"] <= 1 for each in record["boxes"])


def test_what_is_saved_is_on_the_disk_and_shown(opened):
    session, client = opened
    record = photo(client, 2)
    answer = send(client, judged(record, xyxy=[1, 2, 30, 40]), whole(record, "reviewed"))
    assert answer["reviewed"] == 1
    (line, _) = (session.run.folder / "corrections.jsonl").read_text().splitlines()
    event = json.loads(line)
    assert event["photo"] == "toy-02"
    assert event["found"]["class"] == "thing"
    assert event["found"]["xyxy"] == record["boxes"][-1]["xyxy"]
    assert event["xyxy"] == [1, 2, 30, 40]
    assert event["run"] == session.key
    shown = photo(client, 2)
    assert (shown["state"], shown["boxes"][0]["state"]) == ("reviewed", "accepted")
    again = Session(session.run.folder)
    assert again.photos([2]) == session.photos([2])


def test_two_pages_see_each_other(opened):
    session, client = opened
    other = Session(session.run.folder)
    send(client, judged(photo(client, 2), "rejected"))
    assert [each["state"] for each in other.photos([2])[0]["boxes"]] == ["rejected"]
    other.save([{"id": "x", "set": "tag", "photo": other.run.contents[2], "class": "other", "tag": 1}])
    assert photo(client, 2)["tags"] == {"other": 1}
    correct(session.run, box("toy-02", "imported", kind="other"))
    assert "imported" in [each["id"] for each in photo(client, 2)["boxes"]]


def test_two_pages_at_once_lose_nothing(review_run, tmp_path):
    """Two servers of one run, several threads in each: what was answered is in the log, and both know."""
    run = copied(review_run, tmp_path)
    pages = [client_of(run) for _ in "ab"]

    def click(n):
        session, client = pages[n % 2]
        content = session.run.contents[n % 12]
        event = {"set": "box", "id": f"e{n}", "photo": content, "box": f"b{n}", "class": "thing"}
        event |= {"state": "accepted", "xyxy": [n, 1, n + 9, 40]}
        return client.post(at("events"), json=[event], headers={"origin": ORIGIN}).status_code

    with ThreadPoolExecutor(6) as threads:
        assert set(threads.map(click, range(60))) == {200}
    state = read_state(run)
    assert sum(len(photo.accepted()) for photo in state.photos.values()) == 60
    views = [[photo(client, n)["boxes"] for n in range(12)] for _, client in pages]
    assert views[0] == views[1]


@pytest.mark.parametrize("path", ["photo/", "thumb/", "map/0/", "map/"])
def test_a_number_of_5000_digits_is_not_there(opened, path):
    _, client = opened
    for digits in ("9" * 5000, "12", "\u0661"):
        answer = client.get(at(f"{path}{digits}{'/0' if path == 'map/' else ''}"))
        assert answer.status_code == 404
        assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize("text", ["9" * 400, "-" + "9" * 400, "1e400", "NaN"])
def test_a_number_that_no_float_can_hold_is_one_line(opened, text):
    session, client = opened
    event = {"set": "box", "id": "1", "photo": session.run.contents[0], "box": "b", "class": "thing"}
    sent = json.dumps([event | {"state": "accepted", "xyxy": [1, 2, 3, "N"]}]).replace('"N"', text)
    headers = {"origin": ORIGIN, "content-type": "application/json"}
    answer = client.post(at("events"), content=sent, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"].count("\n") == 0
    for query in ("low=nan", "high=x", "low=nan&high=nan"):
        assert client.get(at(f"list?{query}")).status_code == 400


def test_a_box_over_the_edge_ends_at_the_edge(opened):
    _, client = opened
    send(client, judged(photo(client, 2), xyxy=[-5, 10, 1e5, 40]))
    (box,) = photo(client, 2)["boxes"]
    assert box["xyxy"] == [0, 10, 96, 40]


def test_the_same_request_twice_counts_once(opened):
    _, client = opened
    event = {"id": "same", **judged(photo(client, 2))}
    for _ in range(2):
        client.post(at("events"), json=[event], headers={"origin": ORIGIN})
    send(client, judged(photo(client, 2), "rejected"))
    client.post(at("events"), json=[event], headers={"origin": ORIGIN})
    assert photo(client, 2)["boxes"][0]["state"] == "rejected"


def test_filters_and_orders(opened):
    session, client = opened

    def numbers(query):
        return client.get(at(f"list?{query}")).json()["photos"]

    assert numbers("order=name") == list(range(12))
    assert sorted(numbers("")) == list(range(12))
    assert sorted(numbers("class=other")) == [0, 3, 6, 9]
    assert numbers("search=TOY-07&order=name") == [7]
    assert numbers("class=thing&low=0.999999&high=1&order=name") == [
        n
        for n in range(12)
        if any(b["class"] == "thing" and b["confidence"] > 0.999999 for b in photo(client, n)["boxes"])
    ]
    send(
        client,
        whole(photo(client, 4), "reviewed"),
        whole(photo(client, 5), "skipped"),
    )
    assert numbers("show=reviewed") == [4]
    assert numbers("show=skipped") == [5]
    assert len(numbers("show=open")) == 10
    boxes, doubt = session.annotations.boxes, load_order(session.run).doubt
    assert sorted(numbers("show=doubtful")) == np.unique(boxes.image[doubt >= 0.5]).tolist()
    send(client, {"set": "tag", "photo": photo(client, 1)["sha256"], "class": "other", "tag": 1})
    assert 1 in numbers("class=other")
    sure = [
        max(b["confidence"] for b in photo(client, n)["boxes"])
        for n in numbers("order=confident&show=open")[:5]
    ]
    assert sure == sorted(sure, reverse=True)


def test_pictures(opened):
    session, client = opened
    whole = client.get(at("photo/0"))
    assert whole.headers["content-type"] == "image/png"
    assert whole.content == session.images.paths[0].read_bytes()
    small = client.get(at("thumb/0"))
    assert small.headers["content-type"] == "image/jpeg"
    assert len(list((session.run.folder / "review" / "pictures").rglob("*.jpg"))) == 1
    assert client.get(at("thumb/0")).content == small.content
    assert client.get(at("map/0/1")).content.startswith(b"\x89PNG")


def test_figures_count_the_random_share_in_turn(opened):
    """Judged out of turn a photo counts for nothing; once the photos before it are judged, it counts."""
    session, client = opened
    things = [n for n in session.drawn.tolist() if session.images.tags[n, 1] == 1]

    def thing():
        return client.get(at("start")).json()["figures"][2]

    assert thing()["judged"] == 0
    send(client, judged(photo(client, things[1]), "rejected"))
    assert thing()["judged"] == 0
    send(client, judged(photo(client, things[0])))
    assert (thing()["right"], thing()["judged"]) == (1, 2)
    moved = far_box(photo(client, things[2])["boxes"][-1]["xyxy"])
    send(
        client, judged(photo(client, things[2]), xyxy=moved)
    )  # accepted, but elsewhere: the found one was wrong
    assert (thing()["right"], thing()["judged"]) == (1, 3)
    send(client, whole(photo(client, things[3]), "skipped"))
    send(client, whole(photo(client, things[4]), "reviewed"))  # without a box: it was wrong
    assert (thing()["right"], thing()["judged"]) == (1, 4)
    assert 0 < thing()["low"] < 0.25 < thing()["high"] < 1


def test_wilson_is_that_of_scipy():
    from scipy.stats import binomtest

    for right, n in [(0, 1), (1, 1), (3, 10), (97, 100), (0, 50)]:
        peer = binomtest(right, n).proportion_ci(method="wilson")
        assert wilson(right, n) == pytest.approx((peer.low, peer.high), abs=1e-6)
    assert wilson(0, 0) == (0, 1)


def test_every_fourth_photo_is_random_and_none_comes_twice():
    order, drawn = np.arange(40), random_order(np.arange(40), "00c0ffee")
    photos, is_random = mixed(order, drawn)
    assert sorted(photos.tolist()) == list(range(40))
    assert is_random[3:24:4].all()
    assert not is_random[:3].any()
    assert drawn.tolist() != list(range(40))
    assert random_order(np.arange(40), "00c0ffee").tolist() == drawn.tolist()
    lots = [p for p, yes in zip(photos, is_random, strict=True) if yes]
    assert [drawn.tolist().index(p) for p in lots] == sorted(drawn.tolist().index(p) for p in lots)


def test_the_teaching_order_wants_doubt_and_all_classes():
    # Photos 0 to 3 show class 0, photo 4 class 1, photo 5 both.
    image, label = np.array([0, 1, 2, 3, 4, 5, 5]), np.array([0, 0, 0, 0, 1, 0, 1])
    doubt = np.array([0.1, 0.9, 0.2, 0.3, 0.0, 0.0, 0.0])
    assert teaching_order(image, label, doubt).tolist() == [5, 1, 4, 3, 2, 0]
    assert sorted(teaching_order(np.array([5, 5, 8]), np.zeros(3, int), np.ones(3)).tolist()) == [5, 8]
    assert teaching_order(*(np.empty(0, kind) for kind in (np.intp, np.intp, float))).tolist() == []


def test_the_teaching_order_is_that_of_a_slow_look():
    rng = np.random.default_rng(0)
    image, label, doubt = np.sort(rng.integers(0, 30, 50)), rng.integers(0, 4, 50), rng.random(50)
    seen, left, slow = [0] * 4, set(image.tolist()), []
    while left:
        worth = {i: sum((1 + doubt[image == i]) / (1 + np.take(seen, label[image == i]))) for i in left}
        slow.append(max(sorted(left), key=worth.get))
        left.remove(slow[-1])
        for c in label[image == slow[-1]]:
            seen[c] += 1
    assert teaching_order(image, label, doubt).tolist() == slow


def test_a_list_is_what_a_slow_look_at_every_photo_gives(tmp_path):
    n, rng = 300, np.random.default_rng(0)
    ids = tuple(f"folder/{i:05d}" for i in rng.permutation(n))
    tags = np.full((n, 3), -1, np.int8)
    images = ImageSet(ids, tuple(tmp_path / name for name in ids), tags, ("a", "b", "c"))
    image, label = np.sort(rng.integers(0, n, 400)), rng.integers(0, 3, 400)
    boxes, sure = np.tile(np.float32([1, 2, 3, 4]), (400, 1)), rng.random(400)
    found = Detections(image, boxes, sure, label, ids, images.classes)
    index = Index(images, found, rng.random(400), np.zeros(n, np.bool_))
    for order in ("teaching", "confident", "name"):
        for c in (None, 1):
            wanted = Query(order=order, class_=c, low=0.2, high=0.7, search="1")
            listed = index.find(wanted, np.unique(image))
            fits = (sure >= 0.2) & (sure <= 0.7) & ((label == c) if c is not None else True)
            assert sorted(listed) == [i for i in np.unique(image[fits]) if "1" in ids[i]]
    assert [ids[i] for i in index.find(Query(order="name"), image[:0])] == sorted(ids)


def test_the_photos_may_be_elsewhere(review_run, tmp_path):
    import shutil

    from tag2box import InputError, read_images

    home = copied(review_run, tmp_path / "a")
    shutil.copytree(home.parent / "toys", tmp_path / "b")
    moved = read_images(tmp_path / "b", tmp_path / "b" / "tags.csv")
    assert Session(home, images=moved).images.paths[0].parent == tmp_path / "b"
    with pytest.raises(InputError, match="not there"):
        Session(home, images=moved[:5])


def test_the_order_is_kept_in_the_run_folder(review_run, tmp_path):
    home = copied(review_run, tmp_path)
    run = RunFolder(home)
    first = load_order(run)
    (kept,) = [p for p in (home / "review").iterdir() if (p / "record.json").is_file()]
    (kept / "doubt.npy").write_bytes(b"damaged")
    again = load_order(run)
    assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in vars(first))
    assert np.array_equal(np.unique(Session(home).annotations.boxes.image), np.sort(first.order))
    assert read_state(home).photos == {}
    assert RunFolder(home).clean(remove=False)  # it can be made again
