"""A sub-folder per class: `cat/a.jpg`, `dog/b.jpg`, and `_none/c.jpg` for images without any class."""

from pathlib import Path

from tag2box.data.formats.annotations import SPLITS, Annotation, assemble, choose_split, refuse_split
from tag2box.data.formats.files import Listing, same_content
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.names import first_few

# Names of sub-folders that are no class, in any case.
NO_CLASS = frozenset({"_none", "background", "negative"})
# Names of folders that hold photos of every kind. What is called so is a part of a data set, not a class.
PARTS = SPLITS | {"images", "photos", "pictures", "imgs", "jpegimages", "data", "dataset"}
# How files of tags end.
TAGS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".xml"})


def read(listing: Listing, split: str | None) -> ImageSet:
    """An image is +1 for the classes whose folders hold it and -1 for all others.

    Files of one name in several folders are several images, unless they are the same bytes: then they are one
    image with several tags, named after the first. Files of the same bytes in *one* class folder stay apart.
    """
    parts = {name.split("/")[0] for name in (*listing.names, *listing.skipped) if "/" in name}
    has_splits = bool(parts) and parts <= SPLITS
    if has_splits:
        listing = listing.below(choose_split(split, parts, listing.root))
    root = listing.root
    skipped = dict(listing.skipped)
    skipped.update((name, "in no class folder") for name in listing.names if "/" not in name)
    kinds = _kinds(root, [name for name in listing.names if "/" in name])
    classes = sorted({kind for held in kinds.values() for kind in held if kind.lower() not in NO_CLASS})
    lines = [f"{root / name}: {why}" for name, why in sorted(skipped.items())]
    if kinds and not classes:
        raise InputError(
            f"{root} holds only images without any class, in "
            f"{first_few(sorted({name.split('/')[0] for name in kinds}))}: add a folder of images for each "
            "class, such as cat"
        )
    if not classes:
        raise InputError(
            f"{root} is in no format known here: expected images in one sub-folder per class, a VOC, COCO or "
            f"YOLO data set, or a file of tags beside the images"
            f"{f' (skipped {first_few(lines)})' if lines else ''}"
        )
    _refuse_parts(root, [*kinds], classes)
    if not has_splits:
        refuse_split(split, f"{root} has a folder per class and")
    rows = [Annotation(name, root / name, dict.fromkeys(held, 1)) for name, held in sorted(kinds.items())]
    return assemble(rows, classes, skipped=lines)


def _refuse_parts(root: Path, names: list[str], classes: list[str]) -> None:
    """Refuse the folder above the data: it holds parts, and the classes are further down or in a file."""
    parts = [name for name in classes if name.lower() in PARTS]
    if not parts:
        return
    # Photos right in the part have their tags elsewhere; photos further down are in folders of classes.
    further = {name.split("/")[0] for name in names if name.count("/") > 1}
    part = next((name for name in parts if name in further), parts[0])
    known = part in further or any(path.suffix.lower() in TAGS for path in (root / part).iterdir())
    several = len(parts) > 1
    raise InputError(
        f"{root} holds {', '.join(parts)}: by {'their names parts' if several else 'its name a part'} of a "
        f"data set, not {'classes' if several else 'a class'}; type "
        f"`tag2box run {root / part}{'' if known else ' --tags FILE'}`, or rename what is a class"
    )


def _kinds(root: Path, names: list[str]) -> dict[str, list[str]]:
    """Folders that hold each image, under the first of its names where the same bytes are in several."""
    kinds = {name: [name.split("/")[0]] for name in names}
    for group in same_content([root / name for name in names]):
        same = [names[i] for i in group]
        held = sorted({kinds[name][0] for name in same})
        if len(held) > 1:
            kinds[same[0]] = held
            for name in same[1:]:
                del kinds[name]
    return kinds
