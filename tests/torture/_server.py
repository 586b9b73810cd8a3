"""Starts `tag2box` again and again: a fork of a process that has imported everything, and so costs little.

Lines of JSON in: {"words": [...], "last": n, "log": file}. Lines out: the number of the process; then its
status, and how many times it has changed the file system. With n above 0 it kills itself just before its n-th
change: so even the shortest moments are met.
"""

import json
import os
import signal
import sys

import numpy as np
import openvino  # noqa: F401
import sklearn.decomposition
import sklearn.svm  # noqa: F401

import tag2box.estimator  # noqa: F401
from tag2box.cli.app import main
from tag2box.runtime import run
from tag2box.windows.search import WindowsConfig, search_windows

CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def be_tag2box(words, last, log, report):
    """Run the command; its process ends here."""
    for stream in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    sys.argv, changes = ["tag2box", *words], 0

    def count(event, arguments):
        nonlocal changes
        if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
            changes += 1
            if changes == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    status = 1
    try:
        main()
    except SystemExit as end:
        status = end.code or 0
    finally:
        sys.stdout.flush()
        os.write(report, str(changes).encode())
        os._exit(status)


def serve():
    """Do as the lines say, until there are no more."""
    for line in sys.stdin:
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            be_tag2box(**json.loads(line), report=sender)
        os.close(sender)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{status} {os.read(receiver, 99).decode() or 0}\n")
        sys.stdout.flush()
        os.close(receiver)


if __name__ == "__main__":
    run.SHARD = 2  # many shards of few photos
    if words := sys.argv[1:]:  # one command, and no server
        sys.argv = ["tag2box", *words]
        sys.exit(main())
    search_windows(
        np.zeros((64, 64, 3), np.uint8), WindowsConfig(mode="single")
    )  # kernels, loaded once for all
    serve()
