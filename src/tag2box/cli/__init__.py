"""The command line: one module per group of commands."""

from tag2box.cli.app import app, main

__all__ = ["app", "main"]
