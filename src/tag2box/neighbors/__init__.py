"""Neighbors: the nearest window of every image, exact."""

from tag2box.neighbors.record import Neighbors
from tag2box.neighbors.search import group_neighbors, neighbor_blocks

__all__ = ["Neighbors", "group_neighbors", "neighbor_blocks"]
