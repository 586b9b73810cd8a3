"""Toys to torture runs with, and the commands that are tortured."""

import pytest
from tests._toys import make_toys
from tests.torture._trials import SETS, Scenario, Server


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Where all run folders lie side by side: the way from each to the photos is the same."""
    place = tmp_path_factory.mktemp("torture")
    make_toys(place / "toys", 8)
    return place


@pytest.fixture(scope="session")
def server(place):
    server = Server(place / "log")
    yield server
    server.end()


@pytest.fixture(scope="session")
def scenarios(place, server):
    """Each command by its name: `run` from nothing, the others in a folder with two finished runs."""
    toys, twice = place / "toys", place / "twice"

    def learn(*more, workers=1):
        words = ["run", toys, "--tags", toys / "tags.csv", "--workers", workers, *SETS, *more]
        return lambda folder: [*words, "--out", folder]

    server.finish(Scenario("first", learn("--set", "features.whitening=0.1")), twice)
    server.finish(Scenario("second", learn()), twice)
    return {
        "run": Scenario("run", learn()),
        "run with workers": Scenario("run with workers", learn(workers=2)),
        "rerun": Scenario("rerun", learn("--set", "maps.ring=0.5"), twice),
        "detect": Scenario("detect", lambda run: ["detect", toys, "--run", run, "--workers", 1], twice),
        "export": Scenario("export", lambda run: ["export", run, "--format", "yolo"], twice),
        "clean": Scenario("clean", lambda run: ["clean", run, "--older"], twice),
    }
