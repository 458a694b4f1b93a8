// How the run is doing, at a glance.
import { LossChart } from './chart.js';
import { DASH, clock, count, fixed, rate, seconds, short } from './format.js';
import { Component, html } from './markup.js';

const EVENTS_SHOWN = 60;

/** Who says how far he is; a coordinator and a monitor compute nothing. */
export const trainers = (state) => state.peers.filter((peer) => peer.epoch !== null);

function Batch({ run }) {
  const share = run.target_batch_samples > 0 ? Math.min(1, run.samples / run.target_batch_samples) : 0;
  const next = run.eta_s === null ? `next step ${DASH}` : share >= 1 ? 'full: averaging' : `next step in ${seconds(run.eta_s)}`;
  return html`<section class="card batch" aria-labelledby="batch">
    <h2 id="batch">Epoch</h2>
    <p class="epoch" data-test="epoch">${count(run.epoch)}</p>
    <div class="fill" role="progressbar" aria-label="Samples of this epoch" aria-valuemin="0"
      aria-valuemax=${run.target_batch_samples} aria-valuenow=${Math.min(run.samples, run.target_batch_samples)}>
      <div key=${run.epoch} style=${{ transform: `scaleX(${share})` }}></div></div>
    <p class="under"><span><b>${count(run.samples)}</b> of ${count(run.target_batch_samples)} samples</span>
      <span>${next}</span></p>
  </section>`;
}

function Figure({ name, value, unit, hint }) {
  return html`<div class="number" title=${hint}><dt>${name}</dt><dd><b>${value}</b>${unit && html` <span>${unit}</span>`}</dd></div>`;
}

function Numbers({ state, live }) {
  const run = state.run;
  const peers = trainers(state);
  const differ = peers.filter((peer) => peer.hash_ok === false).length;
  return html`<dl class="card numbers">
    <${Figure} name="Peers" value=${count(peers.length)} unit=${differ > 0 && `${differ} differ`}
      hint="who tell how far they are; of them, who hold other parameters than the majority" />
    <${Figure} name="Samples/s" value=${rate(run.samples_per_s)} hint="all peers together" />
    <${Figure} name="Epoch takes" value=${seconds(live.epochSeconds)} hint="mean of the last half minute" />
    <${Figure} name="Training loss" value=${fixed(run.loss_train, 3)} hint="mean of peers" />
    <${Figure} name="Held-out loss" value=${fixed(live.heldout.loss.at(-1) ?? run.loss_heldout, 3)}
      hint="the last evaluation" />
    <${Figure} name="Checkpoint" value=${seconds(run.checkpoint_age_s)} unit=${run.checkpoint_age_s !== null && 'ago'}
      hint="saved by this node" />
  </dl>`;
}

const SAID = {
  'peer.joined': 'joined', 'peer.left': 'left', 'peer.lost': 'was lost', 'peer.resynced': 'took the state of the others',
  'peer.refused': 'was refused', 'round.committed': 'round committed', 'round.failed': 'round failed',
  'checkpoint.saved': 'checkpoint saved', 'eval.done': 'evaluated', alert: 'alert',
};

/** Epochs in a row become one line; newest first. */
function told(events) {
  const lines = [];
  for (const event of events) {
    const before = lines.at(-1);
    if (event.type === 'epoch.finished' && before?.first !== undefined) {
      before.first = event.epoch;
    } else if (event.type === 'epoch.finished') {
      lines.push({ id: event.id, event, first: event.epoch });
    } else {
      lines.push({ id: event.id, event });
    }
    if (lines.length === EVENTS_SHOWN) break;
  }
  return lines;
}

function line({ event, first }, names) {
  if (event.type === 'epoch.finished') {
    const epochs = first === event.epoch ? `epoch ${count(event.epoch)}` : `epochs ${count(first)} to ${count(event.epoch)}`;
    return html`${epochs} finished${event.data.loss != null && html`, loss <b>${fixed(event.data.loss, 3)}</b>`}`;
  }
  const who = event.peer && (names.get(event.peer) ?? short(event.peer));
  const text = event.data.text ?? event.data.reason ?? (event.data.loss != null && `loss ${fixed(event.data.loss, 3)}`);
  return html`${who && html`<b>${who}</b> `}${SAID[event.type] ?? event.type}${
    event.epoch !== null && ` at epoch ${count(event.epoch)}`}${text && `: ${text}`}`;
}

const TONE = { 'peer.left': 'quiet', 'epoch.finished': 'quiet', 'peer.lost': 'warn', 'peer.refused': 'warn',
  'round.failed': 'warn', alert: 'bad' };

function Events({ events, names }) {
  const lines = told(events);
  return html`<section class="card events" aria-labelledby="events"><h2 id="events">Events</h2>
    ${lines.length === 0 && html`<p class="none">nothing has happened yet</p>`}
    <ol tabindex="0" aria-label="Last events">${lines.map((each) => html`<li key=${each.first ?? `e${each.id}`}
      class=${TONE[each.event.type] ?? 'plain'}><time datetime=${each.event.time}>${clock(each.event.time)}</time>
      <span>${line(each, names)}</span></li>`)}</ol></section>`;
}

class Copy extends Component {
  state = { said: '' };

  async copy() {
    let said = 'copied';
    try {
      await navigator.clipboard.writeText(this.props.text);
    } catch {  // not allowed here: the text can be selected
      said = 'select it';
    }
    this.setState({ said });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.setState({ said: '' }), 2000);
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  render({ label }, { said }) {
    return html`<button type="button" aria-label=${`copy the ${label}`} onClick=${() => this.copy()}>
      <span aria-live="polite">${said || 'copy'}</span></button>`;
  }
}

function Join({ run }) {
  const row = (label, text) => html`<div class="join-row"><h3>${label}</h3>
    ${text ? html`<code>${text}</code><${Copy} label=${label} text=${text} />` : html`<p class="none">${DASH}</p>`}</div>`;
  return html`<section class="card join" aria-labelledby="join"><h2 id="join">Join</h2>
    ${row('command', run.join_command)}${row('link', run.join_link)}</section>`;
}

export function Run({ live, theme }) {
  const { state } = live;
  const names = new Map(state.peers.map((peer) => [peer.id, peer.name]));
  return html`<div class="run">
    <${Batch} run=${state.run} /><${Numbers} state=${state} live=${live} />
    <${LossChart} training=${live.training} heldout=${live.heldout} theme=${theme} />
    <${Events} events=${live.events} names=${names} /><${Join} run=${state.run} /></div>`;
}
