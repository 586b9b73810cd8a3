"""A disk that is full, as the system says it (ENOSPC): one line, and with more room the same bytes."""

import random
import shutil
import subprocess
import sys

import pytest
from tests._toys import contents
from tests.torture._trials import ROOT, differences

# In a world of its own, where the folder is a small disk: run the command there, and keep what it leaves.
ON_A_SMALL_DISK = """
mount -t tmpfs -o size="$SIZE"k none "$FOLDER" || exit 99
cp -a "$START/." "$FOLDER"
"$@"
status=$?
cp -a "$FOLDER/." "$LEFT"
exit $status
"""


def on_a_small_disk(scenario, folder, kilobytes):
    """Run the command in `folder` on a disk of that size: its status, and what it says of an error."""
    start, left = folder.with_name("start"), folder.with_name("left")
    for each in (folder, start, left):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir()
    if scenario.start is not None:
        shutil.copytree(scenario.start, start, symlinks=True, dirs_exist_ok=True)
    words = [sys.executable, "-m", "tests.torture._server", *map(str, scenario.words(folder))]
    places = {"FOLDER": folder, "START": start, "LEFT": left, "SIZE": kilobytes}
    command = ["unshare", "--map-root-user", "--mount", "env", *(f"{k}={v}" for k, v in places.items())]
    command += ["sh", "-c", ON_A_SMALL_DISK, "sh", *words]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    folder.rmdir()
    left.rename(folder)
    return answer.returncode, answer.stderr


@pytest.fixture(scope="module", autouse=True)
def _permitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disk")
    mount = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", str(folder)]
    if shutil.which("unshare") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("small disks cannot be mounted here: that needs Linux, and root or user namespaces")


def torture(server, scenario, place, sizes, capsys):
    """Run the command on disks of a random size that is too small, then with room, and compare."""
    whole = server.undisturbed(scenario, place / "whole")
    first = contents(scenario.start) if scenario.start else {}
    least, most = (sum(4 + len(data) // 1024 for data in files.values()) for files in (first, whole.files))
    rng, folder, full = random.Random(0), place / "full", 0
    for _ in range(sizes):
        size = rng.randint(least, most)
        status, error = on_a_small_disk(scenario, folder, size)
        last = error.strip().splitlines()[-1] if status else ""
        assert status in (0, 1), error
        assert status == 0 or last.startswith("tag2box: cannot write"), error
        assert status == 0 or "No space left on device" in last, error
        full += status
        server.finish(scenario, folder)
        assert not differences(folder, whole), size
    with capsys.disabled():
        sys.stdout.write(f"\n{scenario.name}: {full} of {sizes} disks were full, all ended well\n")
    assert full > sizes // 2


@pytest.mark.torture
@pytest.mark.parametrize("name", ["run", "rerun", "detect", "export"])
def test_full_disks(server, scenarios, place, name, capsys):
    torture(server, scenarios[name], place, 12, capsys)


def test_a_full_disk(server, scenarios, place, capsys):
    torture(server, scenarios["run"], place, 1, capsys)
