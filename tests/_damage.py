"""Bytes changed at random: flipped, cut, repeated, with what parsers stumble over put in."""

import io
import struct
import zipfile
import zlib

import numpy as np

from tag2box.runtime.arrays import sealed

# What parsers stumble over, put in as it is.
TOKENS = [
    *(b"\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xc2\x85"),
    *(b"\r", b"\n", b"\t", b'"', b"'", b",", b":", b";", b"{", b"}", b"[", b"]", b"<", b">", b"\\", b"- "),
    *(b"&a;", b"*a ", b"&a ", b"!!x ", b"..", b"../../", b"/"),
    *(b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"9" * 5000, b"null", b"true", b"\\ud800", b"\\u0000"),
    *(b"<!DOCTYPE a>", b"<?xml version='1.0' encoding='x'?>", b"<a>" * 2000, b"[" * 2000),
]


def mutant(content, suffix, rng):
    """`content` after one to three changes; half of the time inside of checksums, which would show them."""
    if suffix in INSIDE and rng.random() < 0.5:
        return INSIDE[suffix](content, rng)
    return _changed(content, rng)


def _changed(content, rng):
    for _ in range(1 + rng.integers(3) * rng.integers(2)):
        content = CHANGES[rng.integers(len(CHANGES))](content, rng)
    return content


def _in_png(content, rng):
    """One chunk changed, with the checksum that it then has."""
    chunks, at = [], 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        chunks.append(content[at + 4 : at + 8 + length])
        at += 12 + length
    which = rng.integers(len(chunks))
    chunks[which] = chunks[which][:4] + _changed(chunks[which][4:], rng)
    sealed = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    return content[:8] + b"".join(sealed)


def _in_zip(content, rng):
    """One file of the archive changed, with the checksum that it then has."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    which = list(files)[rng.integers(len(files))]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, _changed(data, rng) if name == which else data)
    return sealed(out.getvalue())


INSIDE = {".png": _in_png, ".npz": _in_zip}


def _part(content, rng):
    """The two ends of a part, mostly a short one."""
    start = int(rng.integers(0, len(content) + 1))
    return start, min(len(content), start + int(2 ** (rng.random() * np.log2(len(content) + 2))))


def _flip(content, rng):
    out = bytearray(content)
    for at in rng.integers(0, max(len(out), 1), rng.integers(1, 4)) if out else ():
        out[at] ^= 1 << rng.integers(8) if rng.random() < 0.5 else rng.integers(1, 256)
    return bytes(out)


def _cut(content, rng):
    return content[: rng.integers(0, len(content) + 1)]


def _remove(content, rng):
    start, end = _part(content, rng)
    return content[:start] + content[end:]


def _repeat(content, rng):
    start, end = _part(content, rng)
    return content[:end] + content[start:end] * int(rng.integers(1, 30)) + content[end:]


def _insert(content, rng):
    at = int(rng.integers(0, len(content) + 1))
    return content[:at] + TOKENS[rng.integers(len(TOKENS))] + content[at:]


def _overwrite(content, rng):
    start, end = _part(content, rng)
    token = TOKENS[rng.integers(len(TOKENS))]
    return content[:start] + token + content[min(end, start + len(token)) :]


CHANGES = (_flip, _flip, _flip, _flip, _cut, _remove, _repeat, _insert, _overwrite)
