"""The network of a run: the one that finds boxes in new photos, or learned for an export alone."""

from dataclasses import replace

from tag2box.corrections import read_state
from tag2box.data.photos import changed_photos
from tag2box.detection.detector import Detector
from tag2box.errors import InputError
from tag2box.pipeline import learn
from tag2box.run.folder import RunFolder
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import Run


def with_network(folder: RunFolder, *, workers: int | None = None, progress: Progress = silent) -> Detector:
    """The run's detector, and its network; that is learned now where the windows find boxes in new photos."""
    detector = folder.detector
    if detector.network is not None:
        return detector
    changed = changed_photos(folder.images.paths, folder.contents)
    if gone := [folder.images.ids[i] for i in (*changed.replaced, *changed.missing)]:
        raise InputError(
            f"a network learns from the photos of the run, but {len(gone)} were replaced or are gone: "
            f"{', '.join(gone[:3])}; put them back, or run again where they are now"
        )
    config = replace(folder.config, detect=replace(folder.config.detect, by="network"))
    with folder.store.lock():
        run = Run(folder.store, workers=workers, progress=progress)
        outcome = learn(folder.images, config, run, read_state(folder.folder))
        folder.keep(run)
    return replace(detector, network=outcome.detector.network)
