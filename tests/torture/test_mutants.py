"""A thousand damaged files of every kind that is read: each ends in a result or in one line."""

import pytest
from tests._mutants import check_mutants

pytestmark = pytest.mark.torture


@pytest.mark.parametrize("seed", [1])
def test_a_thousand_mutants_of_every_kind_end_well(tmp_path, seed):
    lines = check_mutants(tmp_path / "data", seed, 1000)
    assert len(lines) >= 38_000
