"""Measure the parts named on the command line, or all; exit 1 if a figure is below its floor."""

import os
import sys
import time
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from quality.measuring import PARTS

HERE = Path(__file__).parent
DATA = Path(os.environ.get("TAG2BOX_DATA", HERE.parents[1] / "shared" / "data"))


def verdict(figure, value, floor):
    """One line about a figure, and whether it holds; what is not a number does not."""
    held = value >= floor["floor"]
    low = floor["floor"] - value
    what = "holds" if held else f"BELOW by {low:.2f} (noise {floor['noise']}, set on {floor['set']})"
    return f"{figure:<15} {value:6.2f}   floor {floor['floor']:6.2f}   {what}", held


def main(names):
    if unknown := set(names) - set(PARTS):
        print(f"quality: no part is called {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
        return 2
    if not DATA.is_dir():
        print(
            f"quality: skipped, as there is no data in {DATA}: set TAG2BOX_DATA to the folder that holds it"
        )
        return 0
    floors = tomllib.loads((HERE / "floors.toml").read_text())
    fallen = []
    for name in names or PARTS:
        start = time.monotonic()
        with TemporaryDirectory(prefix="quality-") as out:
            figures = PARTS[name](DATA, Path(out))
        for key, value in figures.items():
            line, held = verdict(f"{name} {key}", value, floors[name][key])
            print(line, flush=True)
            fallen += [] if held else [f"{name} {key}"]
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    if fallen:
        print(f"quality: {', '.join(fallen)} fell below the floor of quality/floors.toml", file=sys.stderr)
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
