"""Cover: few windows whose neighbors reach nearly every positive image."""

from tag2box.cover.config import CoverConfig
from tag2box.cover.graph import CoverGraph, cover_graph
from tag2box.cover.greedy import Cover, greedy_cover
from tag2box.cover.mining import negative_mining

__all__ = ["Cover", "CoverConfig", "CoverGraph", "cover_graph", "greedy_cover", "negative_mining"]
