"""One table of what benchmarks yield: job, ours, rival, ratio, bar, quality; and whether all is well."""

import importlib
import sys
import traceback
from collections.abc import Iterable, Iterator

from benchmarks import Line, Skip

HEAD = ("job", "ours", "rival", "ratio", "bar", "quality")
Row = tuple[str, ...]


def measure(names: Iterable[str]) -> tuple[list[Row], bool]:
    """The rows of all these benchmarks, and whether every quality held and nothing broke."""
    rows, well = [], True
    for name in names:
        for row, good in _rows(name):
            print(f"{name}: {' | '.join(filter(None, row))}", file=sys.stderr, flush=True)
            rows.append(row)
            well &= good
    return rows, well


def _rows(name: str) -> Iterator[tuple[Row, bool]]:
    """The rows of one benchmark, each with whether it is well. One that cannot run is a row that says why."""
    try:
        for line in importlib.import_module(f"benchmarks.{name}").run():
            yield row(line), not line.fallen
    except Skip as reason:
        yield (name, "-", "-", "-", "-", f"not run: {reason}"), True
    except ModuleNotFoundError as missing:
        yield (name, "-", "-", "-", "-", f"not run: {missing.name} is not installed"), True
    except Exception as error:
        traceback.print_exc()
        yield (name, "-", "-", "-", "-", f"BROKEN: {type(error).__name__}: {error}"), False


def row(line: Line) -> Row:
    ours, rival = (f"{figure:.4g} {line.unit}".strip() for figure in (line.ours, line.rival))
    bar = "" if line.bar is None else f"{line.bar:.3g} x {'met' if line.ratio >= line.bar else 'MISSED'}"
    quality = line.quality
    if line.value is not None and line.floor is not None:
        held = f"{line.value:.4g}, {'BELOW' if line.fallen else 'at least'} {line.floor:.4g}"
        quality = f"{held}; {quality}" if quality else held
    return line.job, ours, f"{rival} ({line.rival_name})", f"{line.ratio:.1f} x", bar, quality


def text(rows: Iterable[Row]) -> str:
    """A table in Markdown, with its columns aligned; the last is as long as it is."""
    rows = [tuple(cell.replace("|", "/").replace("\n", " ") for cell in row) for row in (HEAD, *rows)]
    widths = [max(len(row[j]) for row in rows) for j in range(len(HEAD) - 1)]
    ruled = [rows[0], tuple("-" * width for width in (*widths, len(HEAD[-1]))), *rows[1:]]
    lines = (
        [*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]] for row in ruled
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
