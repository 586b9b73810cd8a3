"""Photos elsewhere, as nobody wants them: a server whose files change, archives that are cut or swell."""

import gzip
import io
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from PIL import Image

# What a server says of the version of a file: a mark, a time of long ago, that of this second, or nothing.
SAYINGS = ("mark", "time", "second", "length", "nothing")


class Changing:
    """Files by their path, and what was asked for; `put` changes one."""

    def __init__(self, saying="mark"):
        self.saying, self.files, self.versions, self.asked = saying, {}, {}, []

    def put(self, path, content):
        self.files[path] = content
        self.versions[path] = self.versions.get(path, 0) + 1

    def headers(self, path):
        version = self.versions[path]
        if self.saying == "mark":
            yield "ETag", f'"{version}"'
        elif self.saying == "time":
            yield "Last-Modified", formatdate(1_000_000_000 + version, usegmt=True)
        elif self.saying == "second":
            yield "Last-Modified", formatdate(time.time(), usegmt=True)
        if self.saying != "nothing":
            yield "Content-Length", str(len(self.files[path]))


@contextmanager
def serving(changing):
    """The address of the files, without http://."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            changing.asked.append((self.command, self.path, self.headers.get("Authorization")))
            path = self.path.partition("?")[0]
            folder = path.rstrip("/") + "/"
            below = {name[len(folder) :].split("/")[0] for name in changing.files if name.startswith(folder)}
            if path not in changing.files and not below:
                self.send_error(404)
                return None
            self.send_response(200)
            if path in changing.files:
                for header in changing.headers(path):
                    self.send_header(*header)
                self.end_headers()
                return changing.files[path]
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            return "".join(f'<a href="{name}">{name}</a>' for name in sorted(below)).encode()

        def do_GET(self):
            if (content := self.do_HEAD()) is not None:
                with suppress(ConnectionError):  # the other side has heard enough
                    self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def flat(color, size=(24, 16)):
    """The bytes of a picture of one color: as many for each."""
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, "BMP")
    return file.getvalue()


def archive(path, files):
    """A zip or tar file of (name, bytes), by its suffix."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            for name, content in files:
                made.writestr(name, content)
    else:
        with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as made:
            for name, content in files:
                about = tarfile.TarInfo(name)
                about.size = len(content)
                made.addfile(about, io.BytesIO(content))
    return path


def small_set(n=4):
    """Files of a data set of one class, small enough to be cut at every byte; noise, which hardly packs."""
    rng, files = np.random.default_rng(0), []
    for i in range(n):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (16, 24, 3), np.uint8)).save(file, "BMP")
        files.append((f"{'cat' if i % 2 else 'negative'}/{i}.bmp", file.getvalue()))
    return files


def zeros(path, size):
    """`size` zeros, packed to a thousandth: as the member of a zip file, or of a packed tar file."""
    piece = bytes(1 << 20)
    if path.suffix == ".zip":
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made,
            made.open("cat/1.bmp", "w") as file,
        ):
            for _ in range(size >> 20):
                file.write(piece)
    else:
        head = tarfile.TarInfo("cat/1.bmp")
        head.size = size
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(head.tobuf())
            for _ in range((size >> 20) + 1):
                file.write(piece)
    return path


def long_header(path, size):
    """A packed tar file whose first header says that the name of the file has `size` letters."""
    head = tarfile.TarInfo("././@LongLink")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, size
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head.tobuf(tarfile.GNU_FORMAT))
        for _ in range(size >> 20):
            file.write(b"a" * (1 << 20))
    return path


def many(path, n):
    """n empty files in an archive."""
    if path.suffix == ".zip":
        return archive(path, ((f"cat/{i}.bmp", b"") for i in range(n)))
    heads = b"".join(tarfile.TarInfo(f"cat/{i}.bmp").tobuf() for i in range(1000))
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(n // 1000):
            file.write(heads)
    return path


COST = """if True:
    import resource, sys, time
    from tag2box import InputError, read_images
    from tag2box.data.decoding import read_image
    import tag2box.data.remote
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        for path in read_images(sys.argv[1]).paths:
            read_image(path)
        end = "read"
    except InputError as error:
        end = str(error)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((after - before) // 1024, time.process_time() - start, end)
"""


def cost(path):
    """MB and seconds that reading an archive takes, in a process of its own, and how it ends."""
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", COST, str(path)],
        capture_output=True,
        check=False,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert answer.returncode == 0, answer.stderr
    megabytes, seconds, end = answer.stdout.strip().split(" ", 2)
    return int(megabytes), float(seconds), end
