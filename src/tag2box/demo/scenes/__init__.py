"""Scenes to try the method on, made of photographs that installed packages already carry.

Objects are cut out along the outlines of `outlines`, then scaled, mirrored, turned, bent, lit, shaded and set
before grounds cut from other photographs, together with objects of no class. Three classes; objects of no
class stand in positive and negative scenes alike, so that no ground and no by-stander tells a class.
Tags go to `tags.csv`, true boxes to `truth.json` (COCO), which only an evaluation should open.
"""

from tag2box.demo.scenes.making import CLASSES, Scenes, make_scenes

__all__ = ["CLASSES", "Scenes", "make_scenes"]
