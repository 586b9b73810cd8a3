"""docs/schemas.json: what each command prints with --json."""

import json
from pathlib import Path

import jsonschema

SCHEMAS = json.loads((Path(__file__).parents[1] / "docs" / "schemas.json").read_text())


def check(command, answer):
    """Raise where the answer is not what is documented of that command, or is no JSON at all."""
    json.dumps(answer, allow_nan=False)
    jsonschema.validate(answer, {"$ref": f"#/$defs/{command}", "$defs": SCHEMAS["$defs"]})


def check_printed(words, text):
    """The same for what `tag2box WORDS` printed, where it was asked for JSON."""
    if "--json" in words:
        both = " ".join(map(str, words[:2]))
        check(both if both in SCHEMAS["$defs"] else str(words[0]), json.loads(text))
