import sys

import pytest

from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime import progress as progress_module
from tag2box.runtime.executor import map_ordered, n_workers
from tag2box.runtime.files import cache_folder, write_whole
from tag2box.runtime.progress import progress_bars


def square(x):
    return x * x


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_with_progress(workers):
    seen = []
    results = map_ordered(
        square, range(20), workers=workers, progress=lambda *event: seen.append(event), label="squares"
    )
    assert list(results) == [x * x for x in range(20)]
    assert seen == [("squares", done, 20) for done in range(21)]


def test_nothing_to_do_and_wrong_workers():
    assert list(map_ordered(square, [])) == []
    assert n_workers(None) >= 1
    with pytest.raises(InputError, match="workers must be at least 1"):
        list(map_ordered(square, [1], workers=0))


def test_a_log_gets_lines_with_the_time_left(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 3.0, 4.0, 20.0])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(clock))
    with progress_bars() as show:
        for done in range(5):
            show("windows", done, 4)
    assert capsys.readouterr().err.splitlines() == ["windows: 2/4, 3 s left", "windows: 4/4"]


def test_a_stage_that_comes_again_is_timed_anew(monkeypatch, capsys):
    clock = iter([0.0, 10.0, 20.0, 500.0, 510.0, 520.0])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(clock))
    with progress_bars() as show:
        for done in (0, 1, 2, 0, 1, 2):
            show("features", done, 2)
    assert capsys.readouterr().err.splitlines() == 2 * ["features: 1/2, 10 s left", "features: 2/2"]


def test_the_time_left_counts_from_where_a_run_goes_on(monkeypatch, capsys):
    clock = iter([0.0, 30.0])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(clock))
    with progress_bars() as show:
        show("features", 900, 1000)
        show("features", 910, 1000)
    assert capsys.readouterr().err == "features: 910/1000, 270 s left\n"


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress_bars() as show:
        show("windows", 1, 1)
    assert "windows" in capsys.readouterr().err


def test_a_file_is_whole_or_absent(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_whole(path, "first")
    write_whole(path, b"second")
    assert path.read_text() == "second"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]
    (tmp_path / "usual.txt").touch()
    assert path.stat().st_mode == (tmp_path / "usual.txt").stat().st_mode
    with pytest.raises(Tag2BoxError, match="cannot write"):
        write_whole(path / "below a file", "x")


def test_caches_go_where_the_system_or_the_user_wants_them(tmp_path, monkeypatch):
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.setenv("TAG2BOX_CACHE", "~/mine")
    assert cache_folder().is_absolute()
    monkeypatch.delenv("TAG2BOX_CACHE")
    assert cache_folder().name == "tag2box" or cache_folder().parent.name == "tag2box"  # Windows adds "Cache"
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "tag2box"
