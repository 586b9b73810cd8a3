"""Refinement: what an iteration of L-BFGS costs, against one product with the windows held.

Bags of the size that a round on voc6 holds: 1062 images, 15 windows each, 512 dimensions.
"""

import time

import numpy as np

from benchmarks import Line
from tag2box.mil.affine import Affine
from tag2box.mil.lbfgs import lbfgs
from tag2box.mil.objective import BagProblem
from tag2box.mil.one_pass import SmoothedObjective
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
    objective = SmoothedObjective(bags, "squared_hinge", config.mu)
    zero, curvature = np.zeros(D + 1), bags.A.curvature(bags.cost.sum())
    theta = lbfgs(objective, zero, 200, config.tol, curvature=curvature).theta  # compiles
    ours, products = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        with bags.A.few_threads():
            iterations = len(lbfgs(objective, zero, 200, config.tol, curvature=curvature).trace) - 1
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
        2 / 1.3,
    )
