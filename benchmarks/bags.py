"""`SmoothLatentSVC` against MI-SVM by alternation on `LinearSVC`, ten folds of musk2; memory on trec1."""

import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from benchmarks import Line, data
from tag2box.mil.latent import SmoothLatentSVC
from tag2box.mil.scaling import InstanceScaler, PerInstance
from tag2box.mil.smoothing import segment_max
from tag2box.reproduce.mil_sets import load_set

ROUNDS, MAX_ALTERNATIONS = 3, 50
OURS = {"C": 1.0, "mu": 0.7, "tol": 1e-3}
MEMORY = """
import sys
from pathlib import Path
from tag2box.mil.latent import SmoothLatentSVC
from tag2box.mil import InstanceScaler, PerInstance
from tag2box.reproduce.mil_sets import load_set
bags, y = load_set(Path(sys.argv[1]), "trec1")
bags = PerInstance(InstanceScaler("normalize")).fit_transform(bags)
if sys.argv[2] == "fit":
    SmoothLatentSVC(C=10.0, mu=0.7).fit(bags, y)
status = open("/proc/self/status").read()  # the peak of this process; getrusage's counts its parent's too
print(int(status.split("VmHWM:")[1].split()[0]) / 1024, bags.X.nnz, *bags.X.shape)
"""


def mi_svm(bags, y, C):
    """Andrews et al. (2003): all negative instances and one of each positive bag, chosen anew each round."""
    positive = np.repeat(y > 0, bags.sizes)
    negatives, means = bags.X[~positive], np.array([bag.mean(axis=0) for bag in bags[y > 0]])
    chosen, last = means, None
    for _ in range(MAX_ALTERNATIONS):
        sign = np.r_[np.ones(len(chosen)), -np.ones(len(negatives))]
        svm = LinearSVC(C=C, random_state=0).fit(np.vstack([chosen, negatives]), sign)
        witness = segment_max(svm.decision_function(bags.X), bags.offsets)[1][y > 0]
        if last is not None and np.array_equal(witness, last):
            break
        chosen, last = bags.X[witness], witness
    return lambda test: np.where(segment_max(svm.decision_function(test.X), test.offsets)[0] > 0, 1, -1)


def ten_folds(bags, y, fit):
    """(seconds of the fits, mean accuracy)."""
    seconds, accuracies = 0.0, []
    for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(np.zeros(len(y)), y):
        scale = PerInstance(InstanceScaler("normalize")).fit(bags[train])
        inside, outside = scale.transform(bags[train]), scale.transform(bags[test])
        started = time.perf_counter()
        predict = fit(inside, y[train])
        seconds += time.perf_counter() - started
        accuracies.append((predict(outside) == y[test]).mean())
    return seconds, float(np.mean(accuracies))


def run():
    folder = data("mil")
    bags, y = load_set(folder, "musk2")
    jobs = {"ours": lambda b, t: SmoothLatentSVC(**OURS).fit(b, t).predict}
    jobs |= {C: (lambda b, t, C=C: mi_svm(b, t, C)) for C in (0.1, 1.0, 10.0)}
    best = dict.fromkeys(jobs, (np.inf, 0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(ROUNDS):
            for name, fit in jobs.items():
                best[name] = min(best[name], ten_folds(bags, y, fit))
    seconds, accuracy = best.pop("ours")
    for C, (rival_seconds, rival_accuracy) in best.items():
        quality = f"accuracy {accuracy:.3f} against {rival_accuracy:.3f}"
        rival = f"MI-SVM on LinearSVC, C={C}"
        yield Line(
            "ten folds of musk2", seconds, rival_seconds, "s", rival, quality, 12, accuracy, rival_accuracy
        )
    yield memory(folder)


def memory(folder):
    """Peak memory of a fit on trec1, less that of a process that only loads it, against a dense copy."""
    peaks = []
    for what in ("fit", "load"):
        command = [sys.executable, "-c", MEMORY, str(folder), what]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        peaks.append(float(answer[0]))
    rows, columns = int(answer[2]), int(answer[3])
    quality = f"whole process {peaks[0]:.0f} MB"
    added = max(peaks[0] - peaks[1], 1.0)
    return Line(
        "memory of a fit, trec1", added, rows * columns * 8 / 2**20, "MB", "X made dense", quality, 10
    )
