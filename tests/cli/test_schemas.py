"""Every `--json` has its schema. The tests of the commands check each answer against it (`_schemas.py`)."""

import jsonschema
import pytest
from tests._events import correct, reviewed
from tests._review import copied
from tests._schemas import SCHEMAS, check, check_printed
from tests.cli.test_cli_docs import COMMANDS
from typer.testing import CliRunner

from tag2box.cli.app import app
from tag2box.run.folder import RunFolder

SPEAKING = [
    name for name, command in COMMANDS.items() if any("--json" in each.opts for each in command.params)
]


@pytest.mark.parametrize("name", SPEAKING)
def test_every_command_that_speaks_json_has_a_schema(name):
    assert name in SCHEMAS["$defs"]


def test_the_schemas_are_schemas_and_of_nothing_else():
    jsonschema.Draft202012Validator.check_schema(SCHEMAS)
    shared = {"look", "cost", "scores", "corloc", "figures", "voc table"}
    assert set(SCHEMAS["$defs"]) - shared == set(SPEAKING)


def test_a_wrong_answer_is_seen():
    with pytest.raises(jsonschema.ValidationError):
        check("report", {"report": 3})
    with pytest.raises(jsonschema.ValidationError):
        check("report", {"report": "a", "further": "b"})
    with pytest.raises(ValueError, match="not JSON compliant"):
        check("corloc", {"metric": "corloc", "mean": float("nan"), "classes": {}})


def test_the_commands_of_a_run_folder(review_run, tmp_path):
    run = copied(review_run, tmp_path)
    correct(RunFolder(run), reviewed("toy-00"))
    for words in (
        ["export", run, "--format", "csv"],
        ["report", run],
        ["clean", run],
        ["clean", run, "--older"],
        ["corrections", "export", run],
    ):
        answer = CliRunner().invoke(app, [*map(str, words), "--json"])
        assert answer.exit_code == 0, answer.output
        check_printed([*words, "--json"], answer.stdout)
