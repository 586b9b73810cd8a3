"""Evaluation: average precision and CorLoc, by the rules of the VOC and COCO devkits."""
