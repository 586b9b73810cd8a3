"""The backend with a real Label Studio: `python examples/check_label_studio.py RUN` (a run over the toys).

Needs a running Label Studio (LABEL_STUDIO_URL) and an access token of it (LABEL_STUDIO_API_KEY), and one of
`tag2box serve-labelstudio RUN` (BACKEND, such as http://127.0.0.1:9090). It makes a project with photos,
connects the backend, asks for predictions, submits, updates and deletes an annotation, starts training, and
checks at each step what the run folder says. Not part of the suite: Label Studio is a server of its own.
"""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

from tag2box.corrections import read_state
from tag2box.run.folder import RunFolder

CONFIG = """<View><Image name="image" value="$image"/>
<RectangleLabels name="label" toName="image"><Label value="thing"/><Label value="other"/></RectangleLabels>
</View>"""
URL = os.environ.get("LABEL_STUDIO_URL", "http://127.0.0.1:8080")


def call(method, path, content=None):
    headers = {
        "Authorization": f"Token {os.environ['LABEL_STUDIO_API_KEY']}",
        "Content-Type": "application/json",
    }
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(URL + path, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def until(true, seconds=120):
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.5)
    return value


def main(run):
    opened = RunFolder(run)
    content = opened.contents[opened.images.ids.index("toy-00")]
    photo = lambda: read_state(run).photo(content)  # noqa: E731
    project = call("POST", "/api/projects/", {"title": "tag2box", "label_config": CONFIG})["id"]
    tasks = [{"data": {"image": f"/data/local-files/?d=toys/toy-0{n}.png"}} for n in (0, 2, 4)]
    call("POST", f"/api/projects/{project}/import", tasks)
    model = call("POST", "/api/ml/", {"url": os.environ["BACKEND"], "project": project, "title": "tag2box"})
    assert model["state"] == "CO", model
    print("connected, version", call("GET", f"/api/ml/{model['id']}")["model_version"])
    ids = [task["id"] for task in call("GET", f"/api/tasks/?project={project}")["tasks"]]
    action = {"selectedItems": {"all": True}, "ordering": []}
    call("POST", f"/api/dm/actions?id=retrieve_tasks_predictions&project={project}", action)
    predictions = [call("GET", f"/api/predictions/?task={task}") for task in ids]
    assert all(len(each) == 1 and each[0]["result"] for each in predictions)
    print("predictions:", [len(each[0]["result"]) for each in predictions])
    result = predictions[0][0]["result"]
    made = call("POST", f"/api/tasks/{ids[0]}/annotations/", {"result": result})
    until(lambda: photo().state == "reviewed")
    assert len(photo().accepted()) == len(result)
    assert all(box.found for box in photo().accepted())
    call("PATCH", f"/api/annotations/{made['id']}/", {"result": result[:1]})
    until(lambda: len(photo().accepted()) == 1)
    print("an annotation came in, and changed")
    before = RunFolder(run).keys[RunFolder(run).last_stage]
    call("POST", f"/api/ml/{model['id']}/train")
    until(lambda: RunFolder(run).keys[RunFolder(run).last_stage] != before, 600)
    print("learned again")
    call("DELETE", f"/api/annotations/{made['id']}/")
    until(lambda: photo().empty)
    print("and the annotation went")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
