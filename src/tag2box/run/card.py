"""The card of a run: what the detector is, what it learned from, how good it is, and what it is not for.

A `Card` is plain text and tables; `card.md` is made of it here, and the report lays out the same.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tag2box._version import __version__
from tag2box.config import Config
from tag2box.corrections import read_state
from tag2box.data.remote import RemotePath
from tag2box.errors import Tag2BoxError
from tag2box.networks.efficientnet import LICENCE, VARIANTS
from tag2box.runtime.config import settings

if TYPE_CHECKING:
    from tag2box.run.folder import RunFolder

CARD = "card.md"
# Fewer positive photos than this are a start at best (docs/howto/own_photos.md).
FEW = 20
METRICS = {
    "voc07": "AP by the rules of VOC 2007 (11 points of recall), overlap 0.5",
    "voc10": "AP by the rules of VOC 2010 (the area under the curve), overlap 0.5",
    "coco": "AP as pycocotools has it, the mean over overlaps 0.5 to 0.95",
}
METHODS = {
    "two_stream": "object maps, a head of two streams, and an SVM on the boxes found",
    "song2014": "Song et al. 2014: windows that cover the positive photos, then a latent SVM",
}
NOT_FOR = (
    "Decisions about people, their safety or their rights: nobody has tested it for that.",
    "Counting: small, crowded or half hidden objects are often missed, or one box holds several.",
    "Telling an object from what always surrounds it, where no photo showed the surroundings alone.",
    "Photos of another kind than those it learned from: try it on some of them first.",
)
# What Markdown, or HTML inside it, could read as more than text.
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&!])")


@dataclass(frozen=True)
class Section:
    """A heading, sentences, and a table whose first row is its head."""

    title: str
    lines: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Card:
    """What a card says."""

    title: str
    sections: tuple[Section, ...]

    def to_markdown(self) -> str:
        """The card as Markdown; names that are anyone's text are escaped."""
        parts = [f"# {_escaped(self.title)}"]
        for section in self.sections:
            parts.append(f"## {section.title}")
            parts.append("\n".join(f"- {_escaped(line)}" for line in section.lines))
            if section.rows:
                head, *body = section.rows
                rows = (head, ("---",) * len(head), *(tuple(map(_escaped, row)) for row in body))
                parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
        return "\n\n".join(part for part in parts if part) + "\n"


def write_card(run: "RunFolder") -> Path:
    """Write `card.md` into the run folder, and return its path."""
    run.store.write(CARD, card_of(run).to_markdown())
    return run.folder / CARD


def card_of(run: "RunFolder") -> Card:
    """What can be said of a run: the same of the same run, whenever and wherever it is asked."""
    names = ", ".join(run.images.classes)
    return Card(
        f"A detector of {names}",
        (
            _purpose(run),
            _data(run),
            _method(run),
            _settings(run),
            _figures(run),
            _limits(run),
            _licence(run),
        ),
    )


def _purpose(run: "RunFolder") -> Section:
    state = read_state(run.folder)
    said = [state.photo(content) for content in run.contents]
    accepted, whole = sum(len(p.accepted()) for p in said), sum(p.state == "reviewed" for p in said)
    by_whom = "It learned from image tags alone: nobody drew a box."
    if accepted or whole:
        by_whom = (
            f"It learned from image tags, and from what people said of its boxes: {accepted} accepted, "
            f"{whole} photos reviewed as a whole."
        )
    lines = (
        "It finds these objects in photos: boxes, each with its class and a confidence.",
        by_whom,
        f"Made by tag2box {__version__}; the file is detector.npz, SHA-256 {run.detector_sha256}.",
    )
    return Section("What it is", lines)


def _data(run: "RunFolder") -> Section:
    images, found = run.images, run.findings
    head = ("class", "tagged with it", "tagged without", "not known", "boxes found")
    rows = [
        (name, *(str(int((images.tags[:, c] == tag).sum())) for tag in (1, -1, 0)), str(len(found.rows[c])))
        for c, name in enumerate(images.classes)
    ]
    all_of_them = hashlib.sha256("\n".join(sorted(run.contents)).encode()).hexdigest()
    lines = (
        f"{len(images)} photos{_where(images.paths)}, {len(images.classes)} classes.",
        f"SHA-256 of the sorted SHA-256 of the photos: {all_of_them}.",
    )
    return Section("Data", lines, (head, *rows))


def _where(paths: tuple[Path, ...]) -> str:
    """The name of the folder they share; not where it is, which is nobody's business."""
    if any(isinstance(path, RemotePath) for path in paths):
        return ""
    parents = {os.path.dirname(os.path.abspath(path)) for path in paths}
    name = os.path.basename(os.path.commonpath(parents)) if parents else ""
    return f" in the folder {name}" if name else ""


def _method(run: "RunFolder") -> Section:
    config = run.config
    lines = [
        f"{config.method}: {METHODS[config.method]}.",
        f"{config.windows.max_windows} windows a photo at most, by selective search.",
        f"Network: {Path(config.features.network).name}, as it is; precision {config.features.precision}, "
        f"run by {config.features.runtime}.",
    ]
    if run.has("prior"):
        choice = run.result("prior")
        lines.append(f"Prior of the object maps, chosen by {choice.evidence}: {choice.prior:g}.")
    return Section("Method", tuple(lines))


def _settings(run: "RunFolder") -> Section:
    preset = dict(settings(Config.song2014() if run.config.method == "song2014" else Config()))
    rows = [
        (name, str(value), str(preset[name]))
        for name, value in settings(run.config)
        if value != preset[name] and name != "features.network"
    ]
    if not rows:
        return Section("Settings", ("All are the defaults of this method.",))
    return Section("Settings that are not the defaults", (), (("setting", "value", "default"), *rows))


def _figures(run: "RunFolder") -> Section:
    try:
        known = run.figures()
    except Tag2BoxError:  # damaged: as if there were none
        known = None
    if known is None:
        return Section("Figures", ("Not evaluated: tag2box evaluate RUN --truth DATA writes figures here.",))
    scores, corloc = known.get("scores"), known.get("corloc")
    lines, head = [f"Compared with the true boxes of {known['truth']}, after learning."], ["class"]
    if scores:
        lines.append(
            f"{METRICS[scores['metric']]}: on {known['images']} photos, of which the detector saw "
            f"{known['images_detected']}, and learned from {known['learned_from']}."
        )
        head += ["AP", "objects", "detections"]
    if corloc:
        lines.append(
            "CorLoc: the share of the positive photos that it learned from whose box overlaps an object "
            "by half or more."
        )
        head += ["CorLoc", "positive photos"]
    return Section("Figures", tuple(lines), (tuple(head), *_rows(scores, corloc)))


def _rows(scores: dict[str, Any] | None, corloc: dict[str, Any] | None) -> list[tuple[str, ...]]:
    rows = []
    for name in (scores or corloc or {})["classes"]:
        row = [name]
        if scores:
            of_class = scores["classes"][name]
            row += [f"{of_class['ap']:.3f}", str(of_class["n_truth"]), str(of_class["n_detections"])]
        if corloc:
            of_class = corloc["classes"].get(name)
            row += [f"{of_class['corloc']:.3f}", str(of_class["n_images"])] if of_class else ["", ""]
        rows.append(tuple(row))
    mean = ["mean"]
    mean += [f"{scores['mean']:.3f}", "", ""] if scores else []
    mean += [f"{corloc['mean']:.3f}", ""] if corloc else []
    return [*rows, tuple(mean)]


def _limits(run: "RunFolder") -> Section:
    count = {name: len(run.images.positives(name)) for name in run.images.classes}
    lines = list(NOT_FOR)
    if few := [f"{name} ({n})" for name, n in count.items() if n < FEW]:
        lines.append(
            f"Classes of fewer than {FEW} positive photos, of which it knows little: {', '.join(few)}."
        )
    if alone := [name for name in count if not len(run.images.negatives(name))]:
        lines.append(f"Classes that no photo is known to be without: {', '.join(alone)}.")
    return Section("What it is not good for", tuple(lines))


def _licence(run: "RunFolder") -> Section:
    network = run.config.features.network
    lines = ["tag2box is BSD-3-Clause, and claims nothing of what is learned with it. The photos are yours."]
    if network in VARIANTS:
        package = VARIANTS[network].package
        lines.append(
            f"The network is not in detector.npz. Its weights come from the package {package} ({LICENCE}); "
            "they were trained on ImageNet."
        )
    else:
        lines.append(
            f"The network {Path(network).name} is not in detector.npz. It is yours: so is its licence."
        )
    return Section("Licence", tuple(lines))


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text)
