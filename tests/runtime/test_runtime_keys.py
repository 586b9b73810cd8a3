"""A key follows from its call: from the stage, its version, and everything that it is given."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tag2box.runtime.keys import call_key
from tag2box.runtime.stages import Run, stage
from tag2box.runtime.store import Store


@dataclass(frozen=True)
class Pair:
    a: object
    b: object


@dataclass(frozen=True)
class Twin:
    a: object
    b: object


ARRAYS = [
    *(np.zeros(3), np.zeros(3, np.float32), np.zeros(4), np.zeros((3, 1)), np.array([0, 0, 1.0])),
    *(np.empty((0, 4)), np.empty((0, 5)), np.zeros(3, np.int64), np.zeros(3, np.bool_)),
]
PLAIN = [
    None,
    True,
    False,
    0,
    1,
    2,
    "",
    "1",
    "None",
    0.5,
    (),
    (0,),
    (1,),
    ((1,),),
    {"a": 1},
    {"b": 1},
    (None,),
]
RECORDS = [Pair(1, 2), Pair(2, 1), Twin(1, 2), Pair((1, 2), None), Pair(None, (1, 2)), Pair(Pair(1, 2), None)]
MADE_OF = [*ARRAYS, *PLAIN, *RECORDS]


def test_different_calls_have_different_keys():
    calls = [
        (name, version, given)
        for name in ("a", "b")
        for version in (1, 2)
        for given in ([], *([each] for each in MADE_OF), [1, 2], [2, 1], [(1, 2)], [1, 2, None])
    ]
    assert len({call_key(*call) for call in calls}) == len(calls)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_equal_values_have_equal_keys(value):
    """In whatever order a dictionary was filled, as a list or a tuple, a whole number as a float."""

    def written_otherwise(value):
        if isinstance(value, tuple):
            return [written_otherwise(each) for each in value]
        if isinstance(value, dict):
            return {name: written_otherwise(value[name]) for name in reversed(value)}
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
            return np.float64(value)
        return value

    assert call_key("a", 1, [value]) == call_key("a", 1, [written_otherwise(value)])


def test_arrays_count_by_their_content(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "a.npy", array)
    same = [array.copy(), np.asfortranarray(array), np.load(tmp_path / "a.npy", mmap_mode="r"), array[:, ::1]]
    assert len({call_key("a", 1, [each]) for each in same}) == 1


@pytest.mark.parametrize(
    "value",
    [
        *(Path("photo.jpg"), object(), {1, 2}, print, b"bytes", Pair, np.array([{}, None], object)),
        *((1, [Path("x")]), {"a": Path("x")}, Pair(1, Path("x")), np.array(["a"], object)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_no_key_can_say_is_refused(value):
    with pytest.raises(TypeError, match="a stage cannot be given a"):
        call_key("a", 1, [value])


@stage("fitted", version=1)
def fit_items(factor: float) -> dict[str, object]:
    return {"a": np.arange(9) * factor, "n": 3}


@stage("grown", version=1)
def grow(fitted: dict[str, object], by: int) -> dict[str, object]:
    return {"n": fitted["n"] + by}


def test_what_a_stage_made_counts_by_its_key(tmp_path):
    """Not by its content, which may be large; and that of another stage with the same content is another."""
    runs = [Run(Store(tmp_path), workers=1) for _ in range(3)]
    keys = []
    for run, factor in zip(runs, (1.0, 2.0, 1.0), strict=True):
        run(grow, run(fit_items, factor), 1)
        keys.append(run.keys["grown"])
    assert keys[0] == keys[2] != keys[1]
    assert runs[0](grow, {"n": 5}, 1) == runs[1](grow, {"n": 5}, 1)
