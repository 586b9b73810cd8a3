"""The table and the plot of docs/scale.md, from what `benchmarks.growth` measured.

python -m benchmarks._growth_table growth.jsonl docs/pictures/growth.svg
"""

import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 380, 300, 60, 34, 26, 44
COLORS = ["#0b6e99", "#d9480f", "#2b8a3e", "#862e9c", "#c92a2a", "#5c940d", "#495057", "#e67700", "#e64980"]
FAR = 1e6  # photos
# What these take of time, or hold in memory, has a bound that the largest size has reached or is near to.
BOUNDED_TIME = ("prior", "neighbors", "cover")
BOUNDED_MEMORY = (*BOUNDED_TIME, "refinement")


def grouped(lines):
    """Per stage: photos, CPU seconds of the whole stage, MB beside the maps, MB on disk; sizes ascending."""
    found = defaultdict(dict)
    for line in (line for line in lines if line["stage"] != "small_cover"):
        whole = line["seconds"] * line["times"]
        found[line["stage"]][line["photos"]] = whole, max(line["mb"], 0), line["disk_mb"]
    return {stage: (sorted(by), np.array([by[n] for n in sorted(by)])) for stage, by in found.items()}


def exponent(sizes, values):
    """The slope between the last two sizes, both in logarithms: what an extrapolation starts from."""
    a, z = np.maximum(values[-2:], 1e-3)
    return math.log(z / a) / math.log(sizes[-1] / sizes[-2])


def projected(sizes, values, photos):
    """Linear at least: nothing that passes over all photos grows slower in the end."""
    return values[-1] * (photos / sizes[-1]) ** max(exponent(sizes, values), 1)


def grown(sizes, megabytes, photos):
    """On the line through the last two sizes."""
    slope = (megabytes[-1] - megabytes[-2]) / (sizes[-1] - sizes[-2])
    return megabytes[-1] + max(slope, 0) * (photos - sizes[-1])


def table(stages):
    """Lines of Markdown."""
    sizes = next(iter(stages.values()))[0]
    head = [f"{n:,}: CPU s, MB" for n in sizes]
    head += ["exponent", "CPU hours at 100,000", "MB at 100,000", "CPU hours at a million"]
    yield f"| stage | {' | '.join(head)} |"
    yield "|---" * (len(head) + 1) + "|"
    for stage, (sizes, values) in stages.items():
        seconds, megabytes = values[:, 0], values[:, 1]
        cells = [f"{s:,.0f}, {mb:.0f}" for s, mb, _ in values]
        cells.append("bounded" if stage in BOUNDED_TIME else f"{exponent(sizes, seconds):.2f}")
        far = [seconds[-1] if stage in BOUNDED_TIME else projected(sizes, seconds, n) for n in (1e5, FAR)]
        held = "bounded" if stage in BOUNDED_MEMORY else f"{grown(sizes, megabytes, 1e5):,.0f}"
        cells += [f"{far[0] / 3600:.2f}", held, f"{far[1] / 3600:.1f}"]
        yield f"| {stage.replace('_', ' ')} | {' | '.join(cells)} |"


def plot(stages):
    """Two panels, CPU time and memory against photos, in logarithms, dashed up to a million."""
    panels = [
        panel(stages, 0, "CPU seconds", projected, BOUNDED_TIME),
        panel(stages, 1, "MB beside the maps", grown, BOUNDED_MEMORY),
    ]
    legend = "".join(
        f'<text x="{10 + 150 * (i % 5)}" y="{HEIGHT + 18 + 18 * (i // 5)}" fill="{COLORS[i % len(COLORS)]}">'
        f"● {stage.replace('_', ' ')}</text>"
        for i, stage in enumerate(stages)
    )
    size = f'viewBox="0 0 {2 * WIDTH} {HEIGHT + 44}" font-family="sans-serif" font-size="11"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><rect width="100%" height="100%" fill="white"/>'
        f'{panels[0]}<g transform="translate({WIDTH} 0)">{panels[1]}</g>{legend}</svg>\n'
    )


def panel(stages, column, name, project, bounded):
    far = {
        stage: v[-1, column] if stage in bounded else project(n, v[:, column], FAR)
        for stage, (n, v) in stages.items()
    }
    most = max(far.values())
    first = min(n[0] for n, _ in stages.values())
    bottom = min(max(v[:, column].min(), 1) for _, v in stages.values())

    def x(photos):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(photos / first) / math.log(FAR / first)

    def y(value):
        share = math.log(max(value, bottom) / bottom) / math.log(most / bottom)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [f'<text x="{WIDTH / 2}" y="16" text-anchor="middle">{name}</text>']
    for e in range(math.ceil(math.log10(first)), 7):
        parts.append(segment(x(10**e), TOP, x(10**e), HEIGHT - BOTTOM))
        parts.append(f'<text x="{x(10**e)}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{10**e:,}</text>')
    for e in range(math.ceil(math.log10(bottom)), math.floor(math.log10(most)) + 1):
        parts.append(segment(LEFT, y(10**e), WIDTH - RIGHT, y(10**e)))
        parts.append(f'<text x="{LEFT - 6}" y="{y(10**e) + 4}" text-anchor="end">{10**e:,}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">photos</text>')
    for i, (stage, (sizes, values)) in enumerate(stages.items()):
        color, v = COLORS[i % len(COLORS)], values[:, column]
        dashed = f'stroke="{color}" stroke-dasharray="2 4"'
        parts.append(segment(x(sizes[-1]), y(v[-1]), x(FAR), y(far[stage]), dashed))
        points = " ".join(f"{x(n):.1f},{y(each):.1f}" for n, each in zip(sizes, v, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts += [
            f'<circle cx="{x(n):.1f}" cy="{y(s):.1f}" r="3" fill="{color}"/>'
            for n, s in zip(sizes, v, strict=True)
        ]
    return "".join(parts)


def segment(x1, y1, x2, y2, style='stroke="#ddd"'):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


if __name__ == "__main__":
    found = grouped(json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines())
    print("\n".join(table(found)))
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(plot(found))
