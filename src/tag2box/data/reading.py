"""`read_images`: which format images and tags come in, and its reader."""

from collections.abc import Sequence
from pathlib import Path

from tag2box.data.formats import coco, cvat, folders, json_lines, labelstudio, tables, voc, yolo
from tag2box.data.formats.annotations import choose_split, refuse_split
from tag2box.data.formats.files import SUFFIXES, list_images
from tag2box.data.formats.parsing import read_json
from tag2box.data.formats.tables import join_rows
from tag2box.data.remote import RemotePath, place
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.runtime.checks import check_choice

# A file of this name is taken for the tags of the images in its folder.
TAG_FILES = ("tags.csv", "tags.tsv", "tags.jsonl", "tags.json", "metadata.csv")
TABLES = frozenset({".csv", ".tsv", ".txt"})
RECORDS = frozenset({".json", ".jsonl", ".ndjson"})


def read_images(
    path: str | Path,
    tags: str | Path | None = None,
    split: str | None = None,
    *,
    classes: Sequence[str] | None = None,
    on_error: str = "fail",
) -> ImageSet:
    """Read images and their tags; the format is recognized.

    Parameters
    ----------
    path : str or Path
        A folder with one sub-folder per class; the PASCAL VOC devkit, or its XML alone as LabelImg writes
        it; a COCO, YOLO, CVAT or Hugging Face data set; a folder of images, together with `tags`; or an
        annotation file, with the images in its folder. Folders per class, XML, and images with `tags` may
        also be in a zip or tar file, or behind an address such as s3://bucket/photos (by fsspec).
    tags : str or Path, default=None
        A CSV, JSON Lines, COCO, CVAT or Label Studio file whose names are relative to `path`.
    split : str, default=None
        A part of the data, such as "train", if the format has parts. By default "trainval" or else "train".
    classes : sequence of str, default=None
        The classes to keep, in this order. None keeps all.
    on_error : {"fail", "skip"}, default="fail"
        What to do about missing files that `tags` names. Those that are skipped are listed in
        `ImageSet.skipped`.

    Returns
    -------
    ImageSet
        The images and tags. True boxes, if the format has them, are in `truth`: for evaluation only.

    Notes
    -----
    Images are not decoded here. Symbolic links that lead out of the folder are not followed. Memory: some
    hundred bytes per image and box; five times the file for JSON.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> import tag2box as t2b
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, color in ("cat", "orange"), ("background", "gray"):
    ...     (folder / name).mkdir()
    ...     Image.new("RGB", (32, 32), color).save(folder / name / "1.png")
    >>> images = t2b.read_images(folder)
    >>> images.ids, images.classes, images.tags.tolist()
    (('background/1', 'cat/1'), ('cat',), [[-1], [1]])
    """
    check_choice("on_error", on_error, ("fail", "skip"))
    try:
        images = _read(place(path), None if tags is None else place(tags), split, skip=on_error == "skip")
    except OSError as error:  # a folder that may not be opened, a name that is too long
        raise InputError(f"{error.filename or path} cannot be read: {error.strerror}") from error
    return images if classes is None else images.only(classes)


def _read(path: Path, tags: Path | None, split: str | None, *, skip: bool) -> ImageSet:
    """The images of `path`, by the first format that it is in. `skip` leaves out files that are missing."""
    if tags is None and path.is_file():
        path, tags = path.parent, path
    if not path.is_dir():
        raise InputError(f"{path} is not a folder: give the one that holds the images")
    if tags is not None:
        return _read_tags(path, tags, split, skip=skip)
    if not isinstance(path, RemotePath):  # these are looked for in many places
        if devkit := voc.find_devkit(path):
            return voc.read(devkit, split)
        if description := yolo.find_yaml(path):
            return yolo.read(description, split, path)
        if annotations := coco.find_files(path):
            return coco.read_folder(path, annotations, split)
        if (path / cvat.FILE).is_file():
            return cvat.read(path, path / cvat.FILE, split)
    for name in TAG_FILES:
        if (path / name).is_file():
            return _read_tags(path, path / name, split, skip=skip)
    if not isinstance(path, RemotePath) and (metadata := json_lines.find_metadata(path)):
        return _read_metadata(path, metadata, split, skip=skip)
    files = list_images(path, SUFFIXES | voc.ANNOTATIONS)
    images = files.only(SUFFIXES)
    if annotations := voc.find_annotations(files):
        return voc.read_annotations(images, annotations, split)
    if not isinstance(path, RemotePath) and (path / "images").is_dir() and (path / "labels").is_dir():
        raise InputError(f"{path} looks like YOLO, but has no data.yaml: add one with names: [cat, dog]")
    return folders.read(images, split)


def _read_tags(root: Path, tags: Path, split: str | None, *, skip: bool) -> ImageSet:
    if not tags.is_file():
        raise InputError(f"{tags} is not a file: give a .csv, .jsonl or .json file of tags")
    kind = tags.suffix.lower()
    if kind in {".yaml", ".yml"}:
        return yolo.read(tags, split)
    if kind == ".xml":
        return cvat.read(root, tags, split)
    if kind == ".json":
        content = read_json(tags)
        if coco.is_instances(content) or labelstudio.is_export(content):
            refuse_split(split, tags)
        if coco.is_instances(content):
            return coco.read(root, tags, content)
        if labelstudio.is_export(content):
            return labelstudio.read(root, tags, content, skip=skip)
    if kind not in TABLES | RECORDS:
        raise InputError(
            f"{tags} is no file of tags: expected .csv, .tsv, .jsonl, or .json with a list of records"
        )
    rows = tables.read_rows(tags, split) if kind in TABLES else json_lines.read_rows(tags, split)
    return join_rows(root, tags, list(rows), skip=skip)


def _read_metadata(root: Path, metadata: dict[str, Path], split: str | None, *, skip: bool) -> ImageSet:
    """Hugging Face's image folder: one file for all, or one in the folder of each split."""
    if "" not in metadata:
        root, split = root / choose_split(split, metadata, root), None
        metadata = {"": root / json_lines.METADATA}
    return _read_tags(root, metadata[""], split, skip=skip)
