"""Run: a run in its folder: what it is made of, what it costs, and its boxes as corrected."""
