"""The review page: see what a run found, correct it, and learn again. Served to this machine's browser."""
