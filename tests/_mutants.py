"""Damaged files of every kind, each through its reader, in a process that is watched from outside.

`python -m tests._mutants FOLDER SEED COUNT` makes COUNT mutants of each kind in FOLDER and prints a line of
JSON for each: what became of it, and what it cost.
"""

import json
import resource
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from tests._damage import mutant
from tests._kinds import kinds

from tag2box.errors import UNPRINTABLE, Tag2BoxError

# Of the processor, since others may use it too; and of waiting for an answer that may never come.
SECONDS, PATIENCE = 5, 60
BYTES = 1e9
WELL = {"read", "refused"}


def main(folder, seed, count):
    """Print what became of `count` mutants of each kind."""
    root = Path(folder)
    found = list(kinds(root))
    for _, _, read in found:  # what is not damaged is read; and all is imported before anything is measured
        read()
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, (name, file, read) in enumerate(found):
        whole = file.read_bytes()
        for which in range(count):
            content = mutant(whole, file.suffix, np.random.default_rng([seed, number, which]))
            file.write_bytes(content)
            start = time.process_time()
            outcome = _outcome(read)
            seconds = time.process_time() - start
            memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) * 1024
            print(json.dumps([name, which, outcome, seconds, memory]), flush=True)  # noqa: T201
            if outcome not in WELL:
                shutil.copy(file, root.parent / f"{number}-{which}-{file.name}")
        file.write_bytes(whole)


def _outcome(read):
    try:
        read()
    except Tag2BoxError as error:
        line = str(error)
        return f"no line, but {line!r}" if UNPRINTABLE.search(line) or not line else "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def run_mutants(folder, seed, count):
    """What `main` prints, as lists; a mutant that does not end is the last of them."""
    command = [sys.executable, "-W", "error", "-m", "tests._mutants", str(folder), str(seed), str(count)]
    lines = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[1]
    ) as child:
        while select.select([child.stdout], [], [], PATIENCE)[0]:
            line = child.stdout.readline()
            if not line:
                break
            lines.append(json.loads(line))
        else:
            child.kill()
            lines.append(["after", lines[-1][:2] if lines else "the start", "no answer", PATIENCE, 0])
    if child.returncode:
        lines.append(["after", lines[-1][:2], f"ended with {child.returncode}", 0, 0])
    return lines


def check_mutants(folder, seed, count):
    """Run `count` mutants of each kind, and see that all of them end well."""
    lines = run_mutants(folder, seed, count)
    well = [
        outcome in WELL and seconds < SECONDS and memory < BYTES for *_, outcome, seconds, memory in lines
    ]
    assert [line for line, good in zip(lines, well, strict=True) if not good] == []
    names = {line[0] for line in lines}
    assert len(lines) == count * len(names)
    return lines


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
