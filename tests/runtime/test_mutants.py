"""Some damaged files of every kind that is read; `make torture` takes a thousand of each."""

from collections import Counter

import numpy as np
from tests._damage import mutant
from tests._kinds import kinds
from tests._mutants import check_mutants


def test_mutants_end_in_a_result_or_in_one_line(tmp_path):
    lines = check_mutants(tmp_path / "data", 0, 10)
    ends = Counter(outcome for _, _, outcome, _, _ in lines)
    assert (
        min(ends["read"], ends["refused"]) > 40
    )  # some changes are harmless: they reach far into the readers


def test_a_mutant_is_the_same_each_time(tmp_path):
    whole = {name: (file.read_bytes(), file.suffix) for name, file, _ in kinds(tmp_path)}
    for content, suffix in whole.values():
        first, again = (mutant(content, suffix, np.random.default_rng([5, 1])) for _ in range(2))
        assert first == again
