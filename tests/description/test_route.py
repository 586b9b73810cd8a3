"""One way of every photo: decoded once, through the layers once, and described alike by whoever asks."""

import hashlib
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests._toys import FAST, make_toys
from tests.test_house import SOURCE, map_of_the_code
from typer.testing import CliRunner

from tag2box.cli.app import app
from tag2box.config import Config
from tag2box.data.reading import read_images
from tag2box.description.describe import describe
from tag2box.description.modes import BATCH
from tag2box.networks.inference import Part
from tag2box.run.fitting import detect_run, fit_run
from tag2box.run.folder import RunFolder
from tag2box.runtime.config import read_settings
from tag2box.runtime.files import content_hash
from tag2box.windows.search import search_windows

# Of 12 toys 4 are in the sample from which the description is fitted.
SETS = (*FAST, "features.sample_images=4", "features.size=64", "features.precision=f32")
MODES = ("shared", "pool", "warp", "pyramid")


class Watch:
    """Counts what is decoded, and what goes through the network: by the photo decoded last."""

    def __init__(self, patch, paths):
        self.photo, self.names = "", {content_hash(path): path.name for path in paths}
        self.start()
        patch.setattr(Image, "open", self._noted(Image.open, self._decoded))
        patch.setattr(Part, "each", self._noted(Part.each, self._run))

    def start(self):
        self.decoded, self.whole, self.windows = Counter(), Counter(), Counter()

    @staticmethod
    def _noted(function, note):
        def wrapped(*given, **more):
            return function(*note(*given), **more)

        return wrapped

    def _decoded(self, file):
        content = file.getvalue() if hasattr(file, "getvalue") else Path(file).read_bytes()
        self.photo = self.names[hashlib.sha256(content).hexdigest()]
        self.decoded[self.photo] += 1
        return (file,)

    def _run(self, part, batches):
        batches = list(batches)
        for batch in batches if self.photo else ():
            if part.batch == 1:
                self.whole[self.photo, id(part), batch.shape] += 1
            else:
                self.windows[self.photo] += len(batch)
        return part, batches


@pytest.fixture(scope="module", params=MODES)
def watched(request, tmp_path_factory):
    """A run in one mode: the watch of learning, its folder, and its images; that of detection in the same."""
    folder = tmp_path_factory.mktemp(request.param)
    images = read_images(folder / "toys", make_toys(folder / "toys"))
    config = read_settings(Config(), None, (*SETS, f"features.mode={request.param}"))
    counts = []
    with pytest.MonkeyPatch.context() as patch:
        watch = Watch(patch, images.paths)
        fit_run(images, config, folder / "run", workers=1)
        counts.append(watch.__dict__.copy())
        watch.start()
        detect_run(RunFolder(folder / "run"), images, workers=1)
        counts.append(watch.__dict__.copy())
    return request.param, RunFolder(folder / "run"), images, counts


def times_seen(mode, run, images, job):
    """How often a photo is seen: once, but in a run those of the sample of a pyramid twice."""
    drawn = np.random.default_rng(0).permutation(len(images))[:4] if (mode, job) == ("pyramid", 0) else ()
    return {path.name: 1 + (i in drawn) for i, path in enumerate(images.paths)}


@pytest.mark.parametrize("job", [0, 1], ids=["run", "detect"])
def test_a_photo_is_decoded_once(watched, job):
    mode, run, images, counts = watched
    assert counts[job]["decoded"] == times_seen(mode, run, images, job)


@pytest.mark.parametrize("job", [0, 1], ids=["run", "detect"])
def test_every_part_of_the_network_runs_once_for_a_photo_and_a_size(watched, job):
    mode, run, images, counts = watched
    whole, windows = counts[job]["whole"], counts[job]["windows"]
    times = times_seen(mode, run, images, job)
    assert all(n == times[photo] for (photo, *_), n in whole.items())
    parts = 2 if mode in ("shared", "pyramid") else 1  # it is cut in two
    assert Counter(photo for photo, *_ in whole) == {path.name: 2 * parts for path in images.paths}
    described = run.result("described").counts
    if job == 1:  # a cascade of more windows
        found = [
            len(search_windows(path, run.detector.searching.settings.windows).xyxy) for path in images.paths
        ]
        described = np.minimum(found, run.detector.settings.full_windows) if mode != "pyramid" else found
    filled = -(-np.asarray(described) // BATCH) * BATCH  # the last batch of a photo is filled up
    n_windows = dict(zip((path.name for path in images.paths), filled.tolist(), strict=True))
    assert windows == (n_windows if mode in ("shared", "warp") else {})


def test_a_photo_alone_is_described_as_in_the_run(watched):
    """Bit for bit, whether it was in the sample or not."""
    _, run, images, _ = watched
    description, stored = run.detector.description, run.result("described")
    assert len(images) == 12
    for i, path in enumerate(images.paths):
        for threads in (1, 2):
            alone = describe(path, description, threads=threads)
            np.testing.assert_array_equal(alone.windows.xyxy, stored.windows[i])
            np.testing.assert_array_equal(alone.windows.sizes[0], stored.windows.sizes[i])
            np.testing.assert_array_equal(alone.X, stored.part(i, i + 1).X)
            np.testing.assert_array_equal(alone.map_of(0), stored.map_of(i))


def test_boxes_are_described_as_windows_are(watched):
    """The windows of a photo, given as boxes, in any order and number."""
    _, run, images, _ = watched
    description, path = run.detector.description, images.paths[3]
    whole = describe(path, description)
    rows = np.array([4, 1, 7])
    some = describe(path, description, boxes=whole.windows.xyxy[rows])
    np.testing.assert_array_equal(some.windows.xyxy, whole.windows.xyxy[rows])
    np.testing.assert_array_equal(some.X, whole.X[rows])
    np.testing.assert_array_equal(some.map_of(0), whole.map_of(0))
    none = describe(path, description, boxes=np.empty((0, 4), np.float32))
    assert none.X.shape == (0, description.width)


def test_windows_are_chosen_by_their_context_and_described_as_all_are(watched):
    _, run, images, _ = watched
    description, path = run.detector.description, images.paths[3]
    whole, given = describe(path, description), []
    rows = np.array([0, 2, 5])
    some = describe(path, description, choose=lambda photo: given.append(photo) or rows)
    (photo,) = given
    np.testing.assert_array_equal(photo.windows.xyxy, whole.windows.xyxy)
    np.testing.assert_array_equal(photo.X, whole.X[:, -description.context.width :])
    np.testing.assert_array_equal(photo.map_of(0), whole.map_of(0))
    np.testing.assert_array_equal(some.windows.xyxy, whole.windows.xyxy[rows])
    np.testing.assert_array_equal(some.X, whole.X[rows])


def stacks_of(names, job):
    """The calls (file, function) in the package that lead to each function of these names."""
    stacks = {name: set() for name in names}
    short = {name.rpartition(".")[2] for name in names}

    def note(frame, event, _given):
        code = frame.f_code
        if event != "call" or code.co_name not in short or code.co_qualname not in stacks:
            return
        stack = []
        while frame is not None:
            file = Path(frame.f_code.co_filename)
            if file.is_relative_to(SOURCE):
                stack.append((str(file.relative_to(SOURCE)), frame.f_code.co_qualname))
            frame = frame.f_back
        stacks[code.co_qualname].add(tuple(reversed(stack)))

    sys.setprofile(note)
    try:
        job()
    finally:
        sys.setprofile(None)
    return stacks


def test_the_route_of_a_photo_is_that_of_the_table(tmp_path):
    """CONTRIBUTING: rows 1 to 6 call each other; 5 also calls 7 to 9. `runtime` calls what it is given."""
    _, route, _ = map_of_the_code()
    way, inside = route[:6], route[6:9]
    tags = make_toys(tmp_path / "toys")
    sets = [word for one in SETS for word in ("--set", one)]
    words = ["run", tmp_path / "toys", "--tags", tags, "--out", tmp_path / "run", "--workers", 1, *sets]
    answers = []
    job = lambda: answers.append(CliRunner().invoke(app, list(map(str, words))))  # noqa: E731
    stacks = stacks_of([name for _, name in (way[-1], *inside)], job)
    assert answers[0].exit_code == 0, answers[0].output

    ways = [stack for stack in stacks["Description.project"] if way[4] in stack and way[3] in stack]
    assert ways
    for stack in ways:
        counted = [call for call in stack if not call[0].startswith("runtime/")]
        rooms = [Path(file).parts[0] for file, _ in counted]
        assert [call for call in counted if call in way] == way
        assert len(counted) - 1 <= 8
        assert sum(a != b for a, b in pairwise(rooms)) <= 3
    for file, name in inside:
        assert any(way[4] in stack and stack[-1] == (file, name) for stack in stacks[name]), name
