// The photo with its boxes: zoom, pan, draw, move, resize, by mouse, pen and touch.

import { newId } from "./api.js";

const HANDLES = ["n", "s", "w", "e", "nw", "ne", "sw", "se"]; // corners lie over edges
const SMALLEST = 4; // pixels of the photo
const MARGIN = 24; // around the photo, for the handles and names of boxes at its edge
const $ = (id) => document.getElementById(id);

export class Stage {
  // act(changes): what a person did; pick(): another box is selected.
  constructor(act, pick) {
    Object.assign(this, { act, pick, selected: null, drawing: false, drawClass: () => "", view: null });
    this.element = $("stage");
    this.fingers = new Map();
    this.element.addEventListener("pointerdown", (event) => this.down(event));
    this.element.addEventListener("pointermove", (event) => this.move(event));
    this.element.addEventListener("pointerleave", () => this.guide(null));
    for (const name of ["pointerup", "pointercancel"]) {
      this.element.addEventListener(name, (event) => this.up(event, name === "pointercancel"));
    }
    this.element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => this.fit()).observe(this.element);
  }

  open(photo, source) {
    const same = this.photo && photo && this.photo.sha256 === photo.sha256;
    this.photo = photo;
    if (!same) {
      this.selected = photo.boxes.find((box) => box.state === "open")?.id ?? photo.boxes[0]?.id ?? null;
      $("photo").src = source;
      $("photo").alt = `Photo ${photo.name}`;
      this.fit();
    } else {
      this.draw();
    }
  }

  get box() {
    return this.photo?.boxes.find((box) => box.id === this.selected);
  }

  select(id) {
    this.selected = id;
    this.draw();
    this.pick();
  }

  // The whole photo in the middle.
  fit() {
    if (!this.photo) return;
    const { clientWidth: w, clientHeight: h } = this.element;
    const scale = Math.min((w - 2 * MARGIN) / this.photo.width, (h - 2 * MARGIN) / this.photo.height);
    this.smallest = scale;
    this.view = { scale, x: (w - this.photo.width * scale) / 2, y: (h - this.photo.height * scale) / 2 };
    this.draw();
  }

  // Zoom by a factor about a point of the stage.
  zoom(factor, x = this.element.clientWidth / 2, y = this.element.clientHeight / 2) {
    const scale = Math.min(Math.max(this.view.scale * factor, this.smallest * 0.5), this.smallest * 40);
    const by = scale / this.view.scale;
    this.view = { scale, x: x - (x - this.view.x) * by, y: y - (y - this.view.y) * by };
    this.draw();
  }

  pan(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.draw();
  }

  wheel(event) {
    event.preventDefault();
    const { x, y } = this.at(event);
    this.zoom(Math.exp(-event.deltaY * 0.002), x, y);
  }

  at(event) {
    const around = this.element.getBoundingClientRect();
    return { x: event.clientX - around.left, y: event.clientY - around.top };
  }

  inPhoto({ x, y }) {
    const clamp = (value, most) => Math.min(Math.max(value, 0), most);
    return {
      x: clamp((x - this.view.x) / this.view.scale, this.photo.width),
      y: clamp((y - this.view.y) / this.view.scale, this.photo.height),
    };
  }

  // Where the whole photo is in sight there is nothing to pan: a drag beside the boxes draws one.
  drawsAt(event) {
    const whole = this.view.scale <= this.smallest * 1.01;
    return this.drawing || (event.pointerType !== "touch" && whole && !event.target.closest(".box"));
  }

  down(event) {
    if (!this.photo || event.button > 0) return;
    this.fingers.set(event.pointerId, this.at(event));
    this.element.setPointerCapture(event.pointerId);
    if (this.fingers.size === 2) {
      this.gesture = null;
      this.draw();
      return;
    }
    const start = this.inPhoto(this.at(event));
    const target = event.target.closest(".box");
    if (this.drawsAt(event)) {
      this.gesture = { kind: "draw", start, xyxy: null };
    } else if (target) {
      if (this.selected !== target.dataset.id) this.select(target.dataset.id);
      const kind = event.target.dataset.handle ? "resize" : "move";
      this.gesture = { kind, start, handle: event.target.dataset.handle, from: [...this.box.xyxy], xyxy: null };
    } else {
      this.gesture = { kind: "pan", last: this.at(event) };
    }
    event.preventDefault();
  }

  move(event) {
    if (this.photo) this.guide(this.drawsAt(event) ? this.at(event) : null);
    if (!this.fingers.has(event.pointerId)) return;
    if (this.fingers.size === 2) {
      this.pinch(event);
      return;
    }
    const now = this.at(event);
    this.fingers.set(event.pointerId, now);
    const gesture = this.gesture;
    if (!gesture) return;
    if (gesture.kind === "pan") {
      this.pan(now.x - gesture.last.x, now.y - gesture.last.y);
      gesture.last = now;
      return;
    }
    const here = this.inPhoto(now);
    if (gesture.kind === "draw") gesture.xyxy = between(gesture.start, here);
    else gesture.xyxy = shifted(gesture.from, here.x - gesture.start.x, here.y - gesture.start.y, gesture.handle, this.photo);
    this.guide(gesture.kind === "move" ? null : now);
    this.draw();
  }

  // Lines across the photo through the point, which show what a new side will touch.
  guide(point) {
    $("guides").hidden = !point;
    if (!point) return;
    $("guides").style.setProperty("--x", `${point.x}px`);
    $("guides").style.setProperty("--y", `${point.y}px`);
  }

  pinch(event) {
    const [a, b] = this.fingers.values();
    const before = { d: Math.hypot(a.x - b.x, a.y - b.y), x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    this.fingers.set(event.pointerId, this.at(event));
    const [c, d] = this.fingers.values();
    const after = { d: Math.hypot(c.x - d.x, c.y - d.y), x: (c.x + d.x) / 2, y: (c.y + d.y) / 2 };
    this.view.x += after.x - before.x;
    this.view.y += after.y - before.y;
    this.zoom(after.d / Math.max(before.d, 1), after.x, after.y);
  }

  up(event, cancelled) {
    if (!this.fingers.delete(event.pointerId)) return;
    const gesture = this.gesture;
    this.gesture = null;
    this.guide(null);
    if (gesture?.xyxy && !cancelled && isBox(gesture.xyxy)) {
      const old = this.box;
      const id = gesture.kind === "draw" ? newId() : old.id;
      const name = gesture.kind === "draw" ? this.drawClass() : old.class;
      if (gesture.kind === "draw") this.selected = id;
      this.setDrawing(false);
      this.act([this.change(id, name, gesture.xyxy)]);
    } else {
      if (gesture?.kind === "draw") this.select(null); // a click beside the boxes
      this.draw();
    }
  }

  change(id, name, xyxy, state = "accepted") {
    return { set: "box", photo: this.photo.sha256, box: id, class: name, xyxy, state };
  }

  setDrawing(on) {
    this.drawing = on;
    this.element.classList.toggle("drawing", on);
    document.querySelector("[data-do=draw]").setAttribute("aria-pressed", on);
  }

  // By keyboard: move the selected box by a share of the photo, or its lower right corner.
  nudge(dx, dy, resize) {
    const box = this.box;
    if (!box) {
      this.pan(-dx * 80, -dy * 80);
      return;
    }
    const step = Math.max(this.photo.width, this.photo.height) / 100;
    const xyxy = shifted(box.xyxy, dx * step, dy * step, resize ? "se" : undefined, this.photo);
    if (isBox(xyxy)) this.act([this.change(box.id, box.class, xyxy)]);
  }

  // By keyboard: a new box in the middle.
  drawInMiddle() {
    const { width: w, height: h } = this.photo;
    const id = newId();
    this.selected = id;
    this.act([this.change(id, this.drawClass(), [w / 4, h / 4, (3 * w) / 4, (3 * h) / 4])]);
  }

  place(element, [x1, y1, x2, y2]) {
    const { scale, x, y } = this.view;
    element.style.transform = `translate(${x1 * scale + x}px, ${y1 * scale + y}px)`;
    element.style.width = `${(x2 - x1) * scale}px`;
    element.style.height = `${(y2 - y1) * scale}px`;
  }

  draw() {
    if (!this.photo || !this.view) return;
    const whole = [0, 0, this.photo.width, this.photo.height];
    this.place($("photo"), whole);
    this.place($("map"), whole);
    const focused = document.activeElement?.closest?.(".box")?.dataset.id;
    const elements = this.photo.boxes.map((box) => this.drawn(box));
    if (this.gesture?.kind === "draw" && this.gesture.xyxy) {
      const fresh = document.createElement("div");
      fresh.className = "box accepted selected";
      fresh.style.setProperty("--color", this.color(this.drawClass()));
      this.place(fresh, this.gesture.xyxy);
      elements.push(fresh);
    }
    $("boxes").replaceChildren(...elements);
    if (focused) $("boxes").querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  drawn(box) {
    const element = document.createElement("div");
    const selected = box.id === this.selected;
    const moving = selected && this.gesture && this.gesture.kind !== "draw" && this.gesture.xyxy;
    element.className = `box ${box.state}${selected ? " selected" : ""}`;
    element.dataset.id = box.id;
    element.tabIndex = 0;
    element.setAttribute("role", "button");
    element.setAttribute("aria-pressed", selected);
    element.setAttribute("aria-label", describe(box));
    element.style.setProperty("--color", this.color(box.class));
    element.addEventListener("focus", () => this.selected !== box.id && this.select(box.id));
    const label = document.createElement("span");
    label.textContent = box.confidence === null ? box.class : `${box.class} ${Math.round(box.confidence * 100)} %`;
    element.append(label);
    if (selected) element.append(...HANDLES.map(handle));
    this.place(element, moving || box.xyxy);
    return element;
  }
}

export function describe(box) {
  const origin = box.found ? "found earlier" : "drawn"; // before the run learned again it was elsewhere
  const sure = box.confidence === null ? origin : `${Math.round(box.confidence * 100)} %`;
  return `${box.class}, ${sure}, ${box.state === "open" ? "not judged" : box.state}`;
}

function handle(name) {
  const element = document.createElement("i");
  element.dataset.handle = name;
  return element;
}

function between(a, b) {
  return [Math.min(a.x, b.x), Math.min(a.y, b.y), Math.max(a.x, b.x), Math.max(a.y, b.y)];
}

function isBox([x1, y1, x2, y2]) {
  return x2 - x1 >= SMALLEST && y2 - y1 >= SMALLEST;
}

// The box moved, or its sides at one handle ("n", "se"), within the photo.
function shifted([x1, y1, x2, y2], dx, dy, handle, { width, height }) {
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
  if (!handle) {
    const [x, y] = [clamp(dx, -x1, width - x2), clamp(dy, -y1, height - y2)];
    return [x1 + x, y1 + y, x2 + x, y2 + y];
  }
  const side = (name, value, by, most) => (handle.includes(name) ? clamp(value + by, 0, most) : value);
  const a = { x: side("w", x1, dx, width), y: side("n", y1, dy, height) };
  return between(a, { x: side("e", x2, dx, width), y: side("s", y2, dy, height) });
}
