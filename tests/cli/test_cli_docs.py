"""Every command and option is in docs/commands.md, every setting with its default in docs/config.md."""

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tag2box.cli.app import app
from tag2box.pipeline import Config
from tag2box.runtime.checks import allowed
from tag2box.runtime.config import declarations, settings, toml_value

DOCS = Path(__file__).parents[2] / "docs"


def commands(group, place=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{place}{name} ")
        else:
            yield f"{place}{name}", command


COMMANDS = dict(commands(typer.main.get_command(app)))


def sections():
    parts = re.split(r"^## (.+)$", (DOCS / "commands.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text):
    """The first cell of every row of a table, and the rest of the row."""
    return {match[1]: match[2] for match in re.finditer(r"^\| (`[^|]+`) \|(.*)\|$", text, flags=re.MULTILINE)}


def test_every_command_has_its_section():
    assert set(sections()) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_there_and_no_other(name):
    options = [p for p in COMMANDS[name].params if p.param_type_name == "option" and p.name != "help"]
    known = {", ".join(f"`{word}`" for word in [*p.opts, *p.secondary_opts]) for p in options}
    told = {cell for cell in rows(sections()[name]) if cell.startswith("`--")}
    assert told == known


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example(name):
    help_text = CliRunner().invoke(app, [*name.split(), "--help"]).stdout
    assert f"Example: tag2box {name}" in help_text


def test_every_setting_is_there_with_its_default_and_what_it_takes():
    told = rows((DOCS / "config.md").read_text())
    takes = {name: allowed(kind) for name, kind in declarations(Config())}
    known = {f"`{name}`": f" `{toml_value(value)}` | {takes[name]} |" for name, value in settings(Config())}
    assert set(told) == set(known)
    wrong = {name: start for name, start in known.items() if not told[name].startswith(start)}
    assert wrong == {}
    assert all(row.split("|")[2].strip() for row in told.values())


def test_what_the_papers_settings_change_is_there():
    page = (DOCS / "config.md").read_text()
    told = re.findall(r"^\| ([A-Za-z_.]+) \| `(.*)` \| `(.*)` \|$", page, flags=re.MULTILINE)
    pairs = zip(settings(Config()), settings(Config.song2014()), strict=True)
    known = [(name, toml_value(ours), toml_value(theirs)) for (name, ours), (_, theirs) in pairs]
    assert told == [row for row in known if row[1] != row[2]]
