// Everybody in the run, one row each.
import { DASH, byteRate, count, percent, rate, seconds, short } from './format.js';
import { Component, html } from './markup.js';

const WORDS = { open: 'open', outbound_only: 'outbound only', punchable: 'punchable', relayed: 'relayed', unknown: DASH };
const equal = (peer) => (peer.hash_ok === null ? DASH : peer.hash_ok ? 'equal' : html`<span class="bad">differ</span>`);

/** `by`: what a column sorts by; null comes last either way. `down`: the first click shows the largest first. */
const COLUMNS = [
  { key: 'name', title: 'Peer', by: (peer) => peer.name, text: true,
    show: (peer) => html`<b class="name">${peer.name}</b> <span class="id" title=${peer.id}>${short(peer.id)}</span>` },
  { key: 'role', title: 'Role', by: (peer) => peer.role, text: true, show: (peer) => peer.role },
  { key: 'reachability', title: 'Reachable', by: (peer) => peer.reachability, text: true,
    show: (peer) => WORDS[peer.reachability] ?? peer.reachability, hint: 'whether others can dial it' },
  { key: 'path', title: 'Path', by: (peer) => peer.path, text: true, show: (peer) => peer.path ?? DASH,
    hint: 'how bytes travel between this node and it; none: they have no connection' },
  { key: 'samples_per_s', title: 'Samples/s', by: (peer) => peer.samples_per_s, down: true,
    show: (peer) => rate(peer.samples_per_s) },
  { key: 'share', title: 'Share', by: (peer) => peer.samples_per_s, down: true,
    show: (peer, all) => percent(peer.samples_per_s === null || all === 0 ? null : peer.samples_per_s / all),
    hint: 'of the samples per second of all' },
  { key: 'epoch', title: 'Epoch', by: (peer) => peer.epoch, down: true, show: (peer) => count(peer.epoch) },
  { key: 'hash', title: 'Parameters', by: (peer) => (peer.hash_ok === null ? null : Number(peer.hash_ok)), text: true,
    show: equal, hint: 'whether they equal those of the majority' },
  { key: 'rtt', title: 'Round trip', by: (peer) => peer.rtt_s, show: (peer) => seconds(peer.rtt_s),
    hint: 'from this node' },
  { key: 'up', title: 'To it', by: (peer) => peer.up_bytes_per_s, down: true,
    show: (peer) => byteRate(peer.up_bytes_per_s), hint: 'rate of the link from this node to it, where it was measured' },
  { key: 'down', title: 'From it', by: (peer) => peer.down_bytes_per_s, down: true,
    show: (peer) => byteRate(peer.down_bytes_per_s), hint: 'rate of the link from it to this node, where it was measured' },
  { key: 'seen', title: 'Last seen', by: (peer) => peer.last_seen_s, show: (peer) => seconds(peer.last_seen_s),
    hint: 'since its last progress record' },
  { key: 'software', title: 'Version', by: (peer) => peer.software, text: true, show: (peer) => peer.software || DASH },
];

const inWords = new Intl.Collator('en', { numeric: true });  // peer-2 before peer-10
const compare = (a, b) => (typeof a === 'string' ? inWords.compare(a, b) : a - b);

function sorted(peers, { key, down }) {
  const { by } = COLUMNS.find((column) => column.key === key);
  const order = (one, other) => {
    const [a, b] = [by(one), by(other)];
    if (a === null || b === null) return (a === null) - (b === null);
    return (down ? compare(b, a) : compare(a, b)) || (one.id < other.id ? -1 : 1);
  };
  return [...peers].sort(order);
}

const matches = (peer, words) => words.every((word) =>
  `${peer.name} ${peer.id} ${peer.role} ${WORDS[peer.reachability] ?? peer.reachability} ${peer.software}`
    .toLowerCase().includes(word));

export class Peers extends Component {
  state = { key: 'name', down: false, filter: '' };

  sortBy(column) {
    const again = this.state.key === column.key;
    this.setState({ key: column.key, down: again ? !this.state.down : Boolean(column.down) });
  }

  head(column) {
    const { key, down } = this.state;
    const order = key !== column.key ? undefined : down ? 'descending' : 'ascending';
    return html`<th scope="col" aria-sort=${order} class=${column.text ? '' : 'n'}>
      <button type="button" title=${column.hint} onClick=${() => this.sortBy(column)}>${column.title}
        <i aria-hidden="true">${order === undefined ? '' : down ? '↓' : '↑'}</i></button></th>`;
  }

  tools(shown, all) {
    const choose = (event) => this.sortBy(COLUMNS.find((column) => column.key === event.target.value));
    return html`<div class="tools">
      <label>Filter <input type="search" value=${this.state.filter} placeholder="name, id, role, version"
        onInput=${(event) => this.setState({ filter: event.target.value })} /></label>
      <label class="narrow">Sort by <select value=${this.state.key} onChange=${choose}>
        ${COLUMNS.map((column) => html`<option value=${column.key}>${column.title}</option>`)}</select></label>
      <p role="status">${count(shown)} of ${count(all)}</p></div>`;
  }

  render({ live }, state) {
    const { peers } = live.state;
    // not the run's rate: that counts the peers of one epoch, and records of two epochs meet here
    const everybody = peers.reduce((sum, peer) => sum + (peer.samples_per_s ?? 0), 0);
    const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = sorted(peers.filter((peer) => matches(peer, words)), state);
    return html`<section class="card" aria-labelledby="peers"><header><h2 id="peers">Peers</h2>
      ${this.tools(shown.length, peers.length)}</header>
      <table class="rows peers"><thead><tr>${COLUMNS.map((column) => this.head(column))}</tr></thead>
        <tbody>${shown.map((peer) => html`<tr key=${peer.id}>${COLUMNS.map((column) => html`<td
          data-title=${column.title} class=${column.text ? '' : 'n'}>${column.show(peer, everybody)}</td>`)}</tr>`)}
        </tbody></table>
      ${shown.length === 0 && html`<p class="none">${peers.length === 0 ? 'nobody is here yet' : 'nobody matches'}</p>`}
    </section>`;
  }
}
