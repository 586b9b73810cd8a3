"""A thousand corrections by two pages at once: the server behind them is killed, the data set grows."""

import random
import threading
import time
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from PIL import Image
from tests._events import as_dict, by_name, random_event
from tests._review import Server, copied, own_run

from tag2box import read_images
from tag2box.corrections import CorrectionLog, State, read_state
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder

pytestmark = pytest.mark.torture

EVENTS, KILLS, GROWTH = 1000, 12, 8


class Tab:
    """A page that sends its own events in turn, and again until they are said to be saved, as pages do."""

    def __init__(self, name, photos, n):
        """photos: by their contents."""
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
    photos = RunFolder(run).contents
    tabs = [Tab("a", photos[:6], EVENTS // 2), Tab("b", photos[6:], EVENTS // 2)]
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
        first, again = as_dict(read_state(run)), as_dict(read_state(run))
        assert first == again
        ids = {event["id"] for event in CorrectionLog(run).read_new()}
        assert ids.issuperset(known[0])
        assert ids.issuperset(known[1])
        servers.append(Server(run))
    servers[-1].kill()
    assert [tab.refused for tab in tabs] == [[], []]
    assert len(servers) == KILLS + 1
    said = [{**event, "sha256": event["photo"]} for tab in tabs for event in tab.events]
    found = as_dict(read_state(run))
    assert _without_notes(found) == _without_notes(as_dict(State(said)))
    log = CorrectionLog(run)
    assert len({event["id"] for event in log.read_new()}) == EVENTS


def _without_notes(state):
    """Boxes without what the server adds: when, in which run, and in which share they were judged."""
    for photo in state.values():
        for box in photo.get("boxes", {}).values():
            for key in ("random", "run", "found"):
                box.pop(key, None)
    return state


class Reader:
    """A page that shows photos by number, says something of each, and loads anew when told to."""

    def __init__(self, address, seed):
        origin = "http://" + urlsplit(address).netloc
        self.client = httpx.Client(base_url=address, headers={"origin": origin}, timeout=60)
        self.rng, self.said, self.stale, self.wrong = random.Random(seed), {}, 0, []

    def work(self, ended):
        key, photos = None, []
        while not ended.is_set():
            if key is None:
                start = self.client.get("start").json()
                key, photos = start["key"], range(start["photos"])
            answer = self.client.get("photos", params={"n": self.rng.choice(photos), "v": key})
            time.sleep(self.rng.uniform(0, 0.02))  # a person looks
            if answer.status_code == 200:
                answer = self._say(key, *answer.json()["photos"])
            if answer.status_code == 409:
                self.stale, key = self.stale + 1, None
            elif answer.status_code != 200:
                self.wrong.append(answer.text)

    def _say(self, key, photo):
        state = self.rng.choice(["reviewed", "skipped"])
        event = {"set": "photo", "id": self.rng.randbytes(8).hex(), "photo": photo["sha256"], "state": state}
        answer = self.client.post("events", params={"v": key}, json=[event])
        if answer.status_code == 200:
            self.said[photo["name"], event["id"]] = state
        return answer


def test_two_tabs_and_a_growing_data_set(review_run, tmp_path):
    """Whatever is added meanwhile, and wherever: each click is stored for the photo that was in sight."""
    run = own_run(review_run, tmp_path)
    toys, ended, server = run.images.paths[0].parent, threading.Event(), Server(run.folder)
    tabs = [Reader(server.address, seed) for seed in (1, 2)]
    threads = [threading.Thread(target=tab.work, args=[ended]) for tab in tabs]
    for thread in threads:
        thread.start()
    try:
        for k in range(GROWTH):
            name = f"{'za'[k % 2]}-{k}.png"  # behind all others, and before them
            Image.fromarray(np.full((96, 96, 3), 20 * k, np.uint8)).save(toys / name)
            with (toys / "tags.csv").open("a") as tags:
                tags.write(f"{name},\n")
            fit_run(read_images(toys, toys / "tags.csv"), run.config, run.folder, workers=1)
            httpx.get(server.address + "start", timeout=60)  # a third tab
            time.sleep(1)
    finally:
        ended.set()
        for thread, tab in zip(threads, tabs, strict=True):
            thread.join()
            tab.client.close()
        server.kill()
    assert [tab.wrong for tab in tabs] == [[], []]
    assert all(tab.stale for tab in tabs)
    events = list(CorrectionLog(run.folder).read_new())
    assert {(e["photo"], e["id"]): e["state"] for e in events} == tabs[0].said | tabs[1].said
    assert len(by_name(run.folder).photos) > 12
