"""Files of a run folder damaged one by one: one line each, and the next run makes them again."""

import random
import re
import sys

import pytest
from tests._toys import contents
from tests.torture._trials import Scenario, differences

# 000000-000002.npz
SPARE = re.compile(r"\d{6}-\d{6}\.npz$")
DAMAGES = {
    "flipped": lambda data, rng: flipped(data, rng.randrange(len(data))),
    "cut": lambda data, rng: data[: rng.randrange(len(data))],
    "empty": lambda data, rng: b"",
    "overwritten": lambda data, rng: rng.randbytes(len(data)),
}


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


def damage(folder, rng):
    """Damage one file of `folder`, and say how.

    The parts that a finished result was made of stay as they are: nobody needs them while it is whole.
    """
    name = rng.choice([n for n, data in sorted(contents(folder).items()) if data and not SPARE.search(n)])
    how = rng.choice(sorted(DAMAGES))
    (folder / name).write_bytes(DAMAGES[how]((folder / name).read_bytes(), rng))
    return f"{name} {how}"


def torture(server, scenarios, place, trials, capsys):
    """Damage a file, try a command, then run and detect again: the same bytes."""
    run, detect = scenarios["run"], scenarios["detect"]
    server.finish(run, place / "complete")
    whole = server.finish(detect, place / "complete")
    rng, folder, wrong = random.Random(0), place / "damaged", []
    readers = [scenarios["export"].words, scenarios["clean"].words, lambda folder: ["report", folder]]
    for _ in range(trials):
        Scenario("", run.words, place / "complete").prepare(folder)
        what = damage(folder, rng)
        status, _ = server.run(rng.choice(readers)(folder))
        said = server.log.read_text()
        if status not in (0, 1, 2) or "Traceback" in said:
            wrong.append((what, said))
        server.finish(run, folder)
        server.finish(detect, folder)
        if different := set(differences(folder, whole)) & whole.files.keys():
            wrong.append((what, different))
    with capsys.disabled():
        same = trials - len(wrong)
        sys.stdout.write(f"\n{same} of {trials} damaged files were noticed, and made again byte by byte\n")
    assert not wrong


@pytest.mark.torture
def test_damaged_files(server, scenarios, place, capsys):
    torture(server, scenarios, place, 60, capsys)


def test_a_damaged_file(server, scenarios, place, capsys):
    torture(server, scenarios, place, 1, capsys)
