"""The random share of the photos, and what it says about all of them.

Photos are drawn in one random order. Of a class, those that were judged without a gap from the start of that
order are a fair sample of its photos, however a person came to them: what is judged out of turn counts only
once everything before it is judged too.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Of so many photos that are shown, one is random: the price of honest figures.
ONE_IN = 4
# Two-sided 95 per cent of a normal distribution; the width that people are told to aim at.
Z, ENOUGH = 1.959964, 0.05


@dataclass(frozen=True)
class ShareEstimate:
    """Right boxes among those judged in the random share: the share of right ones lies in low to high (95 %).

    more: about how many further boxes make it +- 5 points; left: how many there are.
    """

    right: int
    judged: int
    low: float
    high: float
    more: int
    left: int


def random_order(photos: NDArray[np.intp], seed: str) -> NDArray[np.intp]:
    """These photos in an order that depends on the seed and their numbers alone."""
    return np.random.default_rng(int(seed[:8], 16)).permutation(np.sort(photos))


def mixed(order: NDArray[np.intp], drawn: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Every fourth photo from `drawn`, the others from `order`; and which are random. None comes twice."""
    out: list[int] = []
    is_random: list[bool] = []
    seen: set[int] = set()
    chosen, lots = iter(order.tolist()), iter(drawn.tolist())
    while len(out) < len(order):
        lot = len(out) % ONE_IN == ONE_IN - 1
        photo = _next(lots if lot else chosen, seen)
        if photo is None:
            lot = not lot
            photo = _next(lots if lot else chosen, seen)
        if photo is None:
            break
        seen.add(photo)
        out.append(photo)
        is_random.append(lot)
    return np.array(out, np.intp), np.array(is_random, np.bool_)


def _next(photos: Iterator[int], seen: set[int]) -> int | None:
    return next((photo for photo in photos if photo not in seen), None)


def estimate_share(right: int, judged: int, total: int) -> ShareEstimate:
    """From the boxes of a class that were judged in random order, without a gap; total: all that it has."""
    low, high = wilson(right, judged)
    return ShareEstimate(right, judged, low, high, _more(right, judged, total), max(total - judged, 0))


def wilson(right: int, n: int) -> tuple[float, float]:
    """The interval of Wilson (1927) at 95 %: it stays within 0 and 1 and is honest for few."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = right / n, Z * Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def _more(right: int, n: int, total: int) -> int:
    """Boxes still to judge until the interval is +- 5 points, as the share stands; at most all."""
    z2 = Z * Z
    share = (right + z2 / 2) / (n + z2)
    needed = math.ceil(z2 * share * (1 - share) / ENOUGH**2)
    return max(0, min(needed, total) - n)
