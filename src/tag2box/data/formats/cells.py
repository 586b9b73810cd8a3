"""Cells of the CSV that we write, which a spreadsheet may open: no name becomes a formula there."""

import re

__all__ = ["plain_cell", "safe_cell"]

FORMULA = re.compile("'*[=+@-]")


def safe_cell(name: str) -> str:
    """`name`, behind an apostrophe where a spreadsheet would take it for a formula."""
    return f"'{name}" if FORMULA.match(name) else name


def plain_cell(cell: str) -> str:
    """What `safe_cell` was given."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
