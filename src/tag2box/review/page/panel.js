// The side: the boxes and tags of the photo, how good the run is, and learning again.

import { describe } from "./stage.js";

const $ = (id) => document.getElementById(id);

export function showPhoto(photo, classes, selected, { select, rename, setTag, hue }) {
  $("name").textContent = photo.name;
  const words = { open: "not reviewed", reviewed: "reviewed", skipped: "skipped" };
  $("about").textContent = `${words[photo.state]}${photo.random ? " · from the random share" : ""}`;
  $("about").className = photo.state;
  $("box-list").replaceChildren(...photo.boxes.map((box) => boxRow(box, classes, selected, { select, rename, hue })));
  $("tags").replaceChildren(...classes.map((name) => tagRow(name, photo.tags[name], setTag)));
}

function boxRow(box, classes, selected, { select, rename, hue }) {
  const row = document.createElement("li");
  row.className = `${box.state}${box.id === selected ? " selected" : ""}`;
  row.style.setProperty("--hue", hue(box.class));
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

function tagRow(name, tag, setTag) {
  const label = document.createElement("label");
  const check = document.createElement("input");
  check.type = "checkbox";
  check.checked = tag === 1;
  check.indeterminate = tag === 0;
  check.dataset.tag = name;
  check.addEventListener("change", () => setTag(name, check.checked ? 1 : -1));
  label.append(check, ` ${name}`);
  return label;
}

const percent = (share) => `${Math.round(share * 100)}`;

function interval(row) {
  if (!row || !row.judged) return "–";
  const share = percent(row.right / row.judged);
  return `${share} % (${percent(row.low)}–${percent(row.high)}), ${row.right} of ${row.judged}`;
}

function clicks(row) {
  if (row.left === 0) return "all judged";
  return row.more === 0 ? "enough" : `about ${row.more} more clicks`;
}

export function showFigures(figures, before) {
  const rows = figures.map((row, i) => {
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
    const more = document.createElement("td");
    more.textContent = clicks(row);
    line.append(head, share, more);
    return line;
  });
  $("figures").tBodies[0].replaceChildren(...rows);
}

export function showLearning(status) {
  const working = status.state === "working";
  $("learn").disabled = working;
  $("learning").hidden = !working;
  if (working) {
    $("learning").value = status.total ? status.done / status.total : 0;
    $("learning-text").textContent = `${status.label}: ${status.done} of ${status.total}`;
  } else if (status.state === "failed") {
    $("learning-text").textContent = `It failed: ${status.reason}`;
  } else if (status.state === "done") {
    $("learning-text").textContent = `Learned in ${status.seconds} s.`;
  }
}
