"""`python -m tag2box` is the command `tag2box`."""

from tag2box.cli.app import main

main()
