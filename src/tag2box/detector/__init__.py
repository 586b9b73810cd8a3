"""A convolutional detector whose late blocks learn from the boxes of a run: photo in, boxes out."""
