// Sends the chosen image to /detect and draws what comes back.
const file = document.getElementById("file");
const least = document.getElementById("least");
const canvas = document.getElementById("picture");
const answer = document.getElementById("answer");
const COLORS = ["#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#808000"];

function colorOf(name, names) {
  if (!names.includes(name)) names.push(name);
  return COLORS[names.indexOf(name) % COLORS.length];
}

async function draw(photo, found) {
  const picture = await createImageBitmap(photo);
  canvas.width = found.width;
  canvas.height = found.height;
  canvas.hidden = false;
  const pen = canvas.getContext("2d");
  pen.drawImage(picture, 0, 0, found.width, found.height);
  const width = Math.max(2, found.width / 300);
  const names = [];
  pen.lineWidth = width;
  pen.font = `${Math.round(8 * width)}px sans-serif`;
  for (const box of found.boxes) {
    const [x1, y1, x2, y2] = box.xyxy;
    pen.strokeStyle = pen.fillStyle = colorOf(box.class, names);
    pen.strokeRect(x1, y1, x2 - x1, y2 - y1);
    pen.fillText(`${box.class} ${box.score.toFixed(2)}`, x1 + 2 * width, y1 + 9 * width);
  }
}

async function ask() {
  const photo = file.files[0];
  if (!photo) return;
  answer.textContent = "…";
  canvas.hidden = true;
  const response = await fetch(`detect?min_score=${Number(least.value) || 0}`, { method: "POST", body: photo });
  const content = await response.json();
  answer.textContent = JSON.stringify(content, null, 2);
  if (response.ok) await draw(photo, content);
}

function say(error) {
  answer.textContent = String(error);
}

file.addEventListener("change", () => ask().catch(say));
least.addEventListener("change", () => ask().catch(say));
