"""`tag2box serve`: the boxes of `tag2box detect`; limits, clean refusals; whatever is sent, it stays up."""

import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import jsonschema
import pytest
from PIL import Image
from tests._review import copied
from tests._serving import detecting

from tag2box import read_images
from tag2box.detection.config import MIN_SCORE
from tag2box.run.fitting import detect_run
from tag2box.run.folder import RunFolder
from tag2box.serving.detecting import openapi
from tag2box.serving.pool import Limits

LIMITS = Limits(workers=1, waiting=2, seconds=20, most_bytes=300_000, most_pixels=1_000_000)


@pytest.fixture(scope="module")
def server(review_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uploads")
    with detecting(review_run / "detector.npz", folder, LIMITS) as (pool, client):
        yield pool, client, folder


@pytest.fixture
def client(server):
    _, client, folder = server
    yield client
    assert client.get("/health").json()["taken"] == 0
    assert not list(folder.iterdir())


def toy(run, number=0):
    return run.parent / "toys" / f"toy-{number:02d}.png"


def check(name, content):
    schemas = openapi()
    jsonschema.validate(content, {"$ref": f"#/components/schemas/{name}", **schemas})


def test_the_same_boxes_as_the_command(review_run, client, tmp_path):
    images = read_images(review_run.parent / "toys", review_run.parent / "toys" / "tags.csv")
    found = detect_run(RunFolder(copied(review_run, tmp_path)), images, workers=1)[0]
    for i in range(3):
        mine = found[found.image == i]
        answer = client.post("/detect?min_score=0", content=images.paths[i].read_bytes())
        assert answer.status_code == 200
        check("Found", answer.json())
        boxes = answer.json()["boxes"]
        theirs = sorted((box["class"], box["score"], *box["xyxy"]) for box in boxes)
        names = [found.classes[c] for c in mine.label]
        assert theirs == sorted(
            (name, score, *xyxy)
            for name, score, xyxy in zip(names, mine.score.tolist(), mine.xyxy.tolist(), strict=True)
        )
        assert [box["score"] for box in boxes] == sorted((box["score"] for box in boxes), reverse=True)
        assert (answer.json()["width"], answer.json()["height"]) == (96, 96)


def test_a_form_and_a_body_are_the_same(review_run, client):
    photo = toy(review_run).read_bytes()
    body = client.post("/detect?min_score=0", content=photo, headers={"content-type": "image/png"}).json()
    form = client.post("/detect?min_score=0", files={"image": ("a.png", photo, "image/png")}).json()
    assert body == form
    least = sorted(box["score"] for box in body["boxes"])[1]
    some = client.post(f"/detect?min_score={least}", content=photo).json()["boxes"]
    assert some == [box for box in body["boxes"] if box["score"] >= least]
    assert len(some) < len(body["boxes"])
    default = client.post("/detect", content=photo).json()["boxes"]
    assert default == [box for box in body["boxes"] if box["score"] >= MIN_SCORE]


def picture(width, height, kind="PNG"):
    buffer = io.BytesIO()
    Image.new("L", (width, height)).save(buffer, kind)
    return buffer.getvalue()


def huge_png():
    """200 megapixels in the header; nothing behind it."""
    head = bytearray(picture(1, 1))
    head[16:24] = (20000).to_bytes(4, "big") + (10000).to_bytes(4, "big")
    head[29:33] = zlib.crc32(bytes(head[12:29])).to_bytes(4, "big")
    return bytes(head)


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        (b"", 400, "expected an image"),
        (b"hello", 400, "not an image that is read here"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, 400, ""),
        (picture(50, 50)[:-30], 400, "cannot be decoded"),
        (huge_png(), 413, "pixels"),
        (picture(1001, 1000), 413, "1001 x 1000 pixels, more than 1000000"),
        (bytes(300_001), 413, "too long"),
    ],
    ids=["empty", "text", "damaged", "cut", "200-megapixels", "over-the-limit", "long"],
)
def test_bad_uploads_are_the_clients_fault(client, server, content, status, says):
    answer = client.post("/detect", content=content)
    assert answer.status_code == status
    check("Error", answer.json())
    assert says in answer.json()["error"]
    assert str(server[2]) not in answer.text


def test_other_bad_requests(client):
    assert client.get("/detect").status_code == 405
    assert client.get("/nothing").status_code == 404
    for least in ("x", "nan", "-NaN", ""):
        assert client.post(f"/detect?min_score={least}", content=picture(9, 9)).status_code == 400
    assert client.post("/detect", data={"image": "text"}).status_code == 400

    def endless():
        for _ in range(40):
            yield bytes(10_000)

    assert client.post("/detect", content=endless()).status_code == 413


def part(name, content, more="", kind="image/png"):
    head = f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\nContent-Type: {kind}\r\n\r\n'
    return head.encode("latin-1") + content + b"\r\n"


FILE = '; filename="a.png"'
FORMS = {
    "no boundary": (b"--y\r\n", 400),
    "no end": (part("a", picture(9, 9), FILE), 400),
    "no file": (part("a", b"text") + b"--x--", 400),
    "empty file": (part("a", b"", FILE) + b"--x--", 400),
    "two files": (2 * part("a", picture(9, 9), FILE) + b"--x--", 400),
    "many fields": (11 * part("a", b"1", kind="text/plain") + b"--x--", 400),
    "long head": (b"--x\r\n" + b"a" * 100_000 + b": b\r\n\r\n--x--", 400),
    "many heads": (b"--x\r\n" + b"a: b\r\n" * 20_000 + b"\r\n--x--", 400),
    "large field": (part("a", bytes(290_000)) + b"--x--", 400),
    "large file": (part("a", bytes(320_000), FILE) + b"--x--", 413),
    "binary": (bytes(range(256)) * 100, 400),
    "path as name": (part("a", b"no image", '; filename="../../x.png"') + b"--x--", 400),
    "strange charset": (b"--x\r\nContent-Disposition: form-data; name*=utf-9''a\r\n\r\n1\r\n--x--", 400),
}


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # starlette
@pytest.mark.parametrize("form", FORMS)
def test_hostile_forms_are_the_clients_fault(client, form):
    """By the real python_multipart; the fixture sees that no file is left and no place is taken."""
    content, status = FORMS[form]
    answer = client.post(
        "/detect", content=content, headers={"content-type": "multipart/form-data; boundary=x"}
    )
    assert answer.status_code == status
    assert "error" in answer.json()


def test_other_sites_and_names_are_refused(client):
    photo = picture(32, 32)
    assert client.post("/detect", content=photo, headers={"origin": "http://evil.example"}).status_code == 403
    assert client.post("/detect", content=photo, headers={"host": "evil.example"}).status_code == 421
    own = str(client.base_url)
    assert client.post("/detect", content=photo, headers={"origin": own}).status_code == 200


def test_health_and_documents(client):
    health = client.get("/health").json()
    check("Health", health)
    assert health["classes"] == ["other", "thing"]
    assert (health["workers"], health["places"]) == (1, 3)
    assert client.get("/openapi.json").json() == openapi()
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for path, methods in openapi()["paths"].items():
        assert all(f"{method.upper()} {path}" in page.text for method in methods)
    text = page.text + client.get("/page/try.js").text + client.get("/page/page.css").text
    assert "http:" not in text
    assert "https:" not in text
    assert "<script>" not in text
    assert "innerHTML" not in text
    assert client.get("/page/openapi.json").status_code == 404


def test_the_document_is_openapi():
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(openapi())


def test_above_its_capacity_it_refuses_and_stays(review_run, client, server):
    """Ten at once for three places: some are served, the others told when to come again; then all is well."""
    photo = toy(review_run).read_bytes()
    with ThreadPoolExecutor(10) as many:
        answers = list(many.map(lambda _: httpx.post(f"{client.base_url}/detect", content=photo), range(60)))
    status = [answer.status_code for answer in answers]
    assert set(status) == {200, 503}
    for answer in answers:
        if answer.status_code == 503:
            check("Error", answer.json())
            assert int(answer.headers["retry-after"]) >= 1
    assert client.post("/detect", content=photo).status_code == 200


def test_a_large_body_is_refused_cleanly_when_all_places_are_taken(client, server):
    pool = server[0]
    pool.taken += LIMITS.places
    try:
        answer = client.post("/detect", content=bytes(290_000))
        assert answer.status_code == 503
    finally:
        pool.taken -= LIMITS.places


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
def test_a_worker_that_dies_or_is_stuck_is_replaced(review_run, tmp_path):
    """The photo that ended it gets an error, the next one its boxes."""
    photo = toy(review_run).read_bytes()
    limits = Limits(workers=1, waiting=1, seconds=120)
    with detecting(review_run / "detector.npz", tmp_path, limits) as (pool, client):
        worker = pool.workers[0]
        before = client.post("/detect", content=photo).json()
        for sent, status in ((signal.SIGKILL, 422), (signal.SIGSTOP, 504)):
            pid = worker.process.pid
            if sent == signal.SIGKILL:  # while it looks at the photo
                os.kill(pid, signal.SIGSTOP)
                threading.Timer(0.5, os.kill, (pid, sent)).start()
            else:
                os.kill(pid, sent)
                object.__setattr__(limits, "seconds", 0.5)
            assert client.post("/detect", content=photo).status_code == status
            object.__setattr__(limits, "seconds", 120)
            assert client.post("/detect", content=photo).json() == before
            assert worker.process.pid != pid
        os.kill(worker.process.pid, signal.SIGKILL)  # between two photos: nobody is told
        worker.process.join()
        assert client.post("/detect", content=photo).json() == before


def test_a_slow_upload_loses_its_place(review_run, tmp_path):
    with detecting(review_run / "detector.npz", tmp_path, Limits(seconds=0.5), ready=False) as (pool, client):

        def slow():
            for _ in range(20):
                yield b"x"
                time.sleep(0.1)

        answer = client.post("/detect", content=slow())
        assert answer.status_code == 408
        assert pool.taken == 0


def test_slow_uploads_take_no_place_from_others(review_run, client, server):
    pool = server[0]
    photo = toy(review_run).read_bytes()
    head = head_of(client, 9000) + b"x"
    with ExitStack() as slow:
        for _ in range(LIMITS.places + 2):
            slow.enter_context(connected(client)).sendall(head)
        waited(lambda: pool.uploading == LIMITS.places + 2)
        assert client.post("/detect", content=photo).status_code == 200
        for _ in range(LIMITS.uploads - pool.uploading):
            slow.enter_context(connected(client)).sendall(head)
        waited(lambda: pool.uploading == LIMITS.uploads)
        answer = client.post("/detect", content=photo)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
    waited(lambda: pool.uploading == 0)
    assert client.post("/detect", content=photo).status_code == 200


def head_of(client, length):
    host = client.base_url.netloc.decode()
    return f"POST /detect HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n".encode()


def connected(client):
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=10)


def waited(until):
    end = time.monotonic() + 10
    while not until():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_clients_that_leave_take_nothing_with_them(review_run, client):
    photo = toy(review_run).read_bytes()
    for sent in (photo[:-50], photo):
        with connected(client) as other:
            other.sendall(head_of(client, len(photo)) + sent)
    waited(lambda: client.post("/detect", content=photo).status_code == 200)
    waited(lambda: client.get("/health").json()["taken"] == 0)


def test_a_token_is_needed_where_there_is_one(review_run, tmp_path):
    more = {"token": "a-word", "names": ("photos.example",), "ready": False}
    with detecting(review_run / "detector.npz", tmp_path, **more) as (_, client):
        assert client.get("/health").status_code == 404
        assert client.get("/a-word/health").status_code == 200
        assert client.get("/a-word/health", headers={"host": "photos.example"}).status_code == 200
        assert client.get("/a-word/health", headers={"host": "other.example"}).status_code == 421


def test_the_command_serves_and_ends(review_run):
    command = [sys.executable, "-m", "tag2box", "serve", str(review_run), "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = process.stdout.readline()
            address = said.split()[-1]
            assert said.startswith("Serving other, thing at http://127.0.0.1:")
            answer = httpx.post(f"{address}detect", content=toy(review_run).read_bytes(), timeout=60)
            assert answer.status_code == 200
        finally:
            process.send_signal(2)
            _, errors = process.communicate(timeout=20)
    assert errors == ""
    assert process.returncode in {0, 130}  # of Ctrl+C, as uvicorn takes it or hands it on


def test_a_run_without_a_detector_is_one_line(review_run, tmp_path):
    command = [sys.executable, "-m", "tag2box", "serve", str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert answer.stderr.count("\n") == 1
