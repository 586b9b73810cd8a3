"""`group_neighbors` against the obvious fast way and faiss' flat index, one core each, in CPU time.

The obvious fast way: per image one BLAS product, the maximum over its windows, then the k best images. It
gives neither windows nor distances, and rounds.
faiss has no search by image; the time is that of its flat index for the 1000 nearest windows of each query,
which is less than the same answer needs. Queries are all windows of a few images, as in a run.
"""

import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import Line, trained
from tag2box.cover.compared import compare as first_dimensions
from tag2box.neighbors.search import group_neighbors

ROUNDS = 3


def run():
    yield from compare("synthetic, voc6's size", *synthetic(1062, 260, 128), k=60)
    yield from compare("synthetic, VOC 2007's size", *synthetic(5011, 300, 256), k=125)
    yield from compare("synthetic, 512 dimensions", *synthetic(1062, 300, 512), k=60)
    yield from compare("isotropic", *synthetic(1062, 260, 128, isotropic=True), k=60)
    run = trained()
    described = run.result("described")
    compared = first_dimensions((described, np.ones(len(described), bool)), run.config.cover.dimensions)
    yield from compare("a run's own", compared.X.astype(np.float32), compared.offsets, k=60)


def synthetic(n_images, per, d, isotropic=False, seed=0):
    """Rows like whitened CNN features: unit length, variances falling as i^-0.6, windows of an image alike.

    A window is a mixture of one of its image's 6 topics (of 100 in all, some strong, some weak), of the
    image, of the window before it (overlap) and of itself. The strengths were chosen to match voc6's
    features in how much nearest distances differ between images (standard deviation of the score 0.10).
    Isotropic: directions drawn evenly.
    """
    rng = np.random.default_rng(seed)
    deviation = np.ones(d) if isotropic else np.arange(1, d + 1) ** -0.3
    topics = rng.standard_normal((100, d), np.float32)
    X = np.empty((n_images * per, d), np.float32)
    for i in range(n_images):
        x = rng.standard_normal((per, d), np.float32)
        if not isotropic:
            x[1::2] = 0.5 * x[1::2] + 0.87 * x[::2][: len(x[1::2])]
            mine = rng.uniform(0.3, 3, (6, 1)) * topics[rng.integers(0, 100, 6)]
            x += rng.uniform(0.3, 1, (per, 1)) * mine[rng.integers(0, 6, per)]
            x += 0.7 * rng.standard_normal(d)
        x *= deviation
        X[i * per : (i + 1) * per] = x / np.linalg.norm(x, axis=1, keepdims=True)
    return X, np.arange(n_images + 1) * per


def blas(X, offsets, queries, k, block=1024):
    """The k nearest images of each query, as sorted indices."""
    half = np.einsum("ij,ij->i", X, X) / 2
    found = []
    for b in range(0, len(queries), block):
        Q = np.ascontiguousarray(X[queries[b : b + block]].T)
        best = np.empty((len(offsets) - 1, Q.shape[1]), np.float32)
        for i in range(len(best)):
            part = slice(offsets[i], offsets[i + 1])
            scores = X[part] @ Q
            scores -= half[part, None]
            scores.max(axis=0, out=best[i])
        found.append(np.argpartition(-best, k - 1, axis=0)[:k].T)
    return np.sort(np.concatenate(found), axis=1)


def compare(name, X, offsets, k):
    images = np.random.default_rng(1).permutation(len(offsets) - 1)[:16]
    queries = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in images])[:2048]
    group_neighbors(X, offsets, queries[:8], k)  # compiles
    before = memory("VmRSS")
    reset_peak()
    found = group_neighbors(X, offsets, queries, k)
    peak = (memory("VmHWM") - before) / 1e6
    few = queries[:1024]
    with threadpool_limits(1):
        ours, rival = np.inf, np.inf
        for _ in range(ROUNDS):
            ours = min(ours, cpu(lambda: group_neighbors(X, offsets, queries, k, workers=1)))
            rival = min(rival, cpu(lambda: blas(X, offsets, few, k)))
        same = (np.sort(found.image[: len(few)], axis=1) == blas(X, offsets, few, k)).mean()
    per_query = ours / len(queries)
    quality = (
        f"{same:.2%} of the images the same; {peak:.0f} MB beside X; "
        f"all {len(X)} windows on two cores: {per_query * len(X) / 120:.1f} min"
    )
    ours, rival = per_query * 1e3, rival / len(few) * 1e3
    # The rival rounds too: of images at nearly the same distance it may take another.
    yield Line(f"{name}, a query", ours, rival, "ms", "BLAS and a max", quality, 0.9, same, 0.999)
    yield from against_faiss(name, X, queries[:256], per_query)


def against_faiss(name, X, queries, per_query):
    try:
        import faiss
    except ImportError:
        return
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    with threadpool_limits(1):
        rival = min(cpu(lambda: index.search(X[queries], 1000)) for _ in range(2)) / len(queries)
    yield Line(f"{name}, a query", per_query * 1e3, rival * 1e3, "ms", "faiss flat", "")


def cpu(job):
    start = time.process_time()
    job()
    return time.process_time() - start


def memory(field):
    """Bytes of this process, as Linux counts them; 0 elsewhere."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(field)), 0) * 1e3


def reset_peak():
    if (clear := Path("/proc/self/clear_refs")).exists():
        clear.write_text("5")
