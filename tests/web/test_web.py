"""What all servers share: limits of bodies and connections; SIGTERM and Ctrl+C leave nothing."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests._review import Client
from tests._serving import served

from tag2box.web import listening
from tag2box.web.access import Access, AccessMiddleware
from tag2box.web.answers import ERRORS, as_json, body_as_json

HOST = "127.0.0.1"
LARGE = 20_000_000


class Toy:
    """An application that takes a body, gives a large answer, or is at work until it is let go."""

    def __init__(self):
        self.free = threading.Event()

    async def take(self, request: Request) -> Response:
        return as_json(await body_as_json(request))

    async def large(self, _request: Request) -> Response:
        return Response(bytes(LARGE))

    async def work(self, _request: Request) -> Response:
        while not self.free.is_set():
            await anyio.sleep(0.01)
        return as_json("done")

    def behind(self, access):
        routes = [Route("/take", self.take, methods=["POST"]), Route("/large", self.large)]
        app = Starlette(routes=[*routes, Route("/work", self.work)], exception_handlers=ERRORS)
        return AccessMiddleware(app, access)


@contextmanager
def toy(**access):
    """A server of `Toy`, the toy, and where it listens."""
    one = Toy()
    with listening.listening(HOST, 0) as place:
        port = place.getsockname()[1]
        with served(one.behind(Access(HOST, port, **access)), place) as server:
            try:
                yield server, one, port
            finally:
                one.free.set()


def head(port, path, method="GET", more=""):
    return f"{method} {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\n{more}\r\n".encode()


def body(port, path="/take"):
    """A request whose body never ends."""
    more = f"Origin: http://{HOST}:{port}\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n"
    return head(port, path, "POST", more) + b"["


def connected(port, text=b""):
    line = socket.create_connection((HOST, port), timeout=20)
    line.sendall(text)
    return line


def until(what, seconds=10):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_a_body_has_its_time_as_a_whole():
    """Who sends a byte now and then is as slow as who sends none; who has sent all may wait."""
    with toy(seconds=0.5) as (_, app, port):
        with connected(port, body(port)) as slow:
            slow.settimeout(0.1)
            began, answer = time.monotonic(), b""
            while not answer:
                try:
                    slow.sendall(b" ")
                    answer = slow.recv(10_000)
                except TimeoutError:
                    assert time.monotonic() - began < 5
        assert answer.startswith(b"HTTP/1.1 408 ")
        with connected(port, head(port, "/work")) as patient:
            time.sleep(0.7)
            app.free.set()
            assert patient.recv(10_000).startswith(b"HTTP/1.1 200 ")


def test_too_many_connections_are_told_so_and_the_server_stays(monkeypatch):
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 4)
    with toy() as (_, app, port):
        with ExitStack() as crowd:
            busy = [crowd.enter_context(connected(port, head(port, "/work"))) for _ in range(3)]
            until(lambda: httpx.get(f"http://{HOST}:{port}/large").status_code == 503)
            app.free.set()
            assert all(line.recv(10_000).startswith(b"HTTP/1.1 200 ") for line in busy)
        until(lambda: httpx.post(f"http://{HOST}:{port}/take", json=[1]).status_code == 200)


NUMBERS = [("9" * 400, 400), ("1e400", 400), ("NaN", 400), ("Infinity", 400), ("9" * 5000, 400), ("7", 200)]


@pytest.mark.parametrize(("content", "status"), NUMBERS)
def test_numbers_that_no_float_can_hold_are_no_json(content, status):
    app = Toy().behind(Access(HOST, 8765))
    sent = {"content": content, "headers": {"content-type": "application/json"}}
    assert Client(app).post("/take", **sent).status_code == status


@pytest.mark.parametrize("path", ["/take", "/large", "/work"])
def test_no_client_keeps_the_server_from_ending(monkeypatch, path, capfd):
    """A body that does not come, an answer that nobody takes, and work that does not end."""
    monkeypatch.setattr(listening, "LAST_ANSWERS", 0.5)
    with toy() as (server, _, port):
        text = body(port) if path == "/take" else head(port, path)
        with connected(port, text):
            until(lambda: server.server_state.total_requests + len(server.server_state.tasks))
            began = time.monotonic()
            server.should_exit = True
            until(lambda: not server.thread.is_alive())
            assert time.monotonic() - began < 4
    assert capfd.readouterr().err == ""


def test_what_was_asked_is_answered_before_the_end():
    with toy() as (server, app, port), connected(port, head(port, "/work")) as asking:
        until(lambda: server.server_state.tasks)
        server.should_exit = True
        time.sleep(0.3)
        app.free.set()
        assert asking.recv(10_000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("host", "token", "open_to_all"),
    [
        ("0.0.0.0", "", True),
        ("::", "", True),
        ("192.168.1.7", "", True),
        ("photos.example", "", True),
        ("0.0.0.0", "word", False),
        ("127.0.0.1", "", False),
        ("127.0.0.5", "", False),
        ("::1", "", False),
        ("localhost", "", False),
    ],
)
def test_who_lets_everybody_in_is_told_so(host, token, open_to_all):
    lines = listening.greeting("Here:", Access(host, 80, token)).splitlines()
    assert len(lines) == 2 + open_to_all
    assert ("--token" in lines[-1]) == open_to_all


@contextmanager
def command(*words, folder):
    """A command with its temporary folders in `folder`, in a group of processes as a terminal makes it."""
    with subprocess.Popen(
        [sys.executable, "-m", "tag2box", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder)},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


SERVERS = {
    "serve": ("serve", "--port", "0", "--workers", "1", "--host", "0.0.0.0"),
    "serve-labelstudio": ("serve-labelstudio", "--port", "0"),
    "review": ("review", "--no-open"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
@pytest.mark.parametrize(
    ("server", "number"),
    [
        ("serve", signal.SIGTERM),
        ("serve", signal.SIGINT),
        ("review", signal.SIGTERM),
        pytest.param("serve-labelstudio", signal.SIGTERM, marks=pytest.mark.torture),
    ],
)
def test_a_server_that_is_ended_leaves_nothing(review_run, tmp_path, server, number):
    """With a client that is half way through its body; Ctrl+C reaches its workers as well."""
    name, *more = SERVERS[server]
    with command(name, str(review_run), *more, folder=tmp_path) as process:
        lines = [process.stdout.readline() for _ in range(3 if "0.0.0.0" in more else 2)]
        assert ("--token" in lines[-1]) == ("0.0.0.0" in more)
        port, path = re.search(r"http://[^/]+:(\d+)(/\S*)", lines[0]).groups()
        # Once it answers, Ctrl+C is the server's; before that it is Python's.
        httpx.get(f"http://127.0.0.1:{port}/", timeout=300)
        with connected(int(port), body(port, f"{path}{'events' if server == 'review' else 'predict'}")):
            time.sleep(0.3)
            began = time.monotonic()
            (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
            errors = process.communicate(timeout=120)[1]
    assert time.monotonic() - began < 60  # busy machines, too
    assert errors == ("tag2box: ended by SIGTERM\n" if number == signal.SIGTERM else "")
    assert process.returncode == 128 + number
    assert not list(Path(tmp_path).iterdir())


@pytest.mark.torture
@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
def test_a_server_that_is_ended_while_it_starts_leaves_nothing(review_run, tmp_path):
    words = ("serve", str(review_run), "--port", "0", "--workers", "1")
    with command(*words, folder=tmp_path) as process:
        until(lambda: list(tmp_path.glob("tag2box-*")), seconds=120)
        process.terminate()
        errors = process.communicate(timeout=120)[1]
    assert errors == "tag2box: ended by SIGTERM\n"
    assert process.returncode == 128 + signal.SIGTERM
    assert not list(tmp_path.glob("tag2box-*"))
