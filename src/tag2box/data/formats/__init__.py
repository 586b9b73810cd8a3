"""Formats that image tags and boxes come in or go out as: one module per format, and what they share.

`data.reading` finds out which one a folder is in. Shared are `files` (images below a folder), `parsing`
(text, JSON, YAML and XML), `rows` and `cells` (tables), and `building` (the arrays of an `ImageSet`).
"""
