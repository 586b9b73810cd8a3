"""The demo: make scenes, learn from their tags, detect in unseen ones, compare with the truth, report.

Beside it stands negative mining (Siva et al. 2012), on the same windows and features.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from tag2box.config import Config
from tag2box.cover.compared import compare
from tag2box.cover.mining import negative_mining
from tag2box.demo.scenes import make_scenes
from tag2box.detection.detections import Detections
from tag2box.evaluation.scores import CorLoc, Scores, corloc, evaluate
from tag2box.images import ImageSet
from tag2box.neighbors.search import group_neighbors
from tag2box.report.collecting import first_boxes, window_detections, write_report
from tag2box.run.card import write_card
from tag2box.run.folder import RunFolder, detect_run, fit_run, mined_windows
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.search import WindowsConfig

# Objects are large here: 200 windows miss none, and save a third of the time.
CONFIG = Config(windows=WindowsConfig(max_windows=200))


@dataclass(frozen=True)
class Demo:
    """What the demo found: CorLoc on the scenes learned from, AP on the unseen ones, and where things are."""

    first: CorLoc
    learned: CorLoc
    rival: CorLoc
    scores: Scores
    report: Path
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            "corloc": {
                "first windows": self.first.to_dict(),
                "learned": self.learned.to_dict(),
                "negative mining": self.rival.to_dict(),
            },
            "scores": self.scores.to_dict(),
            "report": str(self.report),
            "seconds": round(self.seconds, 1),
        }

    def __str__(self) -> str:
        columns = (self.first.share, self.learned.share, self.rival.share, self.scores.ap)
        means = (self.first.mean, self.learned.mean, self.rival.mean, self.scores.mean)
        width = max(map(len, (*self.scores.classes, "mean")))
        lines = [f"{'':{width}}   first  learned  negative mining   AP07"]
        for name, values in (
            *zip(self.scores.classes, zip(*columns, strict=True), strict=True),
            ("mean", means),
        ):
            a, b, c, ap = values
            lines.append(f"{name:{width}}   {a:5.2f}  {b:7.2f}  {c:15.2f}  {ap:5.2f}")
        return "\n".join(
            [
                "Learned from tags alone. CorLoc of the boxes in the scenes learned from, AP in unseen ones:",
                "",
                *lines,
                "",
                f"{self.seconds:.0f} s. Look at it: {self.report}",
            ]
        )


def run_demo(
    out: str | Path, *, workers: int | None = None, progress: Progress = silent, seed: int = 0
) -> Demo:
    """Scenes, run and report below `out`; a second call computes nothing anew but the scenes and the page."""
    started = monotonic()
    root = Path(out)
    scenes = make_scenes(root / "scenes", seed=seed, progress=progress)
    fit_run(replace(scenes.train, truth=None), CONFIG, root / "run", workers=workers, progress=progress)
    run = RunFolder(root / "run")
    detections = detect_run(run, scenes.test, workers=workers, progress=progress)
    rival = corloc(_rival(run, scenes.train), scenes.train)
    learned, scores = corloc(mined_windows(run), scenes.train), evaluate(detections, scenes.test)
    figures = {
        "images": len(scenes.test),
        "images_detected": len(scenes.test),
        "learned_from": 0,
        "scores": scores.to_dict(),
        "corloc": learned.to_dict(),
    }
    run.set_truth(root / "scenes/test/truth.json", None, scores.metric, figures)
    write_card(run)
    page = write_report(
        run.folder,
        truths=(scenes.train, scenes.test),
        corlocs={"negative mining": rival},
        title="The tag2box demo",
    )
    return Demo(
        first=corloc(first_boxes(run), scenes.train),
        learned=learned,
        rival=rival,
        scores=scores,
        report=page,
        seconds=monotonic() - started,
    )


def _rival(run: RunFolder, images: ImageSet) -> Detections:
    """The windows that negative mining takes, on the windows and features of the run."""
    described = run.result("described")
    compared = compare((described, np.ones(len(described), np.bool_)), run.config.cover.dimensions)
    everything = np.arange(len(compared.X))
    table = group_neighbors(compared.X, compared.offsets, everything, len(images))
    covers = tuple(negative_mining(table, images.positives(name)) for name in images.classes)
    return window_detections([cover.first()[1] for cover in covers], described.windows, images)
