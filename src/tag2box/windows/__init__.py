"""Windows: where an object might be. Selective search."""

from tag2box.windows.search import Windows, WindowsConfig, find_windows, search_windows, selective_search

__all__ = ["Windows", "WindowsConfig", "find_windows", "search_windows", "selective_search"]
