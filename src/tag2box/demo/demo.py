"""The demo: make scenes, learn from their tags, detect in unseen ones, compare with the truth, report."""

from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from tag2box.config import Config
from tag2box.demo.scenes import make_scenes
from tag2box.evaluation.record import table
from tag2box.evaluation.scores import CorLoc, Scores, corloc, evaluate
from tag2box.exports.pictures import write_pictures
from tag2box.report.collecting import write_report
from tag2box.run.card import write_card
from tag2box.run.fitting import detect_run, fit_run
from tag2box.run.folder import RunFolder, mined_windows
from tag2box.runtime.progress import Progress, silent

# Objects are large here: 200 windows miss none, and save a third of the time.
CONFIG = Config(windows=replace(Config().windows, max_windows=200))


@dataclass(frozen=True)
class Demo:
    """What the demo found: CorLoc on the scenes learned from, AP on the unseen ones, and where things are."""

    learned: CorLoc
    scores: Scores
    report: Path
    page: Path
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            "corloc": {"learned": self.learned.to_dict()},
            "scores": self.scores.to_dict(),
            "report": str(self.report),
            "page": str(self.page),
            "seconds": round(self.seconds, 1),
        }

    def __str__(self) -> str:
        columns = {
            "CorLoc": (self.learned.share, self.learned.mean),
            "AP07": (self.scores.ap, self.scores.mean),
        }
        return "\n".join(
            [
                "Learned from tags alone: nobody drew a box.",
                "CorLoc: of the scenes learned from, the share whose best box is right.",
                "AP07: average precision in unseen scenes; 1 is perfect.",
                "",
                table(self.scores.classes, columns, self.scores.n_truth, "objects"),
                "",
                f"{self.seconds:.0f} s. Look at the boxes in unseen scenes: {self.page}",
                f"and at the report: {self.report}",
            ]
        )


def run_demo(
    out: str | Path, *, workers: int | None = None, progress: Progress = silent, seed: int = 0
) -> Demo:
    """Scenes, run, pages below `out`; a second call computes nothing anew but the scenes and the pages."""
    started, root = monotonic(), Path(out)
    scenes = make_scenes(root / "scenes", seed=seed, progress=progress)
    fit_run(replace(scenes.train, truth=None), CONFIG, root / "run", workers=workers, progress=progress)
    run = RunFolder(root / "run")
    detections, _, _ = detect_run(run, scenes.test, workers=workers, progress=progress)
    page = root / "boxes.html"
    write_pictures(detections.above(), scenes.test, page, workers=workers, progress=progress)
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
    report = write_report(run.folder, truths=(scenes.train, scenes.test), title="The tag2box demo")
    return Demo(learned, scores, report, page, monotonic() - started)
