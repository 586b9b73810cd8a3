"""Formats that image tags and boxes come in or go out as.

`reading` finds out which one a folder of images is in; `writing` writes detections, and `results` reads them
again. The rest is one module per format, and what they share: `files`, `building`.
"""
