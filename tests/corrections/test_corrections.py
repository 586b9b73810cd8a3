"""Corrections: the format of events, the log that loses nothing, and what training is told."""

import json
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests._events import BOX, box, content_of, random_event, reviewed, tag

from tag2box import ImageSet, InputError
from tag2box.corrections import CorrectionLog, State, check_event, check_inside, collect, read_state
from tag2box.errors import Tag2BoxError
from tag2box.runtime.files import checked_json

CONTENTS = [*map(content_of, "abcd")]
A = CONTENTS[0]
# Appends a stream of events that depends on the seed alone, and says after each that it is saved.
WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from _events import random_event
from tag2box.corrections.log import CorrectionLog
log = CorrectionLog(sys.argv[2])
for k in range(int(sys.argv[4]), int(sys.argv[5])):
    event = random_event(f"{sys.argv[3]}-{k}")
    log.append([event])
    print(event["id"], flush=True)
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"set": "all"}, "sets a box, a tag or a photo"),
        ({"xyxy": [1, 2, 3]}, "xyxy"),
        ({"xyxy": [1, 2, float("nan"), 4]}, "xyxy"),
        ({"xyxy": [1, 2, 10**400, 4]}, "xyxy"),
        ({"xyxy": [1, 2, 10**5000, 4]}, "xyxy"),
        ({"time": 10**400}, "time"),
        ({"xyxy": [3, 2, 1, 4]}, "x2 > x1"),
        ({"xyxy": "1234"}, "xyxy"),
        ({"state": "good"}, "accepted, rejected, open"),
        ({"photo": "a\nb"}, "control character"),
        ({"photo": 3}, "is no text"),
        ({"class": "x" * 2000}, "more than 1000 letters"),
        ({"sha256": "9F" * 32}, "64 digits"),
        ({"sha256": ["a"]}, "sha256"),
        ({"colour": 1}, "has no 'colour'"),
        ({"time": "now"}, "time"),
        ({"random": 1}, "random"),
        ({"found": {"class": "dog"}}, "class and the xyxy"),
    ],
)
def test_what_is_no_event_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        check_event({**BOX, "state": "accepted", **change})


@pytest.mark.parametrize("missing", ["id", "photo", "sha256", "box", "class", "xyxy", "state"])
def test_an_event_says_everything(missing):
    event = {**BOX, "state": "accepted"}
    with pytest.raises(InputError, match=f"needs '{missing}'"):
        check_event({key: value for key, value in event.items() if key != missing})
    with pytest.raises(InputError, match="tag"):
        check_event(tag("a", "dog", True))


def test_the_last_event_about_a_thing_wins():
    first, second = box(state="rejected"), box(xyxy=(5, 5, 9, 9))
    state = State([first, second, tag("a", "cat", 1), tag("a", "cat", -1), reviewed()])
    (only,) = state.photo(A).accepted()
    assert (only.xyxy, state.photo(A).tags, state.photo(A).state) == (
        (5, 5, 9, 9),
        {"cat": -1},
        "reviewed",
    )
    undone = [box(state="open"), tag("a", "cat", None), reviewed(state="open")]
    assert State([first, second, tag("a", "cat", 1), reviewed(), *undone]).photos == {}


def test_an_event_read_twice_counts_once():
    accepted, rejected = box(), box(state="rejected")
    state = State([accepted, rejected])
    assert state.apply(accepted) is False
    assert [b.state for b in state.photo(A).boxes.values()] == ["rejected"]


def test_the_log_gives_back_what_was_appended(tmp_path):
    log, other = CorrectionLog(tmp_path), CorrectionLog(tmp_path)
    events = [random_event(str(k)) for k in range(50)]
    log.append(events[:20])
    assert list(other.read_new()) == events[:20]
    log.append(events[20:])
    assert list(other.read_new()) == events[20:]
    assert list(other.read_new()) == []
    assert read_state(tmp_path).photos == State(events).photos


def test_nothing_of_a_batch_is_written_where_one_is_wrong(tmp_path):
    with pytest.raises(InputError):
        CorrectionLog(tmp_path).append([box(), {**box(), "state": "good"}])
    assert not (tmp_path / "corrections.jsonl").exists()


def test_lines_that_are_damaged_are_left_out_and_named(tmp_path):
    log = CorrectionLog(tmp_path)
    log.append([box(name="1"), box(name="2")])
    file = tmp_path / "corrections.jsonl"
    first, second = file.read_bytes().splitlines(keepends=True)
    plain = json.dumps(box(name="3")).encode()  # without its checksum nobody knows what it said
    file.write_bytes(first + second.replace(b"30", b"31") + b"[]\n\xff\n\n" + plain + b"\n" + first[:40])
    log.append([box(name="4")])
    reader = CorrectionLog(tmp_path)
    assert [event["box"] for event in reader.read_new()] == ["1", "4"]
    assert reader.damaged == [2, 3, 4, 6, 7]
    with pytest.warns(UserWarning, match=r"5 of 8 lines are damaged and left out \(2, 3, 4, 6, 7\)"):
        read_state(tmp_path)


def test_a_number_without_bounds_is_a_damaged_line(tmp_path):
    """M1 of a review: with a right checksum it ended every command that reads corrections."""
    events = [{**box(), "xyxy": [1, 2, 10**400, 4]}, {**box(), "time": -(10**400)}]
    (tmp_path / "corrections.jsonl").write_text("".join(map(checked_json, events)))
    with pytest.warns(UserWarning, match="2 of 2 lines are damaged"):
        assert read_state(tmp_path).photos == {}


def test_a_line_that_is_being_written_is_damaged_until_it_is_whole(tmp_path):
    log, file = CorrectionLog(tmp_path), tmp_path / "corrections.jsonl"
    log.append([box(name="1"), box(name="2")])
    data = file.read_bytes()
    file.write_bytes(data[:-30])
    assert [event["box"] for event in log.read_new()] == ["1"]
    assert log.damaged == [2]
    file.write_bytes(data)
    assert [event["box"] for event in log.read_new()] == ["2"]
    assert log.damaged == []


def changed(line, every):
    """The line with one byte another, for every so many bytes."""
    for at in range(0, len(line), every):
        for byte in {line[at] ^ 1, line[at] ^ 0x20, ord("\n"), ord(" "), ord("0")} - {line[at]}:
            yield line[:at] + bytes([byte]) + line[at + 1 :]


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.torture)])
def test_no_byte_of_a_line_changes_silently(tmp_path, every):
    """Edited or cut anywhere, a line says the same or is named; those beside it say what they said."""
    events = [
        box(name="1"),
        box(name="2", found={"class": "cat", "xyxy": [1, 2, 3, 4]}, run="r"),
        tag("a", "b", 1),
    ]
    CorrectionLog(tmp_path).append(events)
    file = tmp_path / "corrections.jsonl"
    first, line, last = file.read_bytes().splitlines(keepends=True)
    cuts = [line[:at] + end for at in range(1, len(line) - 1, every) for end in (b"", b"\n")]
    for damage in [*changed(line, every), *cuts]:
        file.write_bytes(first + damage + last)
        log = CorrectionLog(tmp_path)
        said = list(log.read_new())
        assert said == events or (log.damaged and set(log.damaged) <= {2, 3}), damage
        assert all(event in events for event in said)
        assert events[0] in said
        assert events[2] in said or not damage.endswith(b"\n")
    for at in range(1, len(last) - 1, every):  # the end of the file is lost
        file.write_bytes(first + line + last[:at])
        log = CorrectionLog(tmp_path)
        assert list(log.read_new()) == events[:2]
        assert log.damaged == [3]


@pytest.mark.parametrize("use", [lambda log: log.append([box()]), lambda log: list(log.read_new())])
def test_a_link_is_not_followed(tmp_path, use):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("somebody's\n")
    (tmp_path / "corrections.jsonl").symlink_to(elsewhere)
    with pytest.raises(Tag2BoxError, match="symbolic link"):
        use(CorrectionLog(tmp_path))
    assert elsewhere.read_text() == "somebody's\n"


@pytest.mark.parametrize("xyxy", [(100, 0, 120, 20), (0, 80, 9, 90), (-9, 0, 0, 9), (5, -9, 9, -1)])
def test_a_box_outside_its_photo_is_refused(xyxy):
    assert check_inside("a", (-5, -5, 1, 1), (100, 80)) == (0, 0, 1, 1)
    assert check_inside("a", (90, 70, 1e5, 1e5), (100, 80)) == (90, 70, 100, 80)
    with pytest.raises(InputError, match=r"lies outside photo 'a', which has 100 x 80 pixels"):
        check_inside("a", xyxy, (100, 80))


def write(folder, seed, first, last):
    command = [
        sys.executable,
        "-c",
        WRITER,
        str(Path(__file__).parents[1]),
        str(folder),
        str(seed),
        str(first),
        str(last),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def killed_and_resumed(folder, n, kills):
    """Write n events with kill -9 in between; the ids that were said to be saved."""
    rng, saved = random.Random(7), []
    stops = sorted(rng.sample(range(1, n), kills))
    while len(saved) < n:
        with write(folder, 0, len(saved), n) as writer:
            for line in writer.stdout:
                saved.append(line.strip())
                if stops and len(saved) >= stops[0]:
                    stops.pop(0)
                    writer.send_signal(signal.SIGKILL)
    return saved


@pytest.mark.parametrize(("n", "kills"), [(120, 4), pytest.param(1000, 40, marks=pytest.mark.torture)])
def test_kills_lose_nothing(tmp_path, n, kills):
    saved = killed_and_resumed(tmp_path, n, kills)
    assert saved == [f"0-{k}" for k in range(n)]
    expected = State(random_event(f"0-{k}") for k in range(n)).photos
    assert read_state(tmp_path).photos == expected == read_state(tmp_path).photos


def test_two_writers_at_once_lose_nothing(tmp_path):
    writers = [write(tmp_path, seed, 0, 60) for seed in (1, 2)]
    assert [len(writer.communicate()[0].split()) for writer in writers] == [60, 60]
    log = CorrectionLog(tmp_path)
    ids = [event["id"] for event in log.read_new()]
    for seed in (1, 2):  # each in its own order
        assert [i for i in ids if i.startswith(f"{seed}-")] == [f"{seed}-{k}" for k in range(60)]
    assert log.damaged == []


@pytest.fixture
def images():
    tags = np.array([[1, -1], [1, 1], [-1, -1], [0, 1]], np.int8)
    return ImageSet(("a", "b", "c", "d"), tuple(map(Path, "abcd")), tags, ("dog", "cat"))


def test_no_corrections_are_none(images):
    assert collect(State(), images, CONTENTS) is None
    others = State([reviewed("elsewhere"), box("a", kind="horse"), reviewed("a", "skipped")])
    with pytest.warns(UserWarning, match="left out") as said:
        assert collect(others, images, CONTENTS) is None
    assert [str(warning.message) for warning in said] == [
        "the corrections of 1 photos are left out (no longer among the photos): elsewhere",
        "the corrections of 1 classes are left out (unknown to this run): horse",
    ]


def test_a_photo_is_known_by_its_content(images):
    """Under another name it keeps what was said of it; another photo under its name does not."""
    state = State([box("b"), reviewed("b")])
    renamed = collect(state, replace(images, ids=("a", "new", "c", "d")), CONTENTS)
    assert (renamed.image.tolist(), renamed.reviewed.tolist()) == ([1], [False, True, False, False])
    with pytest.warns(
        UserWarning, match=r"1 photos are left out \(replaced: another photo has the name\): b"
    ):
        assert collect(state, images, [CONTENTS[0], content_of("other"), *CONTENTS[2:]]) is None
    twice = collect(state, images, [CONTENTS[1], *CONTENTS[1:]])  # the same photo is there twice
    assert twice.image.tolist() == [0, 1]


def test_corrections_as_arrays(images):
    state = State(
        [
            *(box("b", "1", "rejected"), box("b", "2", xyxy=(9, 9, 20, 20)), box("c", "3", kind="cat")),
            *(reviewed("c"), reviewed("a"), tag("d", "dog", 1), tag("d", "cat", -1)),
        ]
    )
    found = collect(state, images, CONTENTS)
    assert found.image.tolist() == [1, 1, 2]
    assert found.label.tolist() == [0, 0, 1]
    assert found.right.tolist() == [False, True, True]
    assert found.reviewed.tolist() == [True, False, True, False]
    # Reviewed without a box: nothing is there. An accepted box is a tag. What was said of tags holds.
    assert found.tags.tolist() == [[-1, -1], [1, 1], [-1, 1], [1, -1]]
    assert images.tags.tolist()[0] == [1, -1]


def test_the_key_knows_every_change(images):
    events = [box("b"), reviewed("c"), tag("d", "dog", 1)]
    keys = {collect(State(events[:n]), images, CONTENTS).key() for n in (1, 2, 3)}
    keys |= {collect(State([*events, box("b", xyxy=(1, 2, 30, 41))]), images, CONTENTS).key()}
    assert len(keys) == 4
    assert collect(State(reversed(events)), images, CONTENTS).key() in keys
