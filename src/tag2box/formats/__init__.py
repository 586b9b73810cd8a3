"""One module per format that image tags and boxes come in or go out as."""
