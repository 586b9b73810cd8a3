"""Run the benchmarks named on the command line, or all: each module here with a `run()` that yields lines."""

import importlib
import pkgutil
import sys

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks import Skip

names = sys.argv[1:] or sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name[0] != "_")
table = Table("job", "ours", "rival", "ratio", "quality", title="tag2box against its rivals, same run")
console = Console()
for name in names:
    try:
        for line in importlib.import_module(f"benchmarks.{name}").run():
            ours, rival = (f"{figure:.4g} {line.unit}" for figure in (line.ours, line.rival))
            table.add_row(line.job, ours, f"{rival} ({line.rival_name})", f"{line.ratio:.1f} x", line.quality)
            console.print(f"{name}: {line.job}: {line.ratio:.1f} x {line.rival_name}", highlight=False)
    except Skip as reason:
        console.print(f"{name}: skipped: {reason}")
console.print(table)
