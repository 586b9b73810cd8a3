"""The commands of `tag2box`, one file each. They import what they need when called: `--help` is quick."""
