"""What tag2box raises when the fault lies with the input: one line that says what is wrong and what to do."""

import re

__all__ = ["InputError", "Tag2BoxError"]

# What would break a line or a terminal, or turn text around: names and texts of strangers go into messages.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Tag2BoxError(Exception):
    """Base of every error that tag2box raises on purpose; its message is one line, whatever is in it."""

    def __init__(self, message: object = "") -> None:
        line = " ".join(str(message).splitlines())
        super().__init__(UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], line))


class InputError(Tag2BoxError, ValueError):
    """The caller's data or settings are at fault. A `ValueError`, as scikit-learn's users expect."""
