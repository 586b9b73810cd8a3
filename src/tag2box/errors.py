"""What tag2box raises when the fault lies with the input: one line that says what is wrong and what to do."""

__all__ = ["InputError", "Tag2BoxError"]


class Tag2BoxError(Exception):
    """Base of every error that tag2box raises on purpose; the command line prints it as one line."""


class InputError(Tag2BoxError, ValueError):
    """The caller's data or settings are at fault. A `ValueError`, as scikit-learn's users expect."""
