"""The CSV of boxes that we write and read. A spreadsheet may open it: no name becomes a formula there."""

import re

COLUMNS = ("file", "class", "score", "x1", "y1", "x2", "y2")

FORMULA = re.compile("'*[=+@-]")


def safe_cell(name: str) -> str:
    """`name`, behind an apostrophe where a spreadsheet would take it for a formula."""
    return f"'{name}" if FORMULA.match(name) else name


def plain_cell(cell: str) -> str:
    """What `safe_cell` was given."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
