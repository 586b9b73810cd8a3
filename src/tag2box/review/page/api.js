// Requests to the server. Corrections wait in a queue and go one after the other; what fails is sent again.

const STALE = 409;

// key: of the run that this page knows; renew: reads the run anew, where that has learned again.
export const known = { key: "", renew: async () => {} };

export function get(path) {
  return ask(path, { headers: { accept: "application/json" } });
}

export function post(path, content) {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(content ?? null) });
}

// Numbers of photos are those of one run, and go with its key. Events know a photo by its content: they are
// as true after the run was read anew.
async function ask(path, options) {
  for (;;) {
    const answer = await fetch(`${path}${path.includes("?") ? "&" : "?"}v=${known.key}`, options);
    if (answer.status !== STALE) return read(answer);
    await known.renew();
  }
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
