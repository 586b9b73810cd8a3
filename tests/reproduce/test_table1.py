import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import StratifiedKFold, cross_val_score
from tests._schemas import check
from typer.testing import CliRunner

from tag2box.cli.app import app
from tag2box.errors import InputError
from tag2box.mil import BagStackingCV
from tag2box.mil.scaling import mostly_zeros
from tag2box.reproduce import show_machines, table1
from tag2box.reproduce import show_table1 as show
from tag2box.reproduce.machines import ALL, COLUMNS, STACKED, machines
from tag2box.reproduce.mil_sets import SETS, load_set
from tag2box.reproduce.table1 import PAPER, Cell, run_table1


@pytest.fixture
def small(monkeypatch):
    """Grids of a few points: the machinery is tested here, not the figures."""

    def few(*, text):
        return {
            name: (machine, {key: values[-1:] for key, values in grid.items()} | _two(grid))
            for name, (machine, grid) in machines(text=text).items()
        }

    monkeypatch.setattr(table1, "machines", few)


def _two(grid):
    last = sorted(grid)[-1]
    return {last: grid[last][-2:]}


@pytest.fixture
def folder(tmp_path):
    """A set that is easy, under the names of two real ones: one dense, one sparse."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(40) % 2, 1, -1).astype(np.int8)
    X = rng.normal(size=(120, 5)) + 0.8 * np.repeat(y, 3)[:, None]
    offsets = np.arange(0, 121, 3)
    np.savez(tmp_path / "musk1.npz", X=X, offsets=offsets, y=y)
    csr = sparse.csr_array(X)
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape}
    np.savez(tmp_path / "trec1.npz", offsets=offsets, y=y, **parts)
    return tmp_path


def test_the_paper_has_its_table():
    assert tuple(PAPER) == SETS
    assert [max(PAPER[name]) for name in ("musk1", "elephant", "trec10")] == [81.7, 88.0, 84.3]


def test_protocols_choose_as_they_say():
    cell = Cell(
        "fox", 0, COLUMNS[0], [{"C": 1.0}, {"C": 2.0}], [[0.5, 1.0], [0.9, 0.6]], [[0.9, 0.1], [0.3, 0.8]]
    )
    assert cell.accuracy("paper") == pytest.approx(80)  # the better mean
    assert cell.accuracy("honest") == pytest.approx(55)  # point 0 in fold 0, point 1 in fold 1


def test_a_run_goes_on_where_it_stopped(small, folder, tmp_path, monkeypatch):
    out = tmp_path / "out"
    cells = run_table1(folder, ["musk1", "trec1"], [0], out, workers=1)
    assert len(cells) == 2 * len(COLUMNS)
    assert all(cell.accuracy("paper") > 80 for cell in cells)
    lost = sorted((out / "cells").iterdir())[0]
    lost.unlink()
    seen = []
    run_fold = table1._run_fold
    monkeypatch.setattr(table1, "_run_fold", lambda task: seen.append(task) or run_fold(task))
    assert run_table1(folder, ["musk1", "trec1"], [0], out, workers=1) == cells
    assert len(seen) == table1.FOLDS


def test_workers_do_not_change_the_answer(small, folder, tmp_path):
    one, two = (
        run_table1(folder, ["musk1"], [0], tmp_path / str(n), workers=n, honest=False) for n in (1, 2)
    )
    assert one == two


def test_the_command_writes_and_prints(small, folder, tmp_path):
    out = tmp_path / "out"
    arguments = ["reproduce", "table1", "--data", str(folder), "--sets", "musk1,trec1", "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--workers", "1", "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    check("reproduce table1", printed)
    assert printed == json.loads((out / "table1.json").read_text())
    assert set(printed["sets"]) == {"musk1", "trec1"}
    text = (out / "table1.md").read_text()
    assert "honest" in text
    assert "| musk1 |" in text
    result = CliRunner().invoke(app, [*arguments, "--workers", "1"])
    assert "LSVM" in result.stdout


def test_all_machines_side_by_side(small, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(table1, "FOLDS", 2)
    arguments = ["reproduce", "table1", "--all", "--data", str(folder), "--sets", "musk1,trec1"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path), "--workers", "1", "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    check("reproduce table1", printed)
    for row in printed["machines"].values():
        assert set(row) == {*ALL, "chosen", *STACKED}
        assert min(figures["paper"]["mean"] for figures in row.values()) > 70
    assert printed["published"]["attention (2018)"] == {"musk1": 89.2}  # it has no text
    text = (tmp_path / "table1-all.md").read_text()
    assert "Honest protocol" in text
    assert text.count("\n|  | musk1 | trec1 | mean | CPU s |\n") == 2
    assert text.count("\n| stacked | ") == text.count("\n| attention (2018) | 89.2 |  |  |  |") == 2
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path), "--workers", "1"])
    assert "…" not in result.stdout  # nothing is cut at the width of a terminal
    assert len(list((tmp_path / "cells").iterdir())) == 2 * len(ALL)  # no two under one name


def test_what_is_stacked_of_cells_is_bag_stacking(small, folder, tmp_path):
    """The column of the table is the public estimator, by nested cross-validation."""
    members = STACKED["stacked"]
    cells = run_table1(folder, ["musk1", "trec1"], [3], tmp_path, columns=members, workers=1)
    for cell in table1.stacked(cells, folder):
        bags, y = load_set(folder, cell.name)
        choices = table1.machines(text=False)  # three in ten of the toy's numbers are not 0
        machine = BagStackingCV(
            [choices[name] for name in members], cv=StratifiedKFold(3, shuffle=True, random_state=3)
        )
        outer = StratifiedKFold(10, shuffle=True, random_state=3)
        np.testing.assert_allclose(np.ravel(cell.fold_accuracy), cross_val_score(machine, bags, y, cv=outer))
        assert cell.accuracy("paper") == cell.accuracy("honest") > 80
    assert len(table1.stacked(cells, folder)) == 2
    assert table1.stacked([cell for cell in cells if cell.column != "NSK"], folder) == []


def test_a_machine_is_chosen_as_its_settings_are():
    """Fold by fold by the accuracy inside; by the paper's protocol the best mean of all."""
    grid = [{"C": 1.0}]
    one = Cell("fox", 0, ALL[0], grid, [[0.5], [0.9]], [[0.9], [0.3]])
    two = Cell("fox", 0, ALL[1], grid, [[1.0], [0.6]], [[0.1], [0.8]])
    assert show_machines.chosen_accuracy([one, two], "honest") == pytest.approx(55)
    assert show_machines.chosen_accuracy([one, two], "paper") == pytest.approx(80)


def test_what_was_published_has_its_place():
    assert all(len(figures) in (5, 12) for figures in show_machines.PUBLISHED.values())
    assert show_machines.PUBLISHED["song2014, best of four"][SETS.index("elephant")] == 88.0


def test_wrong_sets_are_named(folder, tmp_path):
    result = CliRunner().invoke(app, ["reproduce", "table1", "--data", str(folder), "--sets", "musk3"])
    assert isinstance(result.exception, InputError)
    assert "no set 'musk3'" in str(result.exception)
    with pytest.raises(InputError, match=r"fox\.npz is missing"):
        run_table1(folder, ["fox"], [0], tmp_path)


def test_missed_sets_are_said():
    cells = [Cell("fox", 0, column, [{"C": 1.0}], [[0.5]] * 10, None) for column in COLUMNS]
    table = show.as_dict(cells, honest=False)
    assert table["summary"]["missed"] == ["fox"]
    assert "missed: fox 50.0 against 63.0" in show.as_markdown(table)


def test_real_sets_are_as_described(mil_folder):
    bags = {name: load_set(mil_folder, name)[0] for name in SETS}
    assert [len(bags[name]) for name in ("musk1", "musk2", "fox", "trec10")] == [92, 102, 200, 400]
    assert [bags[name].n_instances for name in ("musk1", "musk2", "elephant", "trec9")] == [
        476,
        6598,
        1391,
        3300,
    ]
    assert [mostly_zeros(bags[name].X) for name in SETS] == [False] * 5 + [True] * 7


def test_musk1_is_learned(mil_folder, tmp_path, monkeypatch):
    one = {"C": [10.0], "mu": [1.0]}

    def settled(*, text):
        return {
            name: (machine, {key: one[key.split("__")[1]] for key in grid})
            for name, (machine, grid) in machines(text=text).items()
            if name in COLUMNS
        }

    monkeypatch.setattr(table1, "machines", settled)
    cells = run_table1(mil_folder, ["musk1"], [0], tmp_path, honest=False, workers=1)
    accuracy = {cell.column: cell.accuracy("paper") for cell in cells}
    assert accuracy["SLSVM w/ bias"] > 80
    assert min(accuracy.values()) > 65
