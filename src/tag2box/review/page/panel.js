// The side: the boxes and tags of the photo, how good the run is, and learning again.

import { describe } from "./stage.js";
import { tagOf } from "./store.js";

const $ = (id) => document.getElementById(id);

export function showPhoto(photo, classes, selected, { select, rename, setTag, color, asked, next }) {
  $("name").textContent = photo.name;
  const words = { open: "not reviewed", reviewed: "reviewed", skipped: "skipped" };
  $("about").textContent = `${words[photo.state]}${photo.random ? " · drawn at random" : ""}`;
  $("about").className = photo.state;
  $("box-list").replaceChildren(...photo.boxes.map((box) => boxRow(box, classes, selected, { select, rename, color })));
  $("tags").replaceChildren(...classes.map((name, n) => tagRow(name, n, tagOf(photo, name), setTag)));
  $("next-class").textContent = next;
  $("next-class").style.setProperty("--color", color(next));
  $("teaches").textContent = teaches(photo.boxes);
  showSuspect(photo.suspect, asked);
}

// What rejected boxes teach, in a line.
function teaches(boxes) {
  const names = [...new Set(boxes.filter((box) => box.state === "rejected").map((box) => `“no ${box.class}”`))];
  if (!names.length) return "";
  return `Where boxes are rejected, learning takes the place for ${names.join(", ")}. If the object is there and only the box is off, move the box instead.`;
}

// The tag of the photo that is most likely wrong, and why. asked: a person wants to check tags.
function showSuspect(suspect, asked) {
  $("suspect").hidden = !asked && !suspect?.likely;
  for (const button of $("suspect").querySelectorAll("button")) button.hidden = !suspect;
  if (!suspect) {
    $("suspect-text").textContent = "No tag of this photo looks wrong.";
    return;
  }
  const [says, others] = suspect.tag === 1 ? ["is tagged", "does not look like it"] : ["is not tagged", "looks like it"];
  const sure = suspect.likely ? "" : " Perhaps it is right all the same.";
  $("suspect-text").textContent = `This photo ${says} “${suspect.class}”, but by the other photos it ${others}.${sure}`;
}

function boxRow(box, classes, selected, { select, rename, color }) {
  const row = document.createElement("li");
  row.className = `${box.state}${box.id === selected ? " selected" : ""}`;
  row.style.setProperty("--color", color(box.class));
  const button = document.createElement("button");
  button.textContent = describe(box);
  button.addEventListener("click", () => select(box.id));
  const choice = document.createElement("select");
  choice.setAttribute("aria-label", `Class of ${describe(box)}`);
  choice.append(...classes.map((name) => new Option(name, name, false, name === box.class)));
  choice.addEventListener("change", () => rename(box, choice.value));
  row.append(button, choice);
  return row;
}

function tagRow(name, n, tag, setTag) {
  const label = document.createElement("label");
  const check = document.createElement("input");
  check.type = "checkbox";
  check.checked = tag === 1;
  check.indeterminate = tag === 0;
  check.dataset.tag = name;
  check.addEventListener("change", () => setTag(name, check.checked ? 1 : -1));
  label.append(check, ` ${name}`);
  if (n < 9) {
    const key = document.createElement("kbd");
    key.textContent = n + 1;
    key.title = `${n + 1}: the selected box is of this class`;
    label.append(" ", key);
  }
  return label;
}

const percent = (share) => `${Math.round(share * 100)}`;

function interval(row) {
  if (!row || !row.judged) return "–";
  const share = percent(row.right / row.judged);
  return `${share} % (${percent(row.low)}–${percent(row.high)}), ${row.right} of ${row.judged}`;
}

// From so many judged boxes on a share says something.
const FIRST = 5;

// What the next few judged boxes are worth: a goal that is near, not one that is far.
function further(row) {
  if (!row || row.left === 0) return row?.judged ? "All boxes are judged: the figures are exact." : "";
  if (row.judged < FIRST) {
    const step = Math.min(row.left, FIRST - row.judged);
    return `${step} more ${step === 1 ? "box" : "boxes"} of photos drawn at random ${step === 1 ? "gives" : "give"} a first figure.`;
  }
  const half = Math.round(50 * (row.high - row.low));
  if (half <= 5) return `The share of right boxes is known to ± ${half} points: enough.`;
  const step = Math.min(row.left, row.judged);
  const then = Math.max(5, Math.round(half / Math.sqrt(1 + step / row.judged)));
  return `Known to ± ${half} points. ${step} more ${step === 1 ? "box makes" : "boxes make"} it about ± ${then}.`;
}

export function showFigures(figures, before) {
  const told = figures.filter((row, i) => row.class === null || row.judged || before?.[i]?.judged);
  const rows = told.map((row) => {
    const i = figures.indexOf(row);
    const line = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = row.class ?? "all";
    const share = document.createElement("td");
    share.textContent = interval(row);
    if (before?.[i]?.judged) {
      const was = document.createElement("small");
      was.textContent = `before learning: ${interval(before[i])}`;
      share.append(document.createElement("br"), was);
    }
    line.append(head, share);
    return line;
  });
  $("further").textContent = further(figures[0]);
  $("figures").tBodies[0].replaceChildren(...rows);
}

export function showLearning(status) {
  const working = status.state === "working";
  $("learn").disabled = working;
  $("learning").hidden = !working;
  if (working) {
    const left = status.left === null ? "" : `, about ${time(status.left)} left`;
    $("learning").value = status.share;
    $("learning-text").textContent = `${status.label}${left}`;
  } else if (status.state === "failed") {
    $("learning-text").textContent = `It failed: ${status.reason}`;
  } else if (status.state === "done") {
    $("learning-text").textContent = `Learned in ${time(status.seconds)}.`;
  }
}

function time(seconds) {
  return seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`;
}
