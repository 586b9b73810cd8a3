"""`make` killed at ten moments of the set-up: the next call ends well, and nothing is missing then."""

import os
import signal
import time

import pytest
from tests._toy_lock import ROOT, ToyProject

pytestmark = pytest.mark.skipif(
    not (ROOT / "Makefile").is_file(), reason="the package is installed, without its Makefile"
)
MOMENTS = 10
N_FILES = 3000


@pytest.mark.torture
@pytest.mark.parametrize("whole", [False, True], ids=["a fresh clone", "a newer lock"])
def test_a_set_up_that_was_killed_is_mended(tmp_path, whole):
    seconds = None
    for moment in range(MOMENTS + 1):
        project = ToyProject(tmp_path / str(moment), N_FILES)
        if whole:
            project.lock(a="1.0", b="1.0")
            finished(project.make())
            time.sleep(0.01)  # the lock is newer than the stamp
        project.lock(a="1.0", b="2.0")
        make, start = project.make(start_new_session=True), time.monotonic()
        if seconds is None:  # the first is left alone, and timed
            finished(make)
            seconds = time.monotonic() - start
            continue
        time.sleep(seconds * (moment - 0.5) / MOMENTS)
        os.killpg(make.pid, signal.SIGKILL)
        make.communicate()
        finished(project.make())
        assert project.installed() == ["0", "1.0", "2.0", str(N_FILES)]


def finished(make):
    """Read what `make` says to its end, which is a good one."""
    output = make.communicate()[0]
    assert make.returncode == 0, output
