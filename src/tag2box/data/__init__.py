"""Photos and tags: safe decoding, a first look, and a reader per format."""

from tag2box.data.reading import read_images

__all__ = ["read_images"]
