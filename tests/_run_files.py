"""One byte changed in every kind of file that a run folder and the cache hold, and what becomes of it.

The kinds are those that a walk over real folders finds: a file of a new kind is damaged too, and somebody has
to notice, unless it is among the `OUTPUTS`.
"""

import json
import pickle
import re
import time
import warnings
import zipfile
from collections import Counter, defaultdict

import numpy as np
from tests._toys import FAST, make_toys, make_truth

from tag2box import read_images, write_detections
from tag2box.config import Config
from tag2box.corrections.log import read_state
from tag2box.data.remote import place
from tag2box.errors import Tag2BoxError
from tag2box.networks.network import load_network
from tag2box.report.collecting import write_report
from tag2box.review.exchange import import_corrections
from tag2box.review.pictures import THUMBNAIL, small_picture
from tag2box.review.teaching import load_order
from tag2box.run.fitting import detect_run, fit_run
from tag2box.run.folder import RunFolder, mined_windows
from tag2box.runtime.config import read_settings
from tag2box.runtime.files import unchecked

# What is written for others, and never read here: the command that wrote it writes it again.
OUTPUTS = {"run report.html", "run card.md", "run config.toml"}
# Half of its pages are free, or hold what was there before.
SPACIOUS = {"run index.sqlite"}
# A change may fall where nothing is said, as on a space or a date; most do not.
NOTICED = 0.5
NETWORK = "efficientnet-lite0"
KEY = re.compile("[0-9a-f]{8,}")


def make(root):
    """A run with all that a run folder can hold, in `root`/run, beside its toys."""
    toys = root / "toys"
    images = read_images(toys, make_toys(toys, 6))
    fit_run(images, read_settings(Config(), None, FAST), root / "run", workers=1)
    run = RunFolder(root / "run")
    detect_run(run, images, workers=1)
    run.set_truth(make_truth(toys, root / "truth"), "test", "voc07")
    load_order(run)
    _picture(run)
    (boxes,) = write_detections(mined_windows(run), images, root / "boxes.json", "coco-instances")
    import_corrections(run, boxes)
    with zipfile.ZipFile(root / "photos.zip", "w") as archive:
        archive.write(images.paths[0], "photo.png")
    _remote(root)
    write_report(run.folder)


def kind(path, root):
    """Files of one kind are written and read by the same lines of code."""
    where, *folders, name = path.relative_to(root).parts
    if folders[:1] == ["arrays"]:
        return "run arrays *.bin"
    if len(folders) == 2 and (key := KEY.search(folders[1])):
        return f"{where} {'unfinished' if key.start() else 'finished'} *{path.suffix}"
    return " ".join([where, *folders[:1], KEY.sub("*", f"*{path.suffix}" if folders else name)])


def kinds(root):
    """The files below `root`/run and `root`/cache that hold anything, by their kind."""
    files = defaultdict(list)
    for path in sorted(root.glob("run/**/*")) + sorted(root.glob("cache/**/*")):
        if path.is_file() and path.stat().st_size:
            files[kind(path, root)].append(path)
    return files


def _picture(run):
    return small_picture(run.images.paths[0], THUMBNAIL, run.folder / "review" / "pictures")


def _network(root):
    network = load_network(NETWORK)
    return network.path.read_bytes(), network.int8.read_bytes()


def _remote(root):
    return place(f"zip://photo.png::{root / 'photos.zip'}").open("rb").read()


def _measured(root):
    """What was measured of this machine before."""
    try:
        return [unchecked(json.loads(path.read_bytes())) for path in sorted(root.glob("cache/pr*-*.json"))]
    except ValueError:
        raise Tag2BoxError("it is measured again") from None


def _run(root):
    """All that is read of a run."""
    run = RunFolder(root / "run")
    return (
        run.keys,
        run.images,
        run.config,
        [run.result(stage) for stage in run.keys if run.has(stage)],
        run.detector,
        run.outdated,
        [(images, run.detections(key, images)) for key, images in run.detected()],
        run.truths(),
        read_state(run.folder).photos,
        load_order(run),
        _picture(run),
    )


def _report(root):
    return write_report(root / "run").read_bytes()


# By the start of a kind: what reads it, where that is not `_run`, as it takes long.
READERS = {
    "run events.jsonl": _report,
    "cache photos": _remote,
    "cache precision": _measured,
    "cache processor": _measured,
    "cache": _network,
}


def _reader(name):
    return next((read for start, read in READERS.items() if name.startswith(start)), _run)


def _content(read, root):
    """What was read, as bytes; and whether something was said."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            return pickle.dumps(read(root)), bool(said)
        except Tag2BoxError:
            return b"", True


def _outcome(read, root, right):
    try:
        content, said = _content(read, root)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if said:
        return "said"
    return "right" if content == right else "silent"


def change(data, rng):
    """One byte, made another."""
    at = int(rng.integers(len(data)))
    return data[:at] + bytes([data[at] ^ int(rng.integers(1, 256))]) + data[at + 1 :], at


def trials(name, files, root, count, seconds):
    """(file, place, outcome) of `count` changes in files of one kind, or of as many as fit into `seconds`."""
    read, rng, end = _reader(name), np.random.default_rng(0), time.monotonic() + seconds
    right, said = _content(read, root)
    assert right
    assert not said
    for _ in range(count):
        path = files[rng.integers(len(files))]
        whole = path.read_bytes()
        damaged, at = change(whole, rng)
        path.write_bytes(damaged)
        outcome = _outcome(read, root, right)
        made_again = path.is_file() and path.read_bytes() == whole
        path.write_bytes(whole)
        yield path.relative_to(root), at, "made again" if outcome == "right" and made_again else outcome
        if time.monotonic() > end:
            return


def check(root, count, seconds=60):
    """Change bytes in every kind of file; returns the table of what became of them."""
    wrong, table = [], []
    for name, files in kinds(root).items():
        ends = Counter()
        for path, at, outcome in trials(name, files, root, count, seconds):
            ends[outcome] += 1
            if outcome not in {"right", "said", "made again"}:
                wrong.append((str(path), at, outcome))
        table.append(f"{name}: {', '.join(f'{n} {end}' for end, n in ends.most_common())}")
        if name not in OUTPUTS | SPACIOUS and ends["right"] > NOTICED * ends.total():
            wrong.append((name, "nobody reads it, or nobody notices", ends))
    assert wrong == [], "\n".join(map(str, wrong))
    return table
