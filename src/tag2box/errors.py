"""What tag2box raises when the fault lies with the input: one line that says what is wrong and what to do."""

import re

# What would break a line or a terminal, or turn text around: names and texts of strangers go into messages.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# What stands in the place of a secret.
HIDDEN = "***"
# The name and password before a host. In an archive and in git that place holds no secret.
USER = re.compile(r"\b(?!(?:zip|tar|git|github):)([a-z][a-z0-9+.-]{1,20}:/{1,2})([^/\s]*)@", re.IGNORECASE)
# The part of an address that signs it, as S3, Azure, Google and others call it.
SIGNATURE = re.compile(
    r"([?&][^=&\s#]{0,40}(?:sig|token|secret|passw|pwd|key|cred|auth)[^=&\s#]{0,40}=)[^&\s#]+", re.IGNORECASE
)


def redacted(text: str) -> str:
    """`text` without the passwords and signatures of the addresses in it: for messages and for files."""
    return SIGNATURE.sub(rf"\1{HIDDEN}", USER.sub(_without_password, text))


def _without_password(address: re.Match[str]) -> str:
    """A name alone is a secret on the web, where tokens are written so, and none elsewhere: sftp://me@host."""
    kind, user = address.groups()
    return f"{kind}{HIDDEN}@" if kind.lower().startswith("http") or ":" in user else address[0]


def install_command(extra: str, option: str = "") -> str:
    """How to install what an extra of tag2box has, for messages: from a registry, or in a clone."""
    pip = " ".join(["pip install", *option.split()])
    return f'{pip} "tag2box[{extra}]"; in a clone: {pip} ".[{extra}]"'


class Tag2BoxError(Exception):
    r"""Base class of every error that tag2box raises on purpose.

    Parameters
    ----------
    message : object, default=""
        What is wrong, what was expected and what to do. It is printed on one line, whatever is in it,
        and without the passwords of addresses.

    Examples
    --------
    >>> import tag2box as t2b
    >>> issubclass(t2b.InputError, t2b.Tag2BoxError)
    True
    >>> str(t2b.Tag2BoxError("a name with a\nline break"))
    'a name with a line break'
    """

    def __init__(self, message: object = "") -> None:
        line = redacted(" ".join(str(message).splitlines()))
        super().__init__(UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], line))


class InputError(Tag2BoxError, ValueError):
    """The data or the settings that were given are at fault.

    It is a `ValueError`, as users of scikit-learn expect.

    Parameters
    ----------
    message : object, default=""
        What is wrong, what was expected and what to do.

    Examples
    --------
    >>> import tag2box as t2b
    >>> try:
    ...     t2b.nms([[0, 0, 10, 10]], [0.5], iou_threshold=30)
    ... except t2b.InputError as error:
    ...     print(error)
    iou_threshold must lie between 0 and 1, but it is 30
    """
