"""Starts `tag2box` again and again: a fork of a process that has imported everything, and so costs little.

Lines of JSON in: {"words": [...], "last": n, "log": file, "disk": null}. Lines out: its process number;
then its status, and how many times it has changed the file system. With n above 0 it kills itself just before
its n-th change: so even the shortest moments are met. With "disk": [folder, kilobytes] that folder is
meanwhile on a disk of that size, which takes a mount namespace of its own.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, nullcontext

import numpy as np
import openvino  # noqa: F401
import sklearn.decomposition
import sklearn.svm  # noqa: F401

import tag2box.run.estimator  # noqa: F401
from tag2box.cli.app import main
from tag2box.runtime import stages
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


@contextmanager
def small_disk(folder, kilobytes):
    """Put `folder` on a disk of that size; afterwards it is where it was, with what it holds by then."""
    side = f"{folder}.disk"
    os.makedirs(side, exist_ok=True)
    shell(f"mount -t tmpfs -o size={kilobytes}k none {side} && cp -a {folder}/. {side}")
    shell(f"mount --move {side} {folder}")
    yield
    shell(f"mount --move {folder} {side} && find {folder} -mindepth 1 -delete && cp -a {side}/. {folder}")
    shell(f"umount {side}")


def shell(command):
    subprocess.run(command, shell=True, check=True)


def serve(words, last, log, disk):
    """Run one command and say how it ended."""
    receiver, sender = os.pipe()
    with small_disk(*disk) if disk else nullcontext():
        child = os.fork()
        if child == 0:
            be_tag2box(words, last, log, sender)
        os.close(sender)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.stdout.write(f"{status} {os.read(receiver, 99).decode() or 0}\n")
    sys.stdout.flush()
    os.close(receiver)


if __name__ == "__main__":
    stages.SHARD = 2  # many shards of few photos
    search_windows(
        np.zeros((64, 64, 3), np.uint8), WindowsConfig(mode="single")
    )  # kernels, loaded once for all
    for line in sys.stdin:
        serve(**json.loads(line))
