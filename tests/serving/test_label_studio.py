"""The backend for Label Studio: its calls as `label_studio.ml.api_connector` and its webhooks send them.

`examples/check_label_studio.py` plays the same with a real Label Studio, where one is running.
"""

import contextlib
import http.server
import json
import threading
import time
import warnings

import numpy as np
import pytest
from tests._events import by_name
from tests._review import ORIGIN, Client, copied

from tag2box.corrections import collect, read_state
from tag2box.errors import InputError
from tag2box.run.annotations import Annotations
from tag2box.serving.annotating import Backend, make_app
from tag2box.serving.fetching import Source
from tag2box.serving.label_config import read_config
from tag2box.serving.label_studio import Annotators
from tag2box.serving.pool import Limits, WorkerPool
from tag2box.web.access import Access

CONFIG = """<View><Image name="photo" value="$image"/>
<RectangleLabels name="boxes" toName="photo">
<Label value="Thing"/><Label value="Rest" predicted_values="some, other"/>
</RectangleLabels></View>"""
PROJECT = {"id": 7, "label_config": CONFIG}
TASK = {"id": 3, "data": {"image": "toy-00.png"}}


class Played:
    """A backend over a copy of the run, and what Label Studio would send to it."""

    def __init__(self, run, folder, source=None):
        self.home = copied(run, folder / "copy")
        self.pool = WorkerPool(self.home / "detector.npz", Limits(seconds=300))
        self.annotators = Annotators(Annotations(self.home), 0.0)
        self.backend = Backend(self.annotators, self.pool, folder, source)
        self.client = Client(make_app(self.backend, Access("127.0.0.1", 8765, most_bytes=10**6)))

    def predict(self, *files):
        tasks = [{"id": n, "project": 7, "data": {"image": file}} for n, file in enumerate(files)]
        request = {
            "tasks": tasks,
            "project": "7.1700000000",
            "label_config": CONFIG,
            "params": {"context": None},
        }
        answer = self.client.post("/predict", json=request)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def annotate(self, result, file="toy-00.png", key=1, action="ANNOTATION_CREATED", **more):
        event = {"action": action, "project": PROJECT, "task": {"id": 3, "data": {"image": file}}}
        return self.client.post(
            "/webhook", json={**event, "annotation": {"id": key, "result": result, **more}}
        )

    def photo(self, name="toy-00"):
        return by_name(self.home).photo(name)


@pytest.fixture
def played(review_run, tmp_path):
    return Played(review_run, tmp_path)


def drawn(key, x, y, width, height, label="Thing", **more):
    value = {"x": x, "y": y, "width": width, "height": height, "rotation": 0, "rectanglelabels": [label]}
    return {
        "id": key,
        "type": "rectanglelabels",
        "from_name": "boxes",
        "to_name": "photo",
        "original_width": 96,
        "original_height": 96,
        "value": value | more,
    }


def test_health_and_setup(played):
    assert played.client.get("/health").json()["status"] == "UP"
    request = {
        "project": "7.1700000000",
        "schema": CONFIG,
        "hostname": "http://localhost:8080",
        "access_token": "x",
    }
    assert played.client.post("/setup", json=request).json() == {"model_version": played.annotators.version}
    for wrong in ("<View/>", "<View", None, "<!DOCTYPE x><View/>"):
        answer = played.client.post("/setup", json=request | {"schema": wrong})
        assert answer.status_code == 400
        assert "labeling configuration" in answer.json()["error"] or "DOCTYPE" in answer.json()["error"]


def test_other_sites_cannot_annotate(played):
    headers = {"origin": "http://evil.example"}
    assert (
        played.client.post("/webhook", json={"action": "START_TRAINING"}, headers=headers).status_code == 403
    )
    own = played.client.post("/webhook", json={"action": "PROJECT_UPDATED"}, headers={"origin": ORIGIN})
    assert own.status_code == 201


def test_photos_of_the_run_come_with_its_boxes(played):
    """Whatever Label Studio calls them: uploaded, served from its local files, or by a bare name."""
    answer = played.predict(
        "/data/upload/7/1a2b3c4d-toy-00.png", "/data/local-files/?d=toys/toy-00.png", "toy-00.png", "gone.png"
    )
    first, *others, gone = answer["results"]
    assert all(other == first for other in others)
    assert gone == {"result": [], "score": 0.0, "model_version": played.annotators.version}
    now = played.annotators.annotations
    photo = now.photo(now.place["toy-00"])
    assert len(first["result"]) == len(photo["boxes"]) > 1
    names = {"thing": "Thing", "other": "Rest"}
    for item, box in zip(first["result"], photo["boxes"], strict=True):
        value = item["value"]
        sides = np.array([value["x"], value["y"], value["x"] + value["width"], value["y"] + value["height"]])
        np.testing.assert_allclose(sides * 0.96, box["xyxy"], atol=1e-4)
        assert value["rectanglelabels"] == [names[box["class"]]]
        assert (item["from_name"], item["to_name"], item["id"]) == ("boxes", "photo", box["id"])
    assert first["score"] == max(item["score"] for item in first["result"])


def test_predictions_are_what_label_studio_takes(played):
    """By its own software development kit, where that is installed."""
    objects = pytest.importorskip("label_studio_sdk.label_interface.objects")
    interface = pytest.importorskip("label_studio_sdk.label_interface").LabelInterface(CONFIG)
    (prediction,) = played.predict("toy-00.png")["results"]
    objects.PredictionValue(**prediction)
    assert interface.validate_prediction(prediction)


def test_an_annotation_is_a_correction(played):
    (prediction,) = played.predict("toy-00.png")["results"]
    (found,) = [item for item in prediction["result"] if item["value"]["rectanglelabels"] == ["Thing"]]
    found["value"]["x"] += 1  # moved a little
    answer = played.annotate([found, drawn("new", 50, 50, 25, 25, "Rest")])
    assert (answer.status_code, answer.json()["result"]) == (201, {"boxes": 2})
    photo = played.photo()
    assert photo.state == "reviewed"
    kept = photo.boxes[found["id"]]
    assert kept.found is not None
    assert kept.xyxy[0] == pytest.approx(kept.found[1][0] + 0.96, abs=1e-4)
    (mine,) = [box for key, box in photo.boxes.items() if key != found["id"]]
    assert (mine.name, mine.xyxy, mine.found) == ("other", (48, 48, 72, 72), None)
    now = played.annotators.annotations
    corrections = collect(read_state(played.home), now.images, now.contents)
    assert corrections.right.all()
    assert len(corrections) == 2


def test_an_annotation_that_changes_or_goes_takes_its_boxes_along(played):
    played.annotate([drawn("a", 10, 10, 20, 20), drawn("b", 50, 50, 20, 20)])
    assert len(played.photo().accepted()) == 2
    played.annotate([drawn("b", 50, 50, 40, 40)], action="ANNOTATION_UPDATED")
    (box,) = played.photo().accepted()
    np.testing.assert_allclose(box.xyxy, [48, 48, 86.4, 86.4])
    delete = {"action": "ANNOTATIONS_DELETED", "project": PROJECT, "annotations": [{"id": 2}]}
    assert played.client.post("/webhook", json=delete).status_code == 201
    assert played.photo().accepted()  # another annotation's end changes nothing
    played.client.post("/webhook", json=delete | {"annotations": [{"id": 1}]})
    assert played.photo().empty


def test_skipped_tasks_unknown_labels_and_other_photos(played):
    played.annotate([], was_cancelled=True)
    assert played.photo().state == "skipped"
    assert played.annotate([drawn("a", 1, 1, 5, 5, "Unknown")]).json()["result"] == {"boxes": 0}
    assert played.photo().state == "reviewed"
    assert played.annotate([drawn("a", 1, 1, 5, 5)], file="elsewhere.png").json()["result"] == {"boxes": 0}


def test_many_annotations_at_once_and_those_of_older_versions(played):
    event = {"action": "ANNOTATIONS_CREATED", "project": PROJECT}
    tasks = [{"id": n, "data": {"image": f"toy-0{n}.png"}} for n in range(2)]
    annotations = [{"id": n, "result": [drawn("a", 10, 10, 20, 20)]} for n in range(2)]
    played.client.post("/webhook", json={**event, "task": tasks, "annotation": annotations})
    assert len(played.photo("toy-00").accepted()) == len(played.photo("toy-01").accepted()) == 1
    played.backend.learning.start = lambda: {"state": "working"}
    whole = [{**tasks[0], "annotations": [{"id": 5, "result": []}]}]
    answer = played.client.post("/train", json={"annotations": whole, "label_config": CONFIG})
    assert (answer.status_code, answer.json()) == (201, {"state": "working"})
    assert not played.photo("toy-00").accepted()


def test_a_turned_rectangle_is_the_box_around_it(played):
    played.annotate([drawn("a", 50, 10, 20, 40, rotation=90)])
    (box,) = played.photo().accepted()
    np.testing.assert_allclose(box.xyxy, [0.96 * 10, 0.96 * 10, 48, 0.96 * 30], atol=1e-6)


@pytest.mark.parametrize(
    "event",
    [
        [],
        {"action": "ANNOTATION_CREATED"},
        {"action": "ANNOTATION_CREATED", "project": PROJECT, "task": TASK, "annotation": 4},
        {"action": "ANNOTATION_CREATED", "project": 3, "task": {}, "annotation": {}},
        {"action": "ANNOTATIONS_DELETED", "annotations": 3},
        {
            "action": "ANNOTATION_CREATED",
            "project": PROJECT,
            "task": TASK,
            "annotation": {"id": 1, "result": [{"value": {"rectanglelabels": ["Thing"]}}]},
        },
    ],
)
def test_strange_events_are_refused_and_nothing_is_kept(played, event):
    answer = played.client.post("/webhook", json=event)
    assert answer.status_code == 400
    assert "error" in answer.json()
    assert not (played.home / "corrections.jsonl").exists()


BOX = 10, 10, 20, 20
HOSTILE = [
    *({"id": 1, "result": [drawn("a", *BOX, rotation=angle)]} for angle in (1e308, "x", None, [1], {})),
    *({"id": 1, "result": [drawn("a", *at)]} for at in ((-1e300, 0, 1e308, 9), (0, 0, 1e-300, 1e-300))),
    *({"id": 1, "result": [drawn(key, *BOX)]} for key in ("x" * 2000, "\n", "\0", {}, None)),
    *({"id": key, "result": [drawn("a", *BOX)]} for key in ("i" * 2000, "\n", [[]], {"a": {}})),
    *({"id": 1, "result": result} for result in ("x", {"a": 1}, [[]], [None], 3, [drawn("a", *BOX, [])])),
    {"id": 1, "result": [drawn(str(n), *BOX) for n in range(2001)]},
    {"id": 1, "was_cancelled": "x"},
]


def test_hostile_annotations_end_in_corrections_or_in_one_line(played):
    """Whatever they hold: a status, a line, and a log in which every line can be read."""
    for annotation in HOSTILE:
        event = {"action": "ANNOTATION_CREATED", "project": PROJECT, "task": TASK, "annotation": annotation}
        answer = played.client.post("/webhook", json=event)
        assert answer.status_code in (201, 400), annotation
        assert "\n" not in answer.json().get("error", "")
    sent = {"headers": {"content-type": "application/json"}}
    for text in ('{"action": "ANNOTATION_CREATED", "x": %s}' % ("9" * 400), "[" * 90_000, '{"tasks": NaN}'):
        for path in ("/webhook", "/predict", "/train", "/setup"):
            assert played.client.post(path, content=text, **sent).status_code == 400
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of damaged lines
        boxes = [
            box.xyxy for photo in read_state(played.home).photos.values() for box in photo.boxes.values()
        ]
    assert all(0 <= x1 < x2 <= 96 and 0 <= y1 < y2 <= 96 for x1, y1, x2, y2 in boxes)


def test_training_learns_from_the_annotations(played):
    """Start training, wait, and the model has another version; its predictions are what was drawn."""
    before = played.annotators.version
    for n in (0, 2, 4):
        played.annotate([drawn("a", 10, 10, 40, 40)], file=f"toy-0{n}.png", key=n)
    answer = played.client.post("/webhook", json={"action": "START_TRAINING", "project": PROJECT})
    assert answer.json()["result"]["state"] == "working"
    thread = next(each for each in threading.enumerate() if "_listen" in each.name)
    thread.join(120)
    assert played.backend.learning.status["state"] == "done", played.backend.learning.status
    setup = played.client.post("/setup", json={"project": "7.1", "schema": CONFIG}).json()
    assert setup["model_version"] not in {before, None}
    assert played.pool.workers[0].stale
    (prediction,) = played.predict("toy-02.png")["results"]
    assert [item["value"]["x"] for item in prediction["result"]] == [pytest.approx(10)]


def test_each_task_stands_alone(review_run, tmp_path):
    """A task that is none, or whose photo cannot be had, has an empty prediction; the others have theirs."""
    with label_studio() as (address, _):
        played = Played(review_run, tmp_path, Source(address, "secret", 2.0))
        strange = ["a b.png", "http://[.png", "\ud800.png", "\0.png", "x" * 9000 + ".png", "//.png"]
        strange += ["/broken.png", "/away.png", "ä%.png", "http://a b:x/c.png", "no address"]
        tasks = [None, 3, "x", [], {}, {"data": 3}, {"data": {"image": None}}]
        tasks += [{"data": {"image": image}} for image in ("toy-00.png", *strange, "toy-00.png")]
        request = json.dumps({"tasks": tasks, "label_config": CONFIG})  # httpx has no lone surrogates
        answer = played.client.post("/predict", content=request, headers={"content-type": "application/json"})
        assert answer.status_code == 200, answer.text
        results = answer.json()["results"]
    (right,) = played.predict("toy-00.png")["results"]
    nothing = {"result": [], "score": 0.0, "model_version": played.annotators.version}
    assert results == [nothing] * 7 + [right] + [nothing] * len(strange) + [right]


def test_an_annotation_that_is_wrong_stops_no_other(played):
    tasks = [{"id": n, "data": {"image": f"toy-0{n}.png"}} for n in range(3)]
    annotations = [{"id": n, "result": [drawn("a", 10, 10, 20, 20)]} for n in range(3)]
    del annotations[1]["result"][0]["value"]["x"]
    event = {"action": "ANNOTATIONS_CREATED", "project": PROJECT, "task": tasks, "annotation": annotations}
    answer = played.client.post("/webhook", json=event)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("1 of 3 annotations are not saved: ")
    assert [len(played.photo(f"toy-0{n}").accepted()) for n in range(3)] == [1, 0, 1]


class Files(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path == "/broken.png":
            self.wfile.write(b"HTTP/1.1 what\r\n\r\n")
            return
        if self.path == "/slow.png":
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(100):
                    self.wfile.write(b"x")
                    time.sleep(0.05)
            return
        if self.path == "/away.png":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.2:9/stolen.png")
        else:
            self.send_response(200 if self.headers.get("Authorization") == "Token secret" else 401)
        self.end_headers()
        self.wfile.write(b"x" * 100)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def label_studio():
    """A server of files, its address, and the paths that it is asked for."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", server.asked
        server.shutdown()


def test_photos_are_fetched_from_label_studio_alone(tmp_path):
    with label_studio() as (address, asked):
        source = Source(address, "secret", 1.0)
        target = tmp_path / "photo"
        source.fetch("/data/upload/7/my photo ä%20.png", target, 100)
        assert asked == ["/data/upload/7/my%20photo%20%C3%A4%20.png"]
        source.fetch("/data/upload/7/a.png", target, 100)
        assert target.read_bytes() == b"x" * 100
        for photo, most in (
            ("/data/upload/7/a.png", 99),
            ("/away.png", 100),
            ("http://127.0.0.2:9/a.png", 100),
            ("//127.0.0.2:9/a.png", 100),
            ("file:///etc/passwd", 100),
            ("/broken.png", 100),
            ("/slow.png", 100),
            ("http://[/a.png", 100),
        ):
            with pytest.raises(InputError):
                source.fetch(photo, target, most)
        with pytest.raises(InputError, match="401"):
            Source(address, "wrong").fetch("/a.png", target, 100)
    with pytest.raises(InputError, match="must be like"):
        Source("label-studio", "")


def test_other_photos_go_to_the_detector(review_run, tmp_path):
    class Local:
        def fetch(self, address, target, most_bytes):
            target.write_bytes((review_run.parent / "toys" / "toy-00.png").read_bytes())

    played = Played(review_run, tmp_path, Local())
    played.pool.start()
    try:
        (prediction,) = played.predict("/data/upload/7/unknown.png")["results"]
    finally:
        played.pool.stop()
    assert {item["value"]["rectanglelabels"][0] for item in prediction["result"]} == {"Thing", "Rest"}
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


def test_labels_of_classes():
    controls = read_config(CONFIG, ("thing", "other", "third"))
    assert controls.labels == {"thing": "Thing", "other": "Rest"}
    assert (controls.class_of("Rest"), controls.class_of("third")) == ("other", None)
