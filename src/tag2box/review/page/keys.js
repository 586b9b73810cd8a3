// Every key and what it does: one table for the keyboard and for the help.

const $ = (id) => document.getElementById(id);

export const KEYS = [
  ["ArrowRight n", "next", "next photo"],
  ["ArrowLeft p", "previous", "photo before"],
  ["Home", "first", "first photo"],
  ["End", "last", "last photo"],
  ["Enter", "done", "accept the boxes not judged yet, all objects have their box, next"],
  ["a", "accept", "accept the selected box"],
  ["x", "reject", "reject the selected box: there is no such object at its place"],
  ["Delete Backspace", "remove", "delete the selected box; one that was found is rejected"],
  ["d", "draw", "draw a box, also over others; again: put one in the middle"],
  ["] b", "nextBox", "select the next box"],
  ["[", "previousBox", "select the box before"],
  ["Shift+Arrows", "", "move the selected box; pan where none is selected"],
  ["Alt+Arrows", "", "resize the selected box"],
  ["1 … 9", "", "the class of the selected box, and of the next"],
  ["y", "keepTag", "the suspect tag is right, next photo"],
  ["w", "flipTag", "the suspect tag is wrong: change it, next photo"],
  ["t", "tags", "to the tags; Space changes one"],
  ["s", "skip", "skip this photo"],
  ["u Ctrl+z", "undo", "undo"],
  ["r Ctrl+y Ctrl+Shift+z", "redo", "redo"],
  ["m", "map", "where the class stands out: its object map"],
  ["+ =", "zoomIn", "zoom in"],
  ["-", "zoomOut", "zoom out"],
  ["0", "fit", "the whole photo"],
  ["g", "grid", "grid, or photo"],
  ["f", "filters", "to the filters"],
  ["/", "search", "search by name"],
  ["l", "learn", "learn again"],
  ["Escape", "escape", "select nothing; leave a field or the grid"],
  ["?", "help", "these keys"],
];

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function listen(actions, inGrid) {
  const known = new Map(KEYS.flatMap(([keys, name]) => (name ? keys.split(" ").map((key) => [key, name]) : [])));
  document.addEventListener("keydown", (event) => {
    if ($("help").open) return;
    const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
    if (typing && event.key !== "Escape") return;
    if (event.target.matches("button, input") && (event.key === "Enter" || event.key === " ")) return;
    const arrow = ARROWS[event.key];
    if (arrow && inGrid()) {
      actions.gridStep(...arrow);
    } else if (arrow && (event.shiftKey || event.altKey)) {
      actions.nudge(...arrow, event.altKey);
    } else if (/^[1-9]$/.test(event.key) && !event.ctrlKey && !event.metaKey) {
      actions.rename(Number(event.key) - 1);
    } else {
      const control = event.ctrlKey || event.metaKey ? "Ctrl+" : "";
      const name = known.get(control + (control && event.shiftKey ? "Shift+" : "") + (event.key.length === 1 ? event.key.toLowerCase() : event.key));
      if (!name || event.altKey) return;
      actions[name]();
    }
    event.preventDefault();
  });
}

export function fillHelp() {
  const rows = KEYS.flatMap(([keys, , meaning]) => {
    const term = document.createElement("dt");
    for (const key of keys === "1 … 9" ? [keys] : keys.split(" ")) {
      const cap = document.createElement("kbd");
      cap.textContent = key.replace(/^Arrow(?!s)/, "");
      term.append(cap, " ");
    }
    const text = document.createElement("dd");
    text.textContent = meaning;
    return [term, text];
  });
  $("keys").replaceChildren(...rows);
  for (const [keys, name, meaning] of KEYS) {
    const button = name && document.querySelector(`button[data-do=${name}]`);
    if (button) button.title = `${meaning} (${keys.split(" ")[0].replace("Arrow", "")})`;
  }
}
