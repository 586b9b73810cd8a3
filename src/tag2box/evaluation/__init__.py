"""Evaluation: average precision and CorLoc, by the rules of the VOC and COCO devkits."""

from tag2box.evaluation.scores import CorLoc, Scores, corloc, evaluate

__all__ = ["CorLoc", "Scores", "corloc", "evaluate"]
