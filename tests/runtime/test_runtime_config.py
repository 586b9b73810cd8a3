from dataclasses import dataclass, field
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tag2box.errors import InputError
from tag2box.runtime.checks import Range
from tag2box.runtime.config import Settings, read_settings, settings, to_toml


@dataclass(frozen=True)
class Inner(Settings):
    whole: Annotated[int, Range(0, 2**62)] = 3
    real: float = 0.5
    text: str = "a"
    yes: bool = True
    maybe: int | None = 7
    sizes: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Outer(Settings):
    one: Inner = field(default_factory=Inner)
    two: Inner = field(default_factory=Inner)


inners = st.builds(
    Inner,
    st.integers(0, 2**62),
    st.floats(allow_nan=False),
    st.text(),
    st.booleans(),
    st.none() | st.integers(-9, 9),
    st.lists(st.integers(-9, 9)).map(tuple),
)


@given(st.builds(Outer, inners, inners))
def test_what_is_written_reads_back(tmp_path_factory, config):
    file = tmp_path_factory.mktemp("toml") / "config.toml"
    file.write_text(to_toml(config), encoding="utf-8")
    assert read_settings(Outer(), file) == config


def test_sets_win_over_the_file(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[one]\nwhole = 5\ntext = "from the file"\n')
    config = read_settings(
        Outer(), file, ["one.whole=6", "two.text=bare words", "two.maybe=none", "one.real=2"]
    )
    assert (config.one.whole, config.one.text, config.one.real) == (6, "from the file", 2.0)
    assert (config.two.text, config.two.maybe) == ("bare words", None)
    assert read_settings(Outer(), None, ["one.sizes=[4, 5]"]).one.sizes == (4, 5)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("one.hwole=3", "no setting one.hwole: did you mean one.whole"),
        ("on.whole=3", "no setting on: did you mean one"),
        ("one.whole=3.5", "one.whole must be a whole number from 0 to 4611686018427387904, but it is 3.5"),
        ("one.whole=true", "one.whole must be a whole number from 0 to 4611686018427387904, but it is True"),
        ("one.real=fast", "one.real must be a number, but it is 'fast'"),
        ("one.yes=1", "one.yes must be true or false"),
        ("one.sizes=3", "one.sizes must be a list, each a whole number"),
        ("one.maybe=x", 'one.maybe must be a whole number or "none"'),
        ("one=3", "one is a group of settings: set one of them, as one.whole=3"),
        ("one.whole", "--set takes stage.key=value"),
        ("one.whole=-1", "one.whole must be a whole number from 0 to 4611686018427387904, but it is -1"),
    ],
)
def test_mistakes_are_named(item, message):
    with pytest.raises(InputError) as error:
        read_settings(Outer(), None, [item])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_settings(Outer(), tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[one\n")
    with pytest.raises(InputError, match="is not TOML"):
        read_settings(Outer(), tmp_path / "bad.toml")


def test_settings_lists_every_one():
    assert [name for name, _ in settings(Outer())][:3] == ["one.whole", "one.real", "one.text"]
    assert len(list(settings(Outer()))) == 12
