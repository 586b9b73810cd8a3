"""Detection: the detector, what it finds, and the files that it is read from."""
