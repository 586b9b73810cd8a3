"""Names of images and classes: which ones every format can carry."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tag2box.errors import InputError

# No line of text, XML or YAML carries these: control characters, line separators, halves of a character.
FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]")
# What nobody sees: soft hyphens, spaces of no width, marks of direction. Joiners stay: they change letters.
UNSEEN = re.compile("[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


def plain_name(name: str) -> str:
    """The name of a class in one spelling: é is one letter, and what cannot be seen is not in it."""
    return unicodedata.normalize("NFC", UNSEEN.sub("", name)).strip()


def look_alikes(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of names that differ in case, width or spaces alone, such as Cat and cat."""
    groups = defaultdict(list)
    for name in names:
        letters = unicodedata.normalize("NFKC", UNSEEN.sub("", name)).casefold()
        groups["".join(c for c in letters if c.isalnum()) or letters].append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def objection_to_name(name: object) -> str | None:
    """Why `name` cannot be the name of an image or a class; None where it can."""
    if not isinstance(name, str):
        return "is no text"
    if not name:
        return "is empty"
    if match := FORBIDDEN.search(name):
        what = "is not Unicode" if "\ud800" <= match[0] <= "\udfff" else "holds a control character"
        return f"{what} ({ascii(match[0])[1:-1]})"
    return None


def check_names(what: str, names: Iterable[object]) -> None:
    """Raise `InputError` where a name cannot be used or is there twice; `what` is "class" or "image"."""
    seen = set()
    for name in names:
        if why := objection_to_name(name):
            raise InputError(f"the {what} name {name!r} {why}: rename it")
        if name in seen:
            raise InputError(f"two of the {what} names are {name!r}: they must differ")
        seen.add(name)


def first_few(names: Sequence[str], few: int = 3) -> str:
    """`names` for an error line: the first few, and that there are more."""
    return ", ".join(names[:few]) + (", ..." if len(names) > few else "")


def place_of_class(name: str, classes: Sequence[str]) -> int:
    """The place of a class among `classes`; refused where it is not one of them."""
    for spelling in (name, plain_name(name)):
        if spelling in classes:
            return classes.index(spelling)
    raise InputError(f"no class {name!r} here: the classes are {', '.join(classes)}")
