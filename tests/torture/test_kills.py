"""kill -9 at any moment, run again: the same bytes as if nothing had happened."""

import random
import sys
from itertools import count

import pytest
from tests.torture._trials import differences

from tag2box.detection.detector import Detector


def torture(server, scenario, place, moments, capsys):
    """Kill the command at each moment, run it again, compare. A moment behind its end counts for nothing."""
    whole = server.undisturbed(scenario, place / "whole")
    rng, folder, wrong, kills = random.Random(0), place / "killed", [], 0
    for trial in count():
        if kills == moments:
            break
        assert trial < 3 * moments, "the command is mostly done before it is killed"
        # Every other moment by the clock; the others by the file system, where most of the danger is.
        by_clock = {"seconds": rng.uniform(0, whole.seconds)}
        how = {"last": rng.randint(1, whole.changes)} if trial % 2 else by_clock
        scenario.prepare(folder)
        if server.run(scenario.words(folder), **how)[0] != -9:
            continue
        kills += 1
        if scenario.start is not None:
            Detector.load(folder / "detector.npz")  # there is always one
        server.finish(scenario, folder)
        if different := differences(folder, whole):
            wrong.append((how, different))
    with capsys.disabled():
        sys.stdout.write(
            f"\n{scenario.name}: {kills - len(wrong)} of {kills} kills ended in the same bytes\n"
        )
    assert not wrong


@pytest.mark.torture
@pytest.mark.parametrize(
    ("name", "moments"),
    [("run", 100), ("run with workers", 10), ("rerun", 30), ("detect", 30), ("export", 20), ("clean", 30)],
)
def test_killed_at_any_moment(server, scenarios, place, name, moments, capsys):
    torture(server, scenarios[name], place, moments, capsys)


@pytest.mark.parametrize(("name", "moments"), [("run", 3), ("detect", 1), ("export", 1), ("clean", 2)])
def test_killed_at_a_few_moments(server, scenarios, place, name, moments, capsys):
    torture(server, scenarios[name], place, moments, capsys)
