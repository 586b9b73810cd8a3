"""A detector on a port of this machine until Ctrl+C: `serve` for programs, `annotate` for Label Studio."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from tag2box.detection.detector import Detector
from tag2box.review.session import Session
from tag2box.run.folder import RunFolder
from tag2box.serving import annotating, detecting
from tag2box.serving.fetching import Source
from tag2box.serving.label_studio import Annotators
from tag2box.serving.pool import Limits, Pool
from tag2box.web.guard import Door
from tag2box.web.listening import address, listening, run

__all__ = ["annotate", "detector_of", "serve"]

# What a form has around its file.
FRAME = 10_000
# The tasks of a project and their annotations.
TASKS = 50_000_000


def detector_of(place: Path) -> Path:
    """The file of the detector: that of a run folder, or the file itself. It can be used, or is refused."""
    file = place if place.suffix == ".npz" else RunFolder(place).detector_file
    Detector.load(file).description.settings.check_network()
    return file


def serve(
    place: Path,
    limits: Limits,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str = "",
    names: tuple[str, ...] = (),
    say: Callable[[str], None],
) -> None:
    """Serve the detector of `place`, and say where it is."""
    pool = Pool(detector_of(place), limits)
    with listening(host, port) as door, tempfile.TemporaryDirectory(prefix="tag2box-") as folder:
        port = door.getsockname()[1]
        pool.start()
        try:
            ways = Door(host, port, token, names, limits.most_bytes + FRAME)
            say(f"Serving {', '.join(pool.classes)} at {address(host, port, token)}\nCtrl+C ends it.")
            run(detecting.make_app(pool, Path(folder), ways), door)
        finally:
            pool.stop()


def annotate(
    session: Session,
    source: Source | None,
    *,
    min_score: float = 0.3,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str = "",
    names: tuple[str, ...] = (),
    say: Callable[[str], None],
) -> None:
    """Serve the run of `session` to Label Studio, and say where."""
    pool = Pool(detector_of(session.run.folder), Limits(workers=1))
    with listening(host, port) as door, tempfile.TemporaryDirectory(prefix="tag2box-") as folder:
        port = door.getsockname()[1]
        pool.start()
        backend = annotating.Backend(Annotators(session, min_score), pool, Path(folder), source)
        try:
            say(f"Backend URL for Label Studio: {address(host, port, token)}\nCtrl+C ends it.")
            run(annotating.make_app(backend, Door(host, port, token, names, TASKS)), door)
        finally:
            backend.learning.stop()
            pool.stop()
