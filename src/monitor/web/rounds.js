// What the last rounds did: who was in it, how long, and who was left out and why.
import { DASH, bytes, clock, count, percent, seconds, short } from './format.js';
import { Component, html } from './markup.js';

const PHASES = ['exchange', 'commit', 'apply'];
const TITLES = ['Epoch', 'Result', 'Group', 'Members', 'Samples', 'Duration', 'Sent', 'Received', 'Left out', 'Told by',
  'Ended'];
const HINTS = { Sent: 'by the peer that tells', Received: 'by the peer that tells' };
const NUMBERS = [3, 4, 6, 7];
const nameOf = (id, peers) => peers.get(id)?.name ?? short(id);
const unlessZero = (show, value) => (value === 0 ? DASH : show(value));

function Duration({ round, longest }) {
  const parts = PHASES.map((phase) => round[`${phase}_s`]);
  const all = parts.reduce((sum, part) => sum + (part ?? 0), 0);
  const words = PHASES.map((phase, at) => `${phase} ${seconds(parts[at])}`).join(', ');
  return html`<span class="duration" title=${words}><span class="bar" aria-hidden="true">${PHASES.map((phase, at) =>
    html`<i class=${phase} style=${{ width: `${longest > 0 ? (100 * (parts[at] ?? 0)) / longest : 0}%` }}></i>`)}</span>
    <span>${parts.every((part) => part === null) ? DASH : seconds(all)}</span></span>`;
}

function Members({ round, peers }) {
  return html`<table class="rows members"><thead><tr><th scope="col">Member</th><th scope="col">Role</th>
    <th scope="col" class="n">Samples</th><th scope="col" class="n">Counted</th><th scope="col">Left out</th></tr></thead>
    <tbody>${round.members.map((member) => html`<tr key=${member.id}>
      <td data-title="Member"><b class="name">${nameOf(member.id, peers)}</b>
        <span class="id" title=${member.id}>${short(member.id)}</span></td>
      <td data-title="Role">${member.role || peers.get(member.id)?.role || DASH}</td>
      <td data-title="Samples" class="n">${unlessZero(count, member.samples)}</td>
      <td data-title="Counted" class="n">${percent(member.counted_share, 0)}</td>
      <td data-title="Left out">${member.left_out ?? DASH}</td></tr>`)}</tbody></table>`;
}

/** `key`: a peer may fail at an epoch several times. */
const keyOf = (round) => `${round.epoch}/${round.round}/${round.group}/${round.ended}`;

export class Rounds extends Component {
  state = { open: null };

  row(round, peers, longest) {
    const key = keyOf(round);
    const open = this.state.open === key;
    const out = round.members.filter((member) => member.left_out !== null);
    const left = out.map((member) => `${nameOf(member.id, peers)}: ${member.left_out}`).join('; ');
    const cells = [
      html`<button type="button" aria-expanded=${open} onClick=${() => this.setState({ open: open ? null : key })}>
        <i aria-hidden="true">${open ? '▾' : '▸'}</i> ${count(round.epoch)}</button>`,
      html`<span class=${round.result === 'committed' ? 'good' : 'bad'}>${round.result}</span>${
        round.reason && html` <span class="why">${round.reason}</span>`}`,
      html`<span class="id" title=${round.group}>${round.group ? short(round.group) : DASH}</span>`,
      unlessZero(count, round.members.length), unlessZero(count, round.samples),
      html`<${Duration} round=${round} longest=${longest} />`, unlessZero(bytes, round.up_bytes),
      unlessZero(bytes, round.down_bytes), left || DASH, round.told_by ? nameOf(round.told_by, peers) : 'this node',
      html`<time datetime=${round.ended}>${clock(round.ended)}</time>`,
    ];
    const main = html`<tr key=${key}>${cells.map((cell, at) => html`<td data-title=${TITLES[at]}
      class=${NUMBERS.includes(at) ? 'n' : ''}>${cell}</td>`)}</tr>`;
    if (!open) return main;
    return [main, html`<tr key=${`${key}+`} class="detail"><td colspan=${TITLES.length}>
      <${Members} round=${round} peers=${peers} /></td></tr>`];
  }

  render({ live }) {
    const rounds = live.state.rounds ?? [];
    const peers = new Map(live.state.peers.map((peer) => [peer.id, peer]));
    const sum = (round) => PHASES.reduce((all, phase) => all + (round[`${phase}_s`] ?? 0), 0);
    // nine of ten fit their bar: one stuck round must not make all others invisible
    const longest = rounds.map(sum).sort((a, b) => a - b)[Math.floor(0.9 * (rounds.length - 1))] ?? 0;
    return html`<section class="card" aria-labelledby="rounds"><header><h2 id="rounds">Rounds</h2>
      <p class="legend">${PHASES.map((phase) => html`<span><i class=${phase}></i>${phase}</span>`)}</p></header>
      <table class="rows rounds"><thead><tr>${TITLES.map((title, at) => html`<th scope="col"
        title=${HINTS[title]} class=${NUMBERS.includes(at) ? 'n' : ''}>${title}</th>`)}</tr></thead>
        <tbody>${rounds.map((round) => this.row(round, peers, longest))}</tbody></table>
      ${rounds.length === 0 && html`<p class="none">${live.state.rounds === null ? 'asking the node'
        : 'no round has been told yet'}</p>`}</section>`;
  }
}
