"""Bytes and seconds in words."""


def bytes_in_words(count: float) -> str:
    """Such as 350 MB, or 1.5 GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def seconds_in_words(seconds: float) -> str:
    """Such as 1.5 s, 90 s, 25 min, 3 h 05 min, or 4 days."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes < 48 * 60 else f"{seconds / 86400:.0f} days"
