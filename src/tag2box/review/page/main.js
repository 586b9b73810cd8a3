// The page: what there is, what a person does, and how both are shown.

import { Queue, get, known, post } from "./api.js";
import { Grid } from "./grid.js";
import { fillHelp, listen } from "./keys.js";
import { showFigures, showLearning, showPhoto } from "./panel.js";
import { Stage } from "./stage.js";
import { Store, tagOf } from "./store.js";

const $ = (id) => document.getElementById(id);
let start;
let mapOn = false;
let awaited; // the photo to go to
let order; // the last that was asked for
let chosen = {}; // the class that a person chose last, and the photo that it was chosen in

const queue = new Queue(tell, taken);
const store = new Store((events) => queue.add(events));
const stage = new Stage((changes) => act(changes), () => showSide());
const color = (name) => start.colors[start.classes.indexOf(name)] ?? "#888";
const version = () => start.key;
const grid = new Grid(store, version, (at) => openGrid(false, at), color);
stage.color = color;
stage.drawClass = drawClass;

// The class of the next box: the one that was chosen last, where the photo has it or it was chosen here.
function drawClass() {
  const { photo } = store;
  const has = (name) => tagOf(photo, name) === 1;
  if (chosen.name && (chosen.photo === photo.sha256 || has(chosen.name))) return chosen.name;
  return $("class").value || start.classes.find(has) || chosen.name || start.classes[0];
}

function choose(name) {
  chosen = { name, photo: store.photo.sha256 };
}

const checksTags = () => $("order").value === "tags";

function tell(words, failed) {
  $("saved").textContent = words;
  $("saved").className = failed ? "failed" : words === "saved" ? "" : "waiting";
}

function showProgress(reviewed) {
  $("reviewed").textContent = `${reviewed} of ${start.photos} reviewed`;
}

function say(words) {
  $("said").textContent = words;
}

// The server has events on its disk (or refused them: then its word counts).
function taken(answer, last) {
  if (!answer) {
    store.forget();
    go(store.at);
    return;
  }
  if (!last) return; // later events are on their way: the page is ahead
  answer.photos.forEach((record) => store.put(record));
  showFigures(answer.figures, start.figures_before);
  showProgress(answer.reviewed);
  tell("saved", false);
  grid.draw(true);
  if (awaited) jump(awaited);
  else if (store.photo) show();
}

function act(changes) {
  if (!store.photo) return; // it is being loaded
  store.act(changes);
  $("news").open = false; // it was read
  show();
}

function show() {
  const photo = store.photo;
  if (!photo) return;
  stage.open(photo, `photo/${photo.number}?v=${version()}`);
  showSide();
  showMap();
}

function showSide() {
  const select = (id) => stage.select(id);
  const rename = (box, name) => {
    choose(name);
    act([stage.change(box.id, name, box.xyxy)]);
  };
  const setTag = (name, tag) => act([{ set: "tag", photo: store.photo.sha256, class: name, tag }]);
  const focused = document.activeElement?.dataset.tag;
  const about = { select, rename, setTag, color, asked: checksTags(), next: drawClass() };
  showPhoto(store.photo, start.classes, stage.selected, about);
  if (focused) document.querySelector(`[data-tag="${CSS.escape(focused)}"]`)?.focus();
}

function showMap() {
  const name = stage.box?.class ?? $("class").value;
  const shown = mapOn && name !== "";
  $("map").hidden = !shown;
  document.querySelector("[data-do=map]").setAttribute("aria-pressed", shown);
  const source = `map/${store.number}/${start.classes.indexOf(name)}?v=${version()}`;
  if (shown && $("map").getAttribute("src") !== source) $("map").src = source;
}

async function go(at) {
  store.at = Math.min(Math.max(at, 0), Math.max(store.list.length - 1, 0));
  const none = store.list.length === 0;
  $("empty").hidden = !none;
  $("stage").hidden = none;
  $("place").textContent = none ? "no photo" : `${store.at + 1} of ${store.list.length}`;
  if (none) return;
  const number = store.number;
  await store.fetch([number]);
  if (number !== store.number) return; // somebody was quicker
  show();
  prefetch();
}

// The photos that come next, so that they are there before they are asked for.
async function prefetch() {
  const next = store.list.slice(store.at + 1, store.at + 4);
  for (const number of next) new Image().src = `photo/${number}?v=${version()}`;
  if (next.length) await store.fetch(next);
}

let filters = 0; // how often something was chosen

// next: to the next photo to do, and not to the one in sight.
async function filter(next) {
  const latest = ++filters;
  const query = new URLSearchParams();
  for (const id of ["order", "show", "class", "low", "high", "search"]) query.set(id, $(id).value);
  const photo = next === true ? "" : (stage.photo?.sha256 ?? "");
  const { photos, here } = await get(`list?${query}&photo=${photo}`);
  if (latest !== filters) return; // something else was chosen since
  store.list = photos;
  const anew = checksTags() && order !== "tags"; // what is most suspect, not the photo in sight
  order = $("order").value;
  await go(anew ? 0 : Math.max(store.list.indexOf(here), 0));
  if (latest !== filters) return;
  if (!$("grid-view").hidden) grid.show();
  document.body.dataset.listed = query;
}

function openGrid(on, at) {
  $("grid-view").hidden = !on;
  $("photo-view").hidden = on;
  $("grid-button").setAttribute("aria-pressed", on);
  $("grid-button").textContent = on ? "Photo" : "Grid";
  if (on) grid.show();
  else go(at ?? grid.focused).then(() => stage.fit());
}

function judge(state) {
  const box = stage.box;
  if (!box) return;
  const gone = state === "rejected" && !box.found ? "open" : state;
  act([stage.change(box.id, box.class, box.xyxy, gone)]);
  say(`${box.class} ${state}`);
  const open = store.photo.boxes.find((other) => other.state === "open");
  if (open) stage.select(open.id);
}

// The suspect tag as it is, or the other way round.
function judgeTag(flip) {
  const suspect = store.photo?.suspect;
  if (!suspect || $("suspect").hidden) return; // nobody was asked
  const tag = flip ? -suspect.tag : suspect.tag;
  act([{ set: "tag", photo: store.photo.sha256, class: suspect.class, tag }]);
  say(`${suspect.class}: ${flip ? "changed" : "kept"}`);
  go(store.at + 1);
}

// All boxes of the listed photos that nobody has judged and that are at least so sure.
async function acceptSure() {
  if (!$("least").value) return; // no number is not 0
  const least = Number($("least").value) / 100;
  const changes = [];
  for (let i = 0; i < store.list.length; i += 200) {
    const { photos } = await get(`photos?n=${store.list.slice(i, i + 200).join(",")}`);
    for (const { sha256: photo, boxes } of photos) {
      const sure = boxes.filter((box) => box.state === "open" && box.confidence >= least);
      changes.push(...sure.map((box) => ({ set: "box", photo, box: box.id, class: box.class, xyxy: box.xyxy, state: "accepted" })));
    }
  }
  store.acceptAll(changes);
  $("accepted").textContent = changes.length === 1 ? "1 box accepted" : `${changes.length} boxes accepted`;
  grid.show();
}

function stepBox(by) {
  const boxes = store.photo?.boxes ?? [];
  if (!boxes.length) return;
  const at = boxes.findIndex((box) => box.id === stage.selected);
  stage.select(boxes[(at + by + boxes.length) % boxes.length].id);
  say(stage.box ? `${stage.box.class} selected` : "");
}

// To the photo with that content, at once or when the server has told its number.
async function jump(sha256) {
  const number = store.of(sha256)[0]?.number;
  awaited = number === undefined ? sha256 : undefined;
  if (number === undefined) return;
  let at = store.list.indexOf(number);
  if (at < 0) {
    store.list.splice(store.at, 0, number); // it no longer fits the filters
    at = store.at;
  }
  await go(at);
}

const actions = {
  next: () => go(store.at + 1),
  first: () => go(0),
  last: () => go(store.list.length - 1),
  previous: () => go(store.at - 1),
  accept: () => judge("accepted"),
  reject: () => judge("rejected"),
  remove: () => judge("rejected"),
  done() {
    if (!store.photo) return;
    const open = store.photo.boxes.filter((box) => box.state === "open");
    const accepted = open.map((box) => stage.change(box.id, box.class, box.xyxy));
    act([...accepted, { set: "photo", photo: store.photo.sha256, state: "reviewed" }]);
    say("reviewed");
    go(store.at + 1);
  },
  skip() {
    if (!store.photo) return;
    act([{ set: "photo", photo: store.photo.sha256, state: "skipped" }]);
    go(store.at + 1);
  },
  draw() {
    if (!store.photo) return;
    if (stage.drawing) stage.drawInMiddle();
    stage.setDrawing(!stage.drawing);
  },
  undo: () => jump(store.undo()).then(() => grid.draw(true)),
  redo: () => jump(store.redo()).then(() => grid.draw(true)),
  map() {
    mapOn = !mapOn;
    showMap();
  },
  nextBox: () => stepBox(1),
  previousBox: () => stepBox(-1),
  nudge: (dx, dy, resize) => stage.nudge(dx, dy, resize),
  gridStep: (dx, dy) => grid.step(dx, dy),
  rename(c) {
    const [box, name] = [stage.box, start.classes[c]];
    if (!name || !store.photo) return;
    choose(name);
    if (box) act([stage.change(box.id, name, box.xyxy)]);
    else showSide(); // the next box is of this class
  },
  keepTag: () => judgeTag(false),
  flipTag: () => judgeTag(true),
  tags: () => document.querySelector("[data-tag]")?.focus(),
  zoomIn: () => stage.zoom(1.25),
  zoomOut: () => stage.zoom(0.8),
  fit: () => stage.fit(),
  grid: () => openGrid($("grid-view").hidden),
  filters: () => $("order").focus(),
  search: () => $("search").focus(),
  learn: () => learn(),
  acceptSure: () => acceptSure(),
  help() {
    $("help").showModal();
    $("help").scrollTop = 0; // the button that closes it has the focus, at its end
  },
  escape() {
    const field = document.activeElement?.matches("input, select");
    document.activeElement?.blur();
    if (field) return;
    stage.setDrawing(false);
    if (!$("grid-view").hidden) openGrid(false);
    else stage.select(null);
  },
};

async function learn() {
  showLearning(await post("learn"));
  watch();
}

// How far learning is, until it is over.
async function watch() {
  const status = await get("learn");
  showLearning(status);
  if (status.state === "working") setTimeout(watch, 500);
  else if (status.state === "done") await begin(true);
}

async function begin(learned) {
  start = await get("start");
  known.key = start.key;
  document.title = `${start.run} · tag2box review`;
  $("run-name").textContent = $("run-name").title = start.run;
  showProgress(start.reviewed);
  const wanted = $("class").value || new URLSearchParams(location.search).get("class") || "";
  $("class").replaceChildren(new Option("all", ""), ...start.classes.map((name) => new Option(name, name)));
  $("class").value = start.classes.includes(wanted) ? wanted : "";
  showFigures(start.figures, start.figures_before);
  $("learned").textContent = start.moved === null ? "" : `Boxes moved in ${start.moved} photos: “Show: moved by learning”.`;
  const items = (lines) => lines.map((line) => Object.assign(document.createElement("li"), { textContent: line }));
  $("changes").replaceChildren(...items(start.changes));
  $("news").hidden = !start.changes.length;
  if (learned) $("news").open = true;
  $("left-out").replaceChildren(...items(start.left_out));
  store.forget();
  await filter(learned);
  document.body.dataset.ready = start.key;
}

for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", () => actions[button.dataset.do]());
}
$("filters").addEventListener("change", filter);
$("filters").addEventListener("submit", (event) => event.preventDefault());
let typing;
$("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(filter, 150);
});
$("grid-button").addEventListener("click", actions.grid);
$("help-button").addEventListener("click", actions.help);
$("help-close").addEventListener("click", () => $("help").close());
$("learn").addEventListener("click", learn);
// Another page, an import or a run may have been at work while this page was out of sight.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && start && !queue.pending) begin();
});
window.addEventListener("beforeunload", (event) => queue.pending && event.preventDefault());
known.renew = () => begin();
fillHelp();
listen(actions, () => !$("grid-view").hidden);
begin().then(() => start.learning.state === "working" && watch());
