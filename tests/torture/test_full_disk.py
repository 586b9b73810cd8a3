"""A disk that is full, as the system says it (ENOSPC): one line, and with more room the same bytes."""

import random
import shutil
import subprocess
import sys

import pytest
from tests.torture._trials import Server, differences

PAGE = 4  # kilobytes
NAMESPACE = ("unshare", "--map-root-user", "--mount")


@pytest.fixture(scope="module")
def mounting(place):
    """A server that can mount disks, in a namespace of its own: nothing is mounted for others."""
    (place / "probe").mkdir()
    mount = [*NAMESPACE, "mount", "-t", "tmpfs", "none", str(place / "probe")]
    if shutil.which("unshare") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("small disks cannot be mounted here: that needs Linux, and root or user namespaces")
    server = Server(place / "log of disks", NAMESPACE)
    yield server
    server.end()


def kilobytes(folder):
    """What a folder takes on a small disk: whole pages for every file."""
    return sum(
        -(-path.stat().st_size // (1024 * PAGE)) * PAGE for path in folder.rglob("*") if path.is_file()
    )


def torture(server, scenario, place, sizes, capsys):
    """Run the command on disks of a random size that is too small, then with room, and compare."""
    whole = server.undisturbed(scenario, place / "whole")
    least, most = (kilobytes(folder) if folder else 0 for folder in (scenario.start, place / "whole"))
    rng, folder, full = random.Random(0), place / "full", 0
    for _ in range(sizes):
        scenario.prepare(folder)
        folder.mkdir(exist_ok=True)
        size = rng.randrange(least + PAGE, most, PAGE)
        status, _ = server.run(scenario.words(folder), disk=(folder, size))
        said = server.log.read_text()
        last = said.strip().splitlines()[-1]
        assert status in (0, 1), said
        assert status == 0 or last.startswith("tag2box: cannot write"), said
        assert status == 0 or "No space left on device" in last, said
        assert "Traceback" not in said
        full += status
        server.finish(scenario, folder)
        assert not differences(folder, whole), size
    with capsys.disabled():
        sys.stdout.write(f"\n{scenario.name}: {full} of {sizes} disks were full, all ended well\n")
    assert full > sizes // 3


@pytest.mark.torture
@pytest.mark.parametrize("name", ["run", "rerun", "detect", "export"])
def test_full_disks(mounting, scenarios, place, name, capsys):
    torture(mounting, scenarios[name], place, 12, capsys)


def test_a_full_disk(mounting, scenarios, place, capsys):
    torture(mounting, scenarios["run"], place, 1, capsys)
