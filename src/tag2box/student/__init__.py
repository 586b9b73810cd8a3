"""The student: one small network, photo in and boxes out, that learns from the boxes that a run found."""
