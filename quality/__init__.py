"""Results on real data against the floors in `floors.toml`: `make quality`, `make quality QUALITY=cards`.

Everything goes through the package's public names and its command line, as a user would do it, and is
computed anew.
"""
