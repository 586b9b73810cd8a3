"""What people look at: one page per run, and pictures of what each stage found."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tag2box.report.collecting import write_report

__all__ = ["write_report"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tag2box.report' has no attribute {name!r}")
    from tag2box.report import collecting  # the whole pipeline: only for those who ask

    return getattr(collecting, name)
