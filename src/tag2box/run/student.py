"""The student of a run: learned when it is first asked for, and kept in the run folder."""

from dataclasses import replace

import numpy as np

from tag2box.corrections import read_state
from tag2box.corrections.record import collect
from tag2box.description.photos import Photos, hash_photos
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.images import ImageSet, known_tags
from tag2box.run.corrections import contents_now
from tag2box.run.folder import RunFolder
from tag2box.runtime.files import content_hash
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import Run
from tag2box.student.detecting import detect_by_student
from tag2box.student.learning import learn_student
from tag2box.student.lessons import Teacher, find_lessons
from tag2box.student.maps import see_photos
from tag2box.student.record import Student
from tag2box.training.known import Known


def learned_student(folder: RunFolder, *, workers: int | None = None, progress: Progress = silent) -> Student:
    """The student of the run's detector, learned now or before."""
    with folder.store.lock():
        return _learned(
            folder, Run(folder.store, workers=workers, progress=progress, note_key=folder.note_student)
        )


def detect_student(
    folder: RunFolder, images: ImageSet, *, workers: int | None = None, progress: Progress = silent
) -> Detections:
    """What the run's student finds in `images`, kept in the run folder, going on where it stopped."""
    with folder.store.lock():

        def remember(name: str, key: str) -> None:
            if name == "detections":
                folder.add_detections(key, images, student=True)
            else:
                folder.note_student(name, key)

        run = Run(folder.store, workers=workers, progress=progress, note_key=remember)
        student = _learned(folder, run)
        photos: Photos = hash_photos(images, progress=progress)
        least = folder.config.detect.min_score
        return replace(run.per_photo(detect_by_student, photos, student, least), ids=images.ids)


def _learned(folder: RunFolder, run: Run) -> Student:
    settings, images = folder.config.student, folder.images
    if not len(images):
        raise InputError(f"{folder.folder} has no photos to learn from")
    photos = Photos(images.paths, folder.contents)
    teacher = _teacher(folder)
    lessons = run(find_lessons, teacher)
    if len(photos) > settings.photos:
        drawn = np.random.default_rng(settings.seed).permutation(len(photos))[: settings.photos]
        rows = np.sort(drawn)
        photos, lessons = photos.take(rows.tolist()), lessons.take(rows)
    maps = run.later(see_photos, photos, settings.side)
    reliability = np.array([sure.mean() if len(sure) else 1.0 for sure in folder.findings.confidence])
    student = run(learn_student, maps, lessons, images.classes, reliability, settings)
    run.drop(maps)
    return student


def _teacher(folder: RunFolder) -> Teacher:
    tags = known_tags(folder.images.tags, folder.config.unknown)
    state = read_state(folder.folder)
    corrections = collect(state, folder.images, contents_now(folder, state))
    if corrections is not None:
        corrections = replace(corrections, tags=known_tags(corrections.tags, folder.config.unknown))

    def known() -> Known:
        objectness = folder.result("competition") if "competition" in folder.keys else None
        return Known(folder.result("described"), tags, objectness)

    return Teacher(content_hash(folder.detector_file), folder.detector, known, corrections)
