"""`write_whole`: a file is either whole or absent, whatever happens while it is written."""

import os
import tempfile
from pathlib import Path

from tag2box.errors import Tag2BoxError

__all__ = ["write_whole"]


def write_whole(path: Path, content: str | bytes) -> None:
    """Write `content` beside `path` and move it there in one step; folders are made as needed."""
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise Tag2BoxError(f"cannot write {path}: {error.strerror}; choose another folder") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise Tag2BoxError(f"cannot write {path}: {error.strerror}; nothing was changed") from error
