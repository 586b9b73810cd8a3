// What the page knows: the list of photos, records of some, and the way back (undo) and forth (redo).

import { get, newId } from "./api.js";

const KEPT = 300; // records, so that memory stays bounded
const MOST_EVENTS = 200; // in one request
const SAME = 0.5; // an open box that overlaps an accepted one of its class by more is that object

function overlap(a, b) {
  const side = (n) => Math.max(0, Math.min(a[n + 2], b[n + 2]) - Math.max(a[n], b[n]));
  const area = (box) => (box[2] - box[0]) * (box[3] - box[1]);
  const shared = side(0) * side(1);
  return shared / (area(a) + area(b) - shared);
}

// The tag of a class as learning takes it: as it was set, or as the boxes say, or as the data has it.
export function tagOf(photo, name) {
  if (name in photo.tags) return photo.tags[name];
  if (photo.boxes.some((box) => box.class === name && box.state === "accepted")) return 1;
  return photo.state === "reviewed" ? -1 : photo.own_tags[name];
}

export class Store {
  constructor(send) {
    Object.assign(this, { send, list: [], at: 0, records: new Map(), undone: [], done: [], asked: new Map() });
  }

  get number() {
    return this.list[this.at];
  }

  get photo() {
    return this.records.get(this.number);
  }

  // Accept boxes of many photos in one step: of most of them there are no records here.
  acceptAll(changes) {
    if (!changes.length) return;
    const back = changes.map((change) => ({ ...change, state: "open" }));
    this.done.push({ photo: changes[0].photo, forth: changes, back });
    this.undone = [];
    this.apply(changes);
  }

  // The records that are here of a photo, by its content: it may be there twice.
  of(sha256) {
    return [...this.records.values()].filter((record) => record.sha256 === sha256);
  }

  put(record) {
    this.records.delete(record.number);
    this.records.set(record.number, record);
    for (const number of this.records.keys()) {
      if (this.records.size <= KEPT) break;
      if (number !== this.number) this.records.delete(number);
    }
  }

  // Records of these photos, from the server where they are not here.
  async fetch(numbers) {
    const missing = numbers.filter((n) => n !== undefined && !this.records.has(n) && !this.asked.has(n));
    if (missing.length) {
      const asking = get(`photos?n=${missing.join(",")}`);
      missing.forEach((n) => this.asked.set(n, asking));
      try {
        (await asking).photos.forEach((record) => this.put(record));
      } finally {
        missing.forEach((n) => this.asked.delete(n));
      }
    }
    await Promise.all(numbers.map((n) => this.asked.get(n)));
  }

  forget() {
    this.records.clear();
  }

  // Do what a person asked for: `changes` are events without their ids.
  act(changes) {
    const back = changes.map((change) => this.inverse(change)).reverse();
    this.done.push({ photo: changes[0].photo, forth: changes, back });
    this.undone = [];
    this.apply(changes);
  }

  // One step back, or forth again; the photo it was in, by its content.
  step(from, to, way) {
    const action = this[from].pop();
    if (!action) return undefined;
    this[to].push(action);
    this.apply(action[way]);
    return action.photo;
  }

  undo() {
    return this.step("done", "undone", "back");
  }

  redo() {
    return this.step("undone", "done", "forth");
  }

  apply(changes) {
    changes.forEach((change) => this.show(change));
    for (let i = 0; i < changes.length; i += MOST_EVENTS) {
      this.send(changes.slice(i, i + MOST_EVENTS).map((change) => ({ ...change, id: newId() })));
    }
  }

  // The change that takes this one back.
  inverse(change) {
    const [photo] = this.of(change.photo);
    if (change.set === "photo") return { ...change, state: photo.state };
    if (change.set === "tag") return { ...change, tag: photo.tags[change.class] ?? null };
    const box = photo.boxes.find((other) => other.id === change.box);
    if (!box) return { ...change, state: "open" };
    return { ...change, class: box.class, xyxy: [...box.xyxy], state: box.state };
  }

  // At once on the page, before the server has answered.
  show(change) {
    this.of(change.photo).forEach((photo) => this.showIn(photo, change));
  }

  showIn(photo, change) {
    if (change.set === "photo") photo.state = change.state;
    if (change.set === "tag") {
      if (change.tag === null) delete photo.tags[change.class];
      else photo.tags[change.class] = change.tag;
      if (photo.suspect?.class === change.class) photo.suspect = null; // it was looked at
    }
    if (change.set !== "box") return;
    const box = photo.boxes.find((other) => other.id === change.box);
    const now = { class: change.class, xyxy: [...change.xyxy], state: change.state };
    if (box) {
      Object.assign(box, now);
      if (change.state === "open" && !box.found) photo.boxes = photo.boxes.filter((other) => other !== box);
    } else if (change.state !== "open") {
      photo.boxes.push({ id: change.box, found: false, confidence: null, ...now });
    }
    if (change.state !== "accepted") return;
    const same = (other) => other.class === change.class && overlap(other.xyxy, change.xyxy) > SAME;
    photo.boxes = photo.boxes.filter((other) => other.state !== "open" || !same(other));
  }
}
