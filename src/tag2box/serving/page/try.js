// Sends the chosen image to /detect and draws what comes back.
const file = document.getElementById("file");
const least = document.getElementById("least");
const canvas = document.getElementById("picture");
const answer = document.getElementById("answer");
let health; // the classes of the detector, and their colors

async function draw(photo, found) {
  health ??= await (await fetch("health")).json();
  const picture = await createImageBitmap(photo);
  canvas.width = found.width;
  canvas.height = found.height;
  canvas.hidden = false;
  const pen = canvas.getContext("2d");
  pen.drawImage(picture, 0, 0, found.width, found.height);
  const width = Math.max(2, found.width / 300);
  pen.lineWidth = width;
  pen.font = `${Math.round(8 * width)}px sans-serif`;
  for (const box of found.boxes) {
    const [x1, y1, x2, y2] = box.xyxy;
    pen.strokeStyle = pen.fillStyle = health.colors[health.classes.indexOf(box.class)];
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
