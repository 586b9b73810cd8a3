"""A project with our Makefile, a lock of toy packages and the index they come from, all in one folder."""

import base64
import hashlib
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Builds an editable wheel with nothing but the standard library.
BACKEND = """
from tests._toy_lock import write_wheel
def build_editable(folder, config_settings=None, metadata_directory=None):
    return write_wheel(folder, "toy", "0", requires=["a"]).name
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "toy"
version = "0"
"""


class ToyProject:
    """`make` in `folder`; `b` has many files, so that its installation takes a while."""

    STAMP = ".venv/done/run"

    def __init__(self, folder, n_files=10):
        self.folder, self.index = folder, folder / "index"
        (folder / "requirements").mkdir(parents=True)
        self.index.mkdir()
        shutil.copy(ROOT / "Makefile", folder)
        (folder / "pyproject.toml").write_text(PYPROJECT)
        (folder / "backend.py").write_text(BACKEND)
        write_wheel(self.index, "a", "1.0", requires=["b[more]>=1"])
        for version in ("1.0", "2.0"):
            write_wheel(self.index, "b", version, extra="more", n_files=n_files)

    def lock(self, **versions):
        """Write the lock: every package with its version, and the hash of its file."""
        lines = []
        for name, version in versions.items():
            digest = hashlib.sha256((self.index / wheel_name(name, version)).read_bytes()).hexdigest()
            lines.append(f"{name}=={version} --hash=sha256:{digest}\n")
        (self.folder / "requirements" / "run.txt").write_text("".join(lines))

    def make(self, **options):
        """`make` of the environment, as a process."""
        surroundings = {
            key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "MAKE"))
        }
        surroundings |= {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.index),
            "PIP_CONFIG_FILE": os.devnull,
            "PYTHONPATH": str(ROOT),
        }
        return subprocess.Popen(
            ["make", self.STAMP],
            cwd=self.folder,
            env=surroundings,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **options,
        )

    def installed(self):
        """Name and version of what is in the environment, and how many modules `b` has."""
        code = (
            "import b, pathlib; from importlib.metadata import version as v; "
            "print(v('toy'), v('a'), v('b'), len([*pathlib.Path(b.__file__).parent.glob('m*.py')]))"
        )
        command = [str(self.folder / ".venv/bin/python"), "-I", "-c", code]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def wheel_name(name, version):
    return f"{name}-{version}-py3-none-any.whl"


def write_wheel(folder, name, version, *, requires=(), extra=None, n_files=1):
    """A wheel of `n_files` modules, metadata last, as in the wheels of others."""
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {line}" for line in requires] + (
        [f"Provides-Extra: {extra}"] if extra else []
    )
    files = {f"{name}/m{i}.py": f"x = {i}\n" * 50 for i in range(n_files)} | {f"{name}/__init__.py": ""}
    info = f"{name}-{version}.dist-info"
    files[f"{info}/METADATA"] = "\n".join(metadata) + "\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: toy\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,\n"])
    path = Path(folder) / wheel_name(name, version)
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in files.items():
            archive.writestr(zipfile.ZipInfo(place), text)
    return path


def _digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
