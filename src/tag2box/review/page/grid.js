// All photos as thumbnails. Only those in sight are in the page, however many there are.

const MOST = 200; // photos in one request
const $ = (id) => document.getElementById(id);

export class Grid {
  constructor(store, version, open, color) {
    Object.assign(this, { store, version, open, color, focused: 0 });
    this.view = $("grid-scroll");
    this.element = $("grid");
    this.cells = new Map();
    this.view.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.view);
  }

  // The side of a cell: it grows with the letters, as on large screens.
  get side() {
    return 11 * parseFloat(getComputedStyle(document.documentElement).fontSize);
  }

  get columns() {
    return Math.max(1, Math.floor(this.view.clientWidth / this.side));
  }

  show() {
    this.focused = this.store.at;
    this.clear();
    this.view.scrollTop = Math.max(0, (Math.floor(this.focused / this.columns) - 1) * this.side);
    this.draw();
    this.cells.get(this.focused)?.focus({ preventScroll: true });
  }

  clear() {
    this.element.replaceChildren();
    this.cells.clear();
  }

  // anew: what is said of photos in sight may have changed.
  draw(anew = false) {
    if ($("grid-view").hidden) return;
    if (anew) this.clear();
    const { columns, side } = this;
    const total = this.store.list.length;
    this.element.style.height = `${Math.ceil(total / columns) * side}px`;
    const first = Math.max(0, Math.floor(this.view.scrollTop / side) - 1) * columns;
    const last = Math.min(total, first + (Math.ceil(this.view.clientHeight / side) + 3) * columns);
    for (const [i, cell] of this.cells) {
      if (i < first || i >= last) {
        cell.remove();
        this.cells.delete(i);
      }
    }
    for (let i = first; i < last; i += 1) this.put(i, columns, side);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.fill(first, last), 60); // who scrolls past asks for nothing
  }

  put(i, columns, side) {
    let cell = this.cells.get(i);
    if (!cell) {
      cell = document.createElement("button");
      cell.className = "cell";
      cell.dataset.at = i;
      cell.setAttribute("role", "listitem");
      cell.addEventListener("click", () => this.open(i));
      this.cells.set(i, cell);
      this.element.append(cell);
    }
    cell.tabIndex = i === this.focused ? 0 : -1;
    cell.style.transform = `translate(${(i % columns) * side}px, ${Math.floor(i / columns) * side}px)`;
  }

  async fill(first, last) {
    const numbers = this.store.list.slice(first, last);
    for (let i = 0; i < numbers.length; i += MOST) await this.store.fetch(numbers.slice(i, i + MOST));
    numbers.forEach((number, k) => {
      const cell = this.cells.get(first + k);
      const record = this.store.records.get(number);
      if (cell && record && !cell.childElementCount) this.fillCell(cell, record);
    });
  }

  fillCell(cell, record) {
    cell.classList.add(record.state);
    cell.setAttribute("aria-label", `${record.name}, ${record.state}, ${record.boxes.length} boxes`);
    const frame = document.createElement("span");
    frame.className = "frame";
    const { side } = this;
    const scale = Math.min((0.91 * side) / record.width, (0.795 * side) / record.height); // its name is below
    frame.style.width = `${record.width * scale}px`;
    frame.style.height = `${record.height * scale}px`;
    const picture = document.createElement("img");
    picture.src = `thumb/${record.number}?v=${this.version()}`;
    picture.alt = "";
    frame.append(picture);
    for (const box of record.boxes.filter((each) => each.state !== "rejected")) {
      const mark = document.createElement("i");
      mark.className = box.state;
      mark.style.setProperty("--color", this.color(box.class));
      const [x1, y1, x2, y2] = box.xyxy.map((value) => value * scale);
      Object.assign(mark.style, { left: `${x1}px`, top: `${y1}px`, width: `${x2 - x1}px`, height: `${y2 - y1}px` });
      frame.append(mark);
    }
    const name = document.createElement("small");
    name.textContent = record.name;
    cell.append(frame, name);
  }

  // Arrow keys: another cell has the focus.
  step(dx, dy) {
    const to = Math.min(Math.max(this.focused + dx + dy * this.columns, 0), this.store.list.length - 1);
    this.focused = to;
    const top = Math.floor(to / this.columns) * this.side;
    if (top < this.view.scrollTop) this.view.scrollTop = top;
    const bottom = top + this.side - this.view.clientHeight;
    if (bottom > this.view.scrollTop) this.view.scrollTop = bottom;
    this.draw();
    this.cells.get(to)?.focus({ preventScroll: true });
  }
}
