"""A small run to review, made once, copies of it that a test may write in, and the page's server."""

import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import anyio
import httpx
import numpy as np
from tests._toys import FAST, make_toys, rewrite

from tag2box import read_images
from tag2box.pipeline import Config
from tag2box.review.server import make_app
from tag2box.review.session import Session
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder
from tag2box.runtime.config import read_settings

HOST, PORT, TOKEN = "127.0.0.1", 8765, "a-token-that-nobody-guesses"
ORIGIN = f"http://{HOST}:{PORT}"


def toy_run(folder, n=12):
    """A finished run over toys, two classes: "thing", and "other" in every third photo."""
    tags = make_toys(folder / "toys", n=n)
    lines = tags.read_text().splitlines()
    for i in range(1, n + 1, 3):
        lines[i] += " other" if lines[i].endswith("thing") else "other"
    tags.write_text("\n".join(lines).replace("thing other", "thing;other") + "\n")
    images = read_images(folder / "toys", tags)
    fit_run(images, read_settings(Config(), None, FAST), folder / "run", workers=1)
    return folder / "run"


def copied(run, folder):
    shutil.copytree(run.parent, folder, dirs_exist_ok=True)
    return folder / "run"


def own_run(run, folder):
    """A copy of the run over copies of its photos: `copied` has those of the first one."""
    made = RunFolder(copied(run, folder))
    images = replace(made.images, paths=tuple(folder / "toys" / path.name for path in made.images.paths))
    rewrite(made, images)
    return RunFolder(made.folder)


def client_of(run, host=HOST):
    session = Session(run)
    return session, Client(make_app(session, TOKEN, host, PORT))


class Client:
    """Requests to the application itself, without a network."""

    def __init__(self, app):
        self.app = app

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, **more):
        return self.request("POST", path, **more)

    def request(self, method, path, **more):
        async def asked():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
                return await client.request(method, path, **more)

        return anyio.run(asked)


class Server:
    """`tag2box review` in a process of its own."""

    def __init__(self, run, *more):
        command = [sys.executable, "-m", "tag2box", "review", str(run), "--no-open", *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = re.search(r"http://\S+", self.process.stdout.readline())[0]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def at(path):
    return f"/{TOKEN}/{path}"


def far_box(xyxy, size=96):
    """A box that does not touch the given one."""
    side = 10
    x = 0 if np.asarray(xyxy)[0] > side else size - side
    return [x, 0, x + side, side]
