"""A thousand corrections by two pages at once, while the server behind them is killed again and again."""

import random
import threading
import time
from urllib.parse import urlsplit

import httpx
import pytest
from tests._events import random_event
from tests._review import Server, copied

from tag2box.corrections import CorrectionLog, State, read_state

pytestmark = pytest.mark.torture

EVENTS, KILLS = 1000, 12


class Tab:
    """A page that sends its own events in turn, and again until they are said to be saved, as pages do."""

    def __init__(self, name, photos, n):
        self.events = [self._event(f"{name}-{k}", photos) for k in range(n)]
        self.saved = []
        self.refused = []

    @staticmethod
    def _event(name, photos):
        event = random_event(name)
        event["photo"] = random.Random(name).choice(photos)
        if "class" in event:
            event["class"] = {"dog": "thing", "cat": "other"}[event["class"]]
        return event

    def work(self, page):
        """Send everything; `page()` is the address of the server that is there now."""
        rng = random.Random(len(self.events))
        while len(self.saved) < len(self.events):
            some = self.events[len(self.saved) :][: rng.randint(1, 5)]
            address = page()
            origin = "http://" + urlsplit(address).netloc
            try:
                answer = httpx.post(address + "events", json=some, headers={"origin": origin}, timeout=30)
            except httpx.TransportError:  # killed, or not there yet
                time.sleep(0.02)
                continue
            if answer.status_code == 200:
                self.saved += answer.json()["saved"]
            else:
                self.refused.append(answer.text)
                return


def test_a_thousand_events_and_kills_lose_nothing(review_run, tmp_path):
    run = copied(review_run, tmp_path)
    servers = [Server(run)]
    tabs = [Tab("a", range(6), EVENTS // 2), Tab("b", range(6, 12), EVENTS // 2)]
    threads = [threading.Thread(target=tab.work, args=[lambda: servers[-1].address]) for tab in tabs]
    for thread in threads:
        thread.start()
    rng = random.Random(0)
    while any(thread.is_alive() for thread in threads):
        done = sum(len(tab.saved) for tab in tabs)
        if len(servers) > KILLS or done < EVENTS * len(servers) // (KILLS + 2):
            time.sleep(0.002)
            continue
        time.sleep(rng.uniform(0, 0.02))
        servers[-1].kill()
        known = [[*tab.saved] for tab in tabs]  # nothing is said from here on
        first, again = read_state(run).to_dict(), read_state(run).to_dict()
        assert first == again
        ids = {event["id"] for event in CorrectionLog(run).read_new()}
        assert ids.issuperset(known[0])
        assert ids.issuperset(known[1])
        servers.append(Server(run))
    servers[-1].kill()
    assert [tab.refused for tab in tabs] == [[], []]
    assert len(servers) == KILLS + 1
    names = {n: f"toy-{n:02d}" for n in range(12)}
    said = [{**event, "photo": names[event["photo"]]} for tab in tabs for event in tab.events]
    found = read_state(run).to_dict()
    assert _without_notes(found) == _without_notes(State(said).to_dict())
    log = CorrectionLog(run)
    assert len({event["id"] for event in log.read_new()}) == EVENTS


def _without_notes(state):
    """Boxes without what the server adds: when, in which run, and in which share they were judged."""
    for photo in state.values():
        for box in photo.get("boxes", {}).values():
            for key in ("random", "run", "found"):
                box.pop(key, None)
    return state
