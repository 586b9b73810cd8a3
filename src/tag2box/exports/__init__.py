"""Exports: detections as annotation files of other tools, a format each."""
