"""`tag2box evaluate`: how good the boxes are, where true ones are known."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tag2box.cli.options import AsJson, Split, say
from tag2box.errors import InputError, redacted

if TYPE_CHECKING:
    from tag2box.detection.detections import Detections
    from tag2box.images import ImageSet
    from tag2box.run.corrections import CorrectedBoxes
    from tag2box.run.folder import RunFolder

AP = (
    "Average precision: 1 if every object is found, and no wrong box is surer than a right one.\n"
    "A box is right if it overlaps an object of its class by half or more."
)
CORLOC = (
    "CorLoc: of the photos tagged with a class, the share whose best box is right: it overlaps an object of\n"
    "the class by half or more (at 0.7: by 0.7 or more)."
)
# What the card of a run shows.
FIGURES = ("images", "images_detected", "scores", "corloc")


def evaluate(
    what: Annotated[Path, typer.Argument(metavar="RUN|DETECTIONS", help="A run folder, or boxes in a file.")],
    truth: Annotated[Path, typer.Option(help="The data set with the true boxes.")],
    split: Split = None,
    metric: Annotated[str, typer.Option(help="voc07, voc10 or coco.")] = "voc07",
    as_json: AsJson = False,
) -> None:
    """Compare boxes with the true ones: average precision per class, and its mean.

    For a run, the boxes are those that `detect` found in the images of the truth. Where the truth covers the
    images that the run learned from, CorLoc is given too: the share of them whose best box is right.

    Example: tag2box evaluate runs/VOC2007 --truth VOC2007 --split test
    """
    import tag2box as t2b

    images = _with_truth(what, truth, split)
    answer: dict[str, Any] = {"metric": metric, "truth": redacted(str(truth)), "split": split}
    text, run = [], None
    if (what / "config.toml").is_file():
        from tag2box.run.folder import RunFolder

        run = RunFolder(what)
        images = images.only([name for name in images.classes if name in run.images.classes])
        detections, mined = _newest(run, images), _mined(run, images)
        if detections is None and mined is None:
            raise InputError(
                f"{what} has no boxes in these images: `tag2box detect {truth} --run {what}"
                f"{f' --split {split}' if split else ''}` finds them"
            )
        if detections is not None and run.outdated:
            typer.echo(f"Note: {run.outdated}", err=True)
        if mined is not None:
            shares, told = _corlocs(mined, images)
            answer |= {**shares, **mined.to_dict()}
            text.append(told)
    else:
        detections = t2b.read_detections(what, images)
    if detections is not None:
        scores = t2b.evaluate(detections, images, metric)
        seen = len(detections.ids or images.ids)
        answer |= {"images": len(images), "images_detected": seen, "scores": scores.to_dict()}
        text.append(f"{AP}\n{scores}")
        if seen < len(images):
            text.append(
                f"The detections cover {seen} of {len(images)} images: objects in the others count as missed."
            )
    if run is not None:
        _remember(run, truth, detections, images, answer)
    say(as_json, answer, "\n\n".join(text))


def _corlocs(mined: "CorrectedBoxes", images: "ImageSet") -> tuple[dict[str, Any], str]:
    """CorLoc of the boxes of the photos that the run learned from: for JSON, and in words."""
    from tag2box.evaluation.record import table
    from tag2box.evaluation.scores import corloc

    learned = set(mined.detections.ids or ())
    own = images.take([name in learned for name in images.ids])
    half, close = (corloc(mined.detections, own, overlap) for overlap in (0.5, 0.7))
    columns = {"CorLoc": (half.share, half.mean), "at 0.7": (close.share, close.mean)}
    counted = f"Counted: the {len(own)} photos that the run learned from, of {len(images)} with true boxes."
    lines = [CORLOC, table(half.classes, columns, half.n_images, "photos"), counted, str(mined)]
    return {"corloc": half.to_dict(), "corloc_07": close.to_dict()}, "\n".join(lines)


def _with_truth(what: Path, truth: Path, split: str | None) -> "ImageSet":
    """The images with true boxes; refused where these, or what is to be evaluated, are not there."""
    from tag2box.data.reading import read_images
    from tag2box.runtime.store import existing

    if not what.exists():
        existing(what)  # says where runs are
    images = read_images(truth, split=split)
    if images.truth is None:
        raise InputError(f"{truth} has no true boxes to compare with: give a data set with annotations")
    return images


def _remember(
    run: "RunFolder",
    truth: Path,
    detections: "Detections | None",
    images: "ImageSet",
    answer: dict[str, Any],
) -> None:
    """For the report and the card of the run."""
    from tag2box.run.card import write_card
    from tag2box.run.same_photos import called_as

    figures = {name: answer[name] for name in FIGURES if name in answer}
    if detections is not None:
        learned = called_as(run.images, images, run.contents)
        figures["learned_from"] = len(set(detections.ids or ()) & set(learned.ids))
    run.set_truth(truth, answer["split"], answer["metric"], figures)
    if run.detector_sha256:
        write_card(run)


def _newest(run: "RunFolder", images: "ImageSet") -> "Detections | None":
    """What the run found in these images: in most of them; of equally many, what it found last."""
    from tag2box.run.same_photos import called_as

    known = set(images.ids)
    detected = [(key, called_as(seen, images)) for key, seen in run.detected()]
    fit = [(len(seen), key, seen) for key, seen in detected if set(seen.ids) <= known]
    if not fit:
        return None
    most = max(n for n, _, _ in fit)
    return next(run.detections(key, seen) for n, key, seen in reversed(fit) if n == most)


def _mined(run: "RunFolder", images: "ImageSet") -> "CorrectedBoxes | None":
    """The boxes of the run's own training images, as corrected, where the truth knows all of them."""
    from tag2box.run.corrections import corrected_boxes
    from tag2box.run.same_photos import called_as

    learned = called_as(run.images, images, run.contents)
    if not set(learned.ids) <= set(images.ids) or not run.has_boxes:
        return None
    corrected = corrected_boxes(run)
    return replace(corrected, detections=replace(corrected.detections, ids=learned.ids))
