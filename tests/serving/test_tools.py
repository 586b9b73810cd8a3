"""The detector inside CVAT and autodistill, by their own packages; and the line where they are missing."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tag2box import InputError
from tag2box.run.folder import RunFolder
from tag2box.serving.autodistill_model import base_model
from tag2box.serving.cvat_function import create


@pytest.fixture(scope="module")
def run(review_run):
    return RunFolder(review_run)


@pytest.fixture(scope="module")
def found(run):
    return run.detector.detect(run.images.paths[0])


def test_cvat_gets_the_boxes_of_the_detector(run, found):
    aa = pytest.importorskip("cvat_sdk.auto_annotation", reason="pip install cvat-sdk")
    function = create(str(run.folder), min_score=0.2)
    assert [label.name for label in function.spec.labels] == list(run.images.classes)
    image = Image.open(run.images.paths[0])
    for asked, least in ((None, 0.2), (0.0, 0.0), (1.0, 1.0)):
        shapes = function.detect(SimpleNamespace(conf_threshold=asked), image)
        kept = found[found.score >= least]
        assert [(s.label_id, *s.points, s.score) for s in shapes] == [
            (label, *map(float, box), score)
            for label, box, score in zip(kept.label, kept.xyxy, kept.score, strict=True)
        ]
        assert all(s.type.value == "rectangle" and s.frame == 0 for s in shapes)
    assert isinstance(function.spec, aa.DetectionFunctionSpec)


def test_cvat_itself_takes_what_the_function_gives(run):
    """By the part of its driver that checks and renumbers the boxes for a task."""
    driver = pytest.importorskip("cvat_sdk.auto_annotation.driver", reason="pip install cvat-sdk")
    common = pytest.importorskip("cvat_cli._internal.common", reason="pip install cvat-cli")
    loader = common.FunctionLoader("tag2box.serving.cvat_function", None, {"run": str(run.folder)})
    function = loader.load()
    labels = [
        SimpleNamespace(id=100 + c, name=name, type="any", attributes=[], sublabels=[])
        for c, name in enumerate(run.images.classes)
    ]
    mapper = driver._AnnotationMapper(
        SimpleNamespace(info=lambda *_: None),
        function.spec.labels,
        labels,
        allow_unmatched_labels=False,
        conv_mask_to_poly=False,
    )
    shapes = function.detect(SimpleNamespace(conf_threshold=0.0), Image.open(run.images.paths[0]))
    assert shapes
    before = [shape.label_id for shape in shapes]
    mapper.validate_and_remap(shapes, 7)
    assert [(shape.label_id, shape.frame) for shape in shapes] == [(100 + label, 7) for label in before]


def test_autodistill_labels_a_folder(run, found, tmp_path):
    pytest.importorskip("autodistill.detection", reason="pip install autodistill roboflow")
    model = base_model(run.folder, min_score=0.1)
    kept = found[found.score >= 0.1]
    path = str(run.images.paths[0])
    for given in (path, Image.open(path), np.asarray(Image.open(path))[..., ::-1]):
        boxes = model.predict(given)
        assert np.array_equal(boxes.xyxy, kept.xyxy)
        assert boxes.class_id.tolist() == kept.label.tolist()
    assert model.ontology.classes() == list(run.images.classes)
    folder = str(run.images.paths[0].parent)
    dataset = model.label(folder, extension=".png", output_folder=str(tmp_path / "out"))
    assert len(dataset) == len(run.images)
    assert (tmp_path / "out/data.yaml").is_file()


def test_an_ontology_chooses_and_renames_classes(run, found):
    pytest.importorskip("autodistill.detection", reason="pip install autodistill roboflow")
    model = base_model(run.folder, {"thing": "gadget"}, min_score=0.0)
    boxes = model.predict(str(run.images.paths[0]))
    assert model.ontology.classes() == ["gadget"]
    assert len(boxes) == (found.label == run.images.classes.index("thing")).sum() > 0
    assert set(boxes.class_id.tolist()) == {0}
    with pytest.raises(InputError, match="no class 'nothing' here"):
        base_model(run.folder, {"nothing": "x"})


@pytest.mark.parametrize(("call", "package"), [(create, "cvat_sdk"), (base_model, "autodistill.detection")])
def test_without_the_package_it_is_one_line(run, monkeypatch, call, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r'pip install "tag2box\[(cvat|autodistill)\]"'):
        call(str(run.folder))
