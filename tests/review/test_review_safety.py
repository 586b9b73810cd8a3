"""The review page answers nobody but the browser it was opened in: a test for each promise."""

import json
import socket
from dataclasses import replace

import pytest
from tests._events import BOX
from tests._review import HOST, ORIGIN, PORT, TOKEN, at, client_of, copied

from tag2box.web.access import MOST_BYTES, Access


@pytest.fixture(scope="module")
def client(review_run, tmp_path_factory):
    return client_of(copied(review_run, tmp_path_factory.mktemp("copy")))[1]


def post(client, path, content, **headers):
    return client.post(at(path), json=content, headers={"origin": ORIGIN, **headers})


@pytest.mark.parametrize(
    "path", ["/", "/start", "/wrong/start", f"/{TOKEN}x/start", f"/{TOKEN}", f"//{TOKEN}/start"]
)
def test_without_the_token_nothing_is_there(client, path):
    assert client.get(at("start")).status_code == 200
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    "host", ["evil.example:8765", "127.0.0.1:80", "127.0.0.1", "localhost.evil.example:8765", ""]
)
def test_other_hosts_are_refused(client, host):
    assert client.get(at("start"), headers={"host": f"localhost:{PORT}"}).status_code == 200
    assert client.get(at("start"), headers={"host": host}).status_code == 421


def test_listening_to_all_names_no_foreign_host():
    access = Access("0.0.0.0", PORT, TOKEN)
    assert access.is_own(f"192.168.1.7:{PORT}")
    assert access.is_own(f"[2001:db8::7]:{PORT}")
    assert access.is_own(f"{socket.gethostname()}:{PORT}")
    assert not access.is_own(f"evil.example:{PORT}")
    assert not Access(HOST, PORT, TOKEN).is_own(f"192.168.1.7:{PORT}")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://{HOST}:{PORT}", f"http://{HOST}:80"]
)
def test_other_origins_are_refused(client, origin):
    assert client.get(at("start"), headers={"origin": origin}).status_code == 403
    assert post(client, "events", [], origin=origin).status_code == 403


def test_a_change_needs_an_origin_and_json(client):
    assert client.post(at("events"), json=[]).status_code == 403
    assert client.post(at("learn")).status_code == 403
    content = client.get(at("photos?n=0")).json()["photos"][0]["sha256"]
    event = [{"set": "photo", "id": "1", "photo": content, "state": "reviewed"}]
    form = {"origin": ORIGIN, "content-type": "text/plain"}
    assert client.post(at("events"), content=json.dumps(event), headers=form).status_code == 400
    assert post(client, "events", event).status_code == 200


def test_no_other_site_can_embed_anything(client):
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
        assert client.get(at("thumb/0"), headers=headers).status_code == 403
    typed = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}
    assert client.get(at(""), headers=typed).status_code == 200


@pytest.mark.parametrize("path", ["", "page/main.js", "start", "photo/0", "thumb/0", "photo/999"])
def test_every_answer_has_the_strict_policy(client, path):
    headers = client.get(at(path)).headers
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["img-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_the_page_loads_nothing_from_outside_and_has_no_inline_script(client):
    page = client.get(at("")).text
    for name in ("main.js", "api.js", "grid.js", "keys.js", "panel.js", "stage.js", "store.js", "style.css"):
        page += client.get(at(f"page/{name}")).text
    assert "http:" not in page
    assert "https:" not in page
    assert "innerHTML" not in page
    assert "<script>" not in page
    assert ' style="' not in page
    assert "onclick" not in page


@pytest.mark.parametrize(
    "path",
    [
        *("photo/..%2f..%2frun.json", "photo/-1", "photo/99999999999999999999", "photo/0/../../run.json"),
        *("thumb/1e3", "photo/run.json", "page/..%2fserver.py", "page/server.py", "page/%2e%2e", "map/0/99"),
        *("photos?n=..", "photos?n=99", "photos?n=-1", "list?order=x", "list?low=x"),
    ],
)
def test_photos_go_by_number_and_nothing_by_path(client, path):
    answer = client.get(at(path))
    assert answer.status_code in (400, 404)
    assert b"import" not in answer.content
    assert b"stages" not in answer.content


def test_names_are_data_and_never_markup(tmp_path, review_run):
    """A photo and a class with markup as name arrive as JSON strings; the page sets them as text only."""
    home = copied(review_run, tmp_path)
    session, client = client_of(home)
    name = '<img src=x onerror="alert(1)">'
    named = replace(session.images, ids=(name, *session.images.ids[1:]))
    session.annotations.images = named
    answer = client.get(at("photos?n=0"))
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["photos"][0]["name"] == name


def test_bodies_are_limited(client):
    assert post(client, "events", "x" * MOST_BYTES).status_code == 413

    async def endless():  # without a length: sent in chunks
        for _ in range(10):
            yield b" " * 65536

    headers = {"origin": ORIGIN, "content-type": "application/json"}
    assert client.post(at("events"), content=endless(), headers=headers).status_code == 413
    many = [{"set": "photo", "id": str(i), "photo": 0, "state": "open"} for i in range(201)]
    assert post(client, "events", many).status_code == 400


@pytest.mark.parametrize(
    "events",
    [
        *(None, {}, [], [1], [{}], [{"set": "box"}], "[" * 5000),
        [{"set": "photo", "id": "1", "photo": "toy-00", "state": "open"}],
        [{"set": "photo", "id": "1", "photo": True, "state": "open"}],
        [{"set": "photo", "id": "1", "photo": 10**9, "state": "open"}],
        [{"set": "photo", "id": "1", "photo": 0, "state": "open"}],
        [{"set": "photo", "id": "1", "photo": "0" * 64, "state": "open"}],
        [{"set": "photo", "id": ["a"], "photo": "FIRST", "state": "open"}],
        [{"set": "tag", "id": "1", "photo": "FIRST", "class": "unknown", "tag": 1}],
        *(
            [{**BOX, "photo": "FIRST", "class": "thing", "state": "accepted", **change}]
            for change in (
                *({"xyxy": [0, 0, 0, 0]}, {"box": ["a"]}, {"box": {}}, {"box": None}, {"class": ["a"]}),
                *({"xyxy": [96, 0, 120, 20]}, {"xyxy": [-9, -9, 0, 20]}, {"xyxy": [[], 0, 9, 9]}),
            )
        ),
    ],
)
def test_wrong_events_are_refused_and_nothing_is_kept(review_run, tmp_path, events):
    home = copied(review_run, tmp_path)
    session, client = client_of(home)
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("photo") == "FIRST":
            event["photo"] = session.run.contents[0]
    answer = post(client, "events", events)
    assert answer.status_code == 400
    assert "error" in answer.json()
    assert not (home / "corrections.jsonl").exists()


def test_errors_do_not_name_files(review_run, tmp_path):
    home = copied(review_run, tmp_path)
    session, client = client_of(home)
    session.images = replace(session.images, paths=(tmp_path / "gone.png", *session.images.paths[1:]))
    answer = client.get(at("photo/0"))
    assert answer.status_code == 500
    assert str(tmp_path) not in answer.text


def test_only_this_machine_by_default():
    import inspect

    from tag2box.cli.review import review
    from tag2box.review.server import open_page
    from tag2box.web.listening import listening

    assert inspect.signature(open_page).parameters["host"].default == "127.0.0.1"
    assert inspect.signature(review).parameters["host"].default == "127.0.0.1"
    with listening("127.0.0.1", 0) as door:
        assert door.getsockname()[0] == "127.0.0.1"
