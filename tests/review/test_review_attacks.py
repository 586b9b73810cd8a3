"""What an attacker would try on the real server: raw sockets, other addresses, and a page of another site."""

import http.server
import json
import socket
import threading
from contextlib import ExitStack
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest
from tests._review import Server, copied
from tests._toys import rewrite

from tag2box.run.folder import RunFolder

MARKUP = '<img src=x onerror="document.title=1">'
SHOW_FIGURES = """
const [name, done] = arguments;
const row = { judged: 4, right: 2, low: 0.1, high: 0.9, left: 3 };
import(new URL("page/panel.js", location)).then((panel) => {
  panel.showFigures([{ class: null, ...row }, { class: name, ...row }], null);
  done();
});
"""


@pytest.fixture(scope="module")
def run(review_run, tmp_path_factory):
    """A run whose first photo and whose class are named by somebody who likes markup."""
    home = copied(review_run, tmp_path_factory.mktemp("attacked"))
    folder = RunFolder(home)
    images = replace(
        folder.images,
        ids=(f"{MARKUP}{{{{7*7}}}}", *folder.images.ids[1:]),
        classes=(MARKUP, *folder.images.classes[1:]),
    )
    rewrite(folder, images)
    return home


@pytest.fixture(scope="module")
def server(run):
    started = Server(run)
    yield started
    started.kill()


@pytest.fixture
def place(server):
    parts = urlsplit(server.address)
    return parts.hostname, parts.port, parts.path


def head(place, path="start", **headers):
    """The head of a request, and of nothing else."""
    host, port, token = place
    lines = [f"POST {token}{path} HTTP/1.1", f"Host: {host}:{port}", f"Origin: http://{host}:{port}"]
    return "\r\n".join([*lines, *(f"{k}: {v}" for k, v in headers.items())]).encode() + b"\r\n\r\n"


def status(place, path="start", **headers):
    host, port, token = place
    return httpx.get(f"http://{host}:{port}{token}{path}", headers=headers).status_code


def other_addresses():
    """Addresses of this machine that are not 127.0.0.1."""
    found = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        try:
            line.connect(("192.0.2.1", 9))  # sends nothing
            found.add(line.getsockname()[0])
        except OSError:
            pass
    return sorted({"127.0.0.2", *found} - {"127.0.0.1", "0.0.0.0"})


def test_nobody_listens_at_other_addresses(place):
    assert status(place) == 200
    for address in other_addresses():
        with socket.socket() as line:
            line.settimeout(5)
            assert line.connect_ex((address, place[1])) != 0, address


def test_with_another_host_the_token_is_still_needed_and_another(run, server):
    public = Server(run, "--host", "0.0.0.0")
    try:
        parts = urlsplit(public.address)
        place = "127.0.0.1", parts.port, parts.path
        assert len(parts.path.strip("/")) >= 32
        assert parts.path != urlsplit(server.address).path
        assert status(place) == 200
        assert status((*place[:2], "/")) == 404
        assert status(place, host=f"rebound.example:{place[1]}") == 421
    finally:
        public.kill()


def test_slow_senders_hold_nobody_up(place):
    text = head(place, "events", **{"Content-Type": "application/json", "Content-Length": "1000"})
    with ExitStack() as slow:
        for k in range(60):
            line = slow.enter_context(socket.create_connection(place[:2]))
            line.sendall(text + b"[" if k % 2 else text[:50])  # half a body, or half a head
        assert status(place) == 200


def evil_page(address):
    """A page of another origin that knows the whole address, token and all, and tries everything."""
    event = json.dumps([{"set": "photo", "id": "evil", "photo": 3, "state": "reviewed"}])
    return f"""<!doctype html><title>waiting</title><body>
<img id=thumb src="{address}thumb/0"><script src="{address}page/main.js"></script>
<iframe id=frame src="{address}"></iframe><iframe name=sink></iframe>
<form id=form action="{address}events" method=post enctype=text/plain target=sink>
<input name='{event[:-1]},{{"x":"' value='"}}]'></form>
<script>
const seen = {{}};
const note = (name, how) => {{ seen[name] = how; }};
const said = (name) => [(answer) => note(name, answer.type + answer.status), () => note(name, "failed")];
const thumb = document.getElementById("thumb");
addEventListener("load", async () => {{
  seen.image = thumb.naturalWidth;
  try {{ seen.frame = document.getElementById("frame").contentDocument?.body?.innerText ?? "closed"; }}
  catch {{ seen.frame = "closed"; }}
  document.getElementById("form").submit();
  await fetch("{address}start").then(...said("read"));
  const sent = {{method: "POST", body: {json.dumps(event)}}};
  await fetch("{address}events", {{...sent, mode: "no-cors"}}).then(...said("blind"));
  const headers = {{"content-type": "application/json"}};
  await fetch("{address}events", {{...sent, headers}}).then(...said("json"));
  await fetch("{address}learn", {{method: "POST", mode: "no-cors"}}).then(...said("learn"));
  navigator.sendBeacon("{address}events", new Blob([sent.body], {{type: "text/plain"}}));
  try {{
    const socket = new WebSocket("{address}".replace("http", "ws"));
    await new Promise((end) => {{ socket.onopen = () => end(seen.socket = "open"); socket.onerror = end; }});
  }} catch {{ }}
  await new Promise((end) => setTimeout(end, 500));
  document.title = JSON.stringify(seen);
}});
</script>"""


@pytest.fixture
def evil(server):
    """The address of that page."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(evil_page(server.address).encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://localhost:{site.server_port}/"
        site.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pytest.importorskip("selenium.webdriver")
    from tests._browser import BROWSER, DRIVER, MISSING, started

    if not (BROWSER and DRIVER):
        pytest.skip(MISSING)
    driver = started(tmp_path_factory.mktemp("browser"))
    yield driver
    driver.quit()


def test_a_page_of_another_site_gets_and_changes_nothing(browser, evil, run):
    from tests._browser import Page

    page = Page(browser, run)
    browser.get(evil)
    page.until(lambda: browser.title.startswith("{"))
    seen = json.loads(browser.title)
    assert seen.pop("image") == 0
    assert seen.pop("frame") in ("", "closed")
    assert seen.pop("read") == seen.pop("json") == "failed"
    assert seen.pop("blind") in ("failed", "opaque0")
    assert seen.pop("learn") in ("failed", "opaque0")
    assert seen == {}  # no web socket opened
    assert not (run / "corrections.jsonl").exists()


def test_names_with_markup_are_shown_as_text(browser, server, run):
    from tests._browser import Page

    page = Page(browser, run).open(server.address)
    title = browser.title
    page.press("/", "7*7")
    page.until(lambda: page.text("#place") == "1 of 1" and "7*7" in page.text("#name"))
    assert page.text("#name") == f"{MARKUP}{{{{7*7}}}}"
    page.press("\ue00c", "g")
    page.until(lambda: page.all("#grid .cell img"))
    assert MARKUP in page.text("#class")
    browser.execute_async_script(SHOW_FIGURES, MARKUP)  # of a class that has some
    assert MARKUP in page.text("#figures")
    assert MARKUP in page.text("#box-list")
    pictures = "return [...document.images].map((image) => new URL(image.src || 'x:', location).pathname)"
    assert not any(path.endswith("/x") for path in browser.execute_script(pictures))
    assert browser.title == title
