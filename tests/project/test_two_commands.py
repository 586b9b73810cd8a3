"""The set-up of `make demo` and `make test`: from locks alone, whatever is released after they were made."""

import os
import re
import subprocess
import tomllib
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from tests._toy_lock import ROOT, ToyProject, wheel_name

TARGETS = (
    "demo",
    "test",
    "cover",
    "test-old",
    "test-slow",
    "test-tools",
    "torture",
    "quality",
    "bench",
    "docs",
    "build",
    "test-wheel",
)
pytestmark = pytest.mark.skipif(
    not (ROOT / "Makefile").is_file(), reason="the package is installed, without its Makefile"
)


@pytest.mark.parametrize("target", TARGETS)
def test_every_set_up_takes_the_same_way(target):
    """A lock is installed as it is, and then looked over, before anything is run."""
    command = ["make", "--dry-run", "--always-make", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    steps = [line for line in done.splitlines() if re.search(r"\bpip\b.* (install|check)\b|\btouch\b", line)]
    lock, project, *more, check, stamp = steps
    assert re.search(
        r"install .*--no-deps --only-binary :all: --require-hashes -r requirements/[a-z]+\.txt$", lock
    )
    assert "install --quiet --no-deps --no-build-isolation -e ." in project
    assert len(more) == (target == "test-tools")
    assert " check)" in check
    assert "/done/" in stamp


def test_a_later_release_changes_nothing(tmp_path):
    """pip 23 takes the newest `b` where `b[more]` is asked for, and refuses it as it is not pinned."""
    project = ToyProject(tmp_path)
    project.lock(a="1.0", b="1.0")
    talking = (tmp_path / "Makefile").read_text().replace("install --quiet", "install")
    (tmp_path / "Makefile").write_text(talking)
    make = project.make()
    output = make.communicate()[0]
    assert make.returncode == 0, output
    taken = re.findall(r"(?:Collecting|Processing) (?:\S*/)?(\S+)", output)
    assert taken == [wheel_name("a", "1.0"), wheel_name("b", "1.0")]
    assert output.startswith("tag2box: setting up .venv from requirements/run.txt, once: ")
    assert project.installed() == ["0", "1.0", "1.0", "10"]


def test_what_a_lock_lacks_is_said_in_a_line(tmp_path):
    project = ToyProject(tmp_path)
    project.lock(a="1.0")
    make = project.make()
    output = make.communicate()[0]
    assert make.returncode != 0
    (line,) = [line for line in output.splitlines() if line.startswith("tag2box: .venv lacks")]
    assert "a 1.0 requires b, which is not installed." in line
    assert not (tmp_path / project.STAMP).exists()


# Says what it was asked for, and fails where that is the command of $BROKEN.
MAKE = """#!/bin/sh
echo "$*" "${MAKEFLAGS-}" "${PYTEST_ADDOPTS-}"
[ "$1" != "$BROKEN" ]
"""


@pytest.mark.parametrize(
    ("broken", "asked"), [("", ["test", "quality"]), ("test", ["test"]), ("quality", ["test", "quality"])]
)
def test_ci_runs_both_and_fails_with_either(tmp_path, broken, asked):
    for name, script in (("make", MAKE), ("chromium", "#!/bin/sh\n")):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    rehearsal = {"MAKEFLAGS": "n", "PYTEST_ADDOPTS": "--collect-only"}
    surroundings = {**os.environ, **rehearsal, "PATH": f"{tmp_path}:{os.environ['PATH']}", "BROKEN": broken}
    script = str(ROOT / ".ci" / "run")
    done = subprocess.run(script, check=False, env=surroundings, stdout=subprocess.PIPE, text=True)
    assert [line.strip() for line in done.stdout.splitlines()] == asked
    assert (done.returncode == 0) == (broken == "")


PYPROJECT = ROOT / "pyproject.toml"


def asked_for(groups, extras=("demo", "review")):
    """What the project, these extras and these groups require."""
    read = tomllib.loads(PYPROJECT.read_text())
    project, known = read["project"], read["dependency-groups"]
    more = (project["optional-dependencies"][extra] for extra in extras)
    named = chain.from_iterable(known[group] for group in groups)
    lines = [*project["dependencies"], *chain.from_iterable(more), *named]
    return [Requirement(line) for line in lines if isinstance(line, str)]


def pins(name):
    """Each package of a lock, and its versions: there may be one for each Python."""
    found = {}
    for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines():
        if "==" in line and not line.startswith(("#", " ")):
            pin = Requirement(line.rstrip(" \\"))
            found.setdefault(canonical(pin.name), []).append(Version(str(pin.specifier)[2:]))
    return found


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize(
    ("lock", "groups"),
    [
        ("run", ["build"]),
        ("docs", ["build", "docs"]),
        ("dev", ["build", "docs", "dev"]),
        ("bench", ["build", "docs", "dev", "bench"]),
        ("old", ["build", "docs", "dev"]),
    ],
)
def test_a_lock_holds_what_pyproject_asks_for(lock, groups):
    """Where it does not, the lock is older than pyproject.toml: `make lock`."""
    pinned = pins(lock)
    for wanted in asked_for(groups):
        versions = pinned[canonical(wanted.name)]
        assert all(version in wanted.specifier for version in versions), f"{wanted}: make lock"


def test_the_lock_of_the_image_is_a_part_of_what_was_tested():
    pinned, tested = pins("serve"), pins("dev")
    assert {name: tested.get(name) for name in pinned} == pinned
    for wanted in asked_for([], ["serve"]):
        assert all(version in wanted.specifier for version in pinned[canonical(wanted.name)])


def test_the_oldest_packages_are_tested():
    """Every lower bound of what tag2box imports is a version that `make test-old` has; tools are left out."""
    read = tomllib.loads(PYPROJECT.read_text())["project"]
    extras = read["optional-dependencies"]
    own = re.search(r"^OWN := .*extra ,(.*)\)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)[1]
    assert set(own.split()) == set(extras) - {"autodistill", "cvat"}
    pinned, bounded = pins("old"), 0
    for line in chain(read["dependencies"], *(extras[name] for name in own.split())):
        wanted = Requirement(line)
        (bound,) = wanted.specifier
        assert pinned[canonical(wanted.name)] == [Version(bound.version)], f"{wanted}: make lock"
        bounded += 1
    assert bounded > 20


def test_locks_grow_from_one_another():
    """What `make demo` installed is what `make test` has, and only more."""
    for small, large in (("run", "docs"), ("docs", "dev"), ("dev", "bench")):
        inner, outer = pins(small), pins(large)
        assert {name: outer.get(name) for name in inner} == inner
