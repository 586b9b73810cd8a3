"""Refinement: what an iteration of L-BFGS costs, against one product with the windows held.

Bags of the size that a round on voc6 holds: 1062 images, 15 windows each, 512 dimensions.
"""

import time
from functools import partial

import numpy as np

from benchmarks import Line
from tag2box.mil.losses import LOSSES
from tag2box.mil.objective import Affine, BagProblem, minimize
from tag2box.mil.smoothing import segment_smoothed_max
from tag2box.training.refinement import RefineConfig

N_IMAGES, N_WINDOWS, D, ROUNDS = 1062, 15, 512, 30


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_IMAGES * N_WINDOWS, D)).astype(np.float32)
    X *= 20 / np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(np.arange(N_IMAGES) < 120, 1.0, -1.0)
    cost = np.where(y > 0, 2e-3, 1e-3)
    return BagProblem(Affine(X, 10.0), np.arange(N_IMAGES + 1) * N_WINDOWS, y, cost)


def run():
    bags = problem()
    config = RefineConfig()
    maximum = partial(segment_smoothed_max, mu=config.mu)

    def solve():
        loss = LOSSES["squared_hinge"]
        return minimize(bags, loss, maximum, np.zeros(D + 1), max_iter=200, tol=config.tol)

    theta = solve().theta  # compiles
    ours, products = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        with bags.A.few_threads():
            iterations = len(solve().trace) - 1
        ours.append((time.perf_counter() - start) / iterations)
        start = time.perf_counter()
        with bags.A.few_threads():
            for _ in range(20):
                bags.A.scores(theta)
        products.append((time.perf_counter() - start) / 20)
    mine, product = 1e3 * min(ours), 1e3 * min(products)
    quality = f"{mine / product:.2f} products an iteration, line search included; {iterations} iterations"
    yield Line(
        "an iteration of L-BFGS",
        mine,
        2 * product,
        "ms",
        "two products with the windows held",
        quality,
        1,
    )
