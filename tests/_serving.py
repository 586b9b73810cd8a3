"""A server of `tag2box serve` on a real port, in this process, with real workers."""

import gc
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import httpx

from tag2box.serving.detecting import make_app
from tag2box.serving.pool import Limits, WorkerPool
from tag2box.web.access import Access
from tag2box.web.listening import listening, server_of


@contextmanager
def served(app, port):
    """The application on a port, in a thread, and its server."""
    server = server_of(app)
    server.thread = threading.Thread(target=server.run, kwargs={"sockets": [port]}, daemon=True)
    server.thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server
    finally:
        server.should_exit = True
        server.thread.join()
        with warnings.catch_warnings():  # uvicorn leaves connections whose answer nobody takes to the end
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@contextmanager
def detecting(detector, folder, limits=None, *, ready=True, **access):
    """A pool, its server, and a client of it. ready: it has its workers, which take seconds to start."""
    limits = limits or Limits()
    pool = WorkerPool(Path(detector), limits)
    with listening("127.0.0.1", 0) as place:
        port = place.getsockname()[1]
        if ready:
            pool.start()
        try:
            limited = {"most_bytes": limits.most_bytes, "seconds": limits.seconds}
            app = make_app(pool, folder, Access("127.0.0.1", port, **limited, **access))
            with served(app, place), httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
                yield pool, client
        finally:
            pool.stop()
