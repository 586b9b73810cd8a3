"""Run the benchmarks named on the command line, or all: each module here with a `run()` that yields lines.

One table goes to standard output, what happens meanwhile to standard error. The exit status is 1 if a quality
has fallen below its floor or a benchmark is broken, 2 if there is none of a name.
"""

import pkgutil
import sys

import benchmarks
from benchmarks._table import measure, text

known = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name[0] != "_")
names = sys.argv[1:] or known
if unknown := set(names) - set(known):
    print(f"no benchmark {', '.join(sorted(unknown))}: there are {', '.join(known)}", file=sys.stderr)
    sys.exit(2)
rows, well = measure(names)
print(text(rows))
if not well:
    print("a quality has fallen, or a benchmark is broken: see the last column", file=sys.stderr)
sys.exit(0 if well else 1)
