// What the node tells, kept up to date: its state once a second, its events as they come, the loss since it started.

const STATE_MS = 1000;     // between two looks at the state
const PATIENCE_MS = 4000;  // for one answer; then the connection counts as lost
const REOPEN_MS = 1000;    // before a stream that was refused is asked for again
const EVENTS_MAX = 300;
const EVENTS_FIRST = 100;  // of the past, when the page opens
const OVERLAP = 16;        // epochs of the curve that may still change
const EMPTY = { epoch: [], loss: [], loss_low: [], loss_high: [] };

async function ask(path) {
  const answer = await fetch(path, { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

/** `mine` up to `after`, then `theirs`. */
function joined(mine, theirs, after) {
  const keep = mine.epoch.filter((epoch) => epoch <= after).length;
  const column = (name) => [...mine[name].slice(0, keep), ...theirs[name]];
  return { epoch: column('epoch'), loss: column('loss'), loss_low: column('loss_low'), loss_high: column('loss_high') };
}

export class Live {
  state = null;
  training = EMPTY;
  heldout = EMPTY;
  events = [];          // newest first
  connected = false;
  lostSince = null;     // Date.now(), while the connection is lost
  withRounds = false;   // they are long: only asked for while somebody looks at them
  epochSeconds = null;  // measured here, over the last half minute

  #changed;
  #stream = null;
  #lastEvent = 0;
  #behind = false;      // the last look showed events that the stream had not brought
  #pid = null;
  #timer = null;
  #steps = [];          // [time, epoch] of the last half minute
  #asking = false;

  constructor(changed) {
    this.#changed = changed;
  }

  start() {
    document.addEventListener('visibilitychange', () => document.hidden || this.#look());
    this.#look();
  }

  /** Rounds are shown from now on, or no more. */
  wantRounds(wanted) {
    const news = wanted && !this.withRounds;
    this.withRounds = wanted;
    if (news) this.#look();
  }

  async #look() {
    if (this.#asking) return;
    this.#asking = true;
    clearTimeout(this.#timer);
    try {
      const whole = this.withRounds;
      const state = await ask(whole ? '/api/v1/state' : '/api/v1/state?rounds=0');
      if (!whole) state.rounds = this.state?.rounds ?? null;  // null: not asked for yet
      const restarted = this.#pid !== state.run.pid;
      if (restarted) this.#begin(state.run);
      const moved = restarted || state.run.epoch !== this.state.run.epoch;
      this.state = state;
      this.#measure(state);
      this.#watchStream(state.run.last_event_id);
      if (moved || this.lostSince !== null) await this.#readHistory();
      this.connected = true;
      this.lostSince = null;
    } catch {  // refused, silent, or not what we asked for: the same to who looks
      this.#lost();
    }
    this.#asking = false;
    this.#changed();
    this.#timer = setTimeout(() => this.#look(), STATE_MS);
  }

  #lost() {
    this.connected = false;
    this.lostSince ??= Date.now();
  }

  /** Another process answers than before: its events are counted anew. */
  #begin(run) {
    this.#pid = run.pid;
    this.#lastEvent = Math.max(0, run.last_event_id - EVENTS_FIRST);
    this.#steps = [];
    this.events = [];
    this.training = EMPTY;
    this.heldout = EMPTY;
    this.#open();
  }

  #measure(state) {
    const now = Date.parse(state.time) / 1000;
    this.#steps.push([now, state.run.epoch]);
    while (this.#steps[0][0] < now - 30) this.#steps.shift();
    const [since, from] = this.#steps[0];
    const epochs = state.run.epoch - from;
    this.epochSeconds = epochs > 0 ? (now - since) / epochs : null;
  }

  async #readHistory() {
    const seen = this.training.epoch;
    const after = seen.length > OVERLAP ? seen[seen.length - 1] - OVERLAP : -1;
    const history = await ask(after < 0 ? '/api/v1/history' : `/api/v1/history?after=${after}`);
    this.training = joined(this.training, history.training, after);
    this.heldout = joined(this.heldout, history.heldout, after);
  }

  #open() {
    this.#stream?.close();
    this.#behind = false;
    const stream = new EventSource(`/api/v1/events?after=${this.#lastEvent}`);
    this.#stream = stream;
    stream.onmessage = (message) => this.#take(JSON.parse(message.data));
    // the browser tries again by itself, with Last-Event-ID, unless it was refused
    stream.onerror = () => {
      if (stream !== this.#stream) return;
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => stream === this.#stream && this.#open(), REOPEN_MS);
      this.#look();
    };
  }

  /** A stream that says nothing while there is something to say is dead, whatever the browser believes. */
  #watchStream(newest) {
    const behind = newest > this.#lastEvent;
    if (behind && this.#behind && this.#stream.readyState === EventSource.OPEN) this.#open();
    this.#behind = behind;
  }

  #take(event) {
    if (event.id <= this.#lastEvent) return;
    this.#lastEvent = event.id;
    this.#behind = false;
    this.events.unshift(event);
    if (this.events.length > EVENTS_MAX) this.events.pop();
    this.#changed();
  }
}
