"""Neighbors: the nearest window of every image, exact."""

from tag2box.neighbors.search import Neighbors, group_neighbors, neighbor_blocks

__all__ = ["Neighbors", "group_neighbors", "neighbor_blocks"]
