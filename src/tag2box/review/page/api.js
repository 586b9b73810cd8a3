// Requests to the server. Corrections wait in a queue and go one after the other; what fails is sent again.

export async function get(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  return read(answer);
}

export async function post(path, content) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(content ?? null),
  });
  return read(answer);
}

async function read(answer) {
  const content = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(content.error), { refused: answer.status < 500 });
  return content;
}

export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

export class Queue {
  // tell(words, failed): what to show; take(answer): called when events are on the server's disk.
  constructor(tell, take) {
    Object.assign(this, { tell, take, waiting: [], busy: false });
  }

  add(events) {
    this.waiting.push(events);
    this.tell("saving…", false);
    if (!this.busy) this.work();
  }

  async work() {
    this.busy = true;
    while (this.waiting.length) {
      try {
        const answer = await post("events", this.waiting[0]);
        this.waiting.shift();
        this.take(answer, this.waiting.length === 0);
      } catch (error) {
        if (error.refused) {
          this.waiting.shift();
          this.take(null, true);
          this.tell(`refused: ${error.message}`, true);
          continue;
        }
        this.tell("not saved: trying again", true);
        await new Promise((done) => setTimeout(done, 1000));
        continue;
      }
    }
    this.busy = false;
  }

  get pending() {
    return this.waiting.length > 0;
  }
}
