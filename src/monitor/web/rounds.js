// What the last rounds did: who was in it, how long, and who was left out and why.
import { DASH, bytes, clock, count, percent, seconds, short } from './format.js';
import { Component, html } from './markup.js';

const PHASES = ['exchange', 'commit', 'apply'];
const TITLES = ['Epoch', 'Result', 'Group', 'Members', 'Samples', 'Duration', 'Up', 'Down', 'Left out', 'Ended'];
const nameOf = (member, names) => names.get(member.id) ?? short(member.id);

function Duration({ round, longest }) {
  const parts = PHASES.map((phase) => round[`${phase}_s`]);
  const all = parts.reduce((sum, part) => sum + (part ?? 0), 0);
  const words = PHASES.map((phase, at) => `${phase} ${seconds(parts[at])}`).join(', ');
  return html`<span class="duration" title=${words}><span class="bar" aria-hidden="true">${PHASES.map((phase, at) =>
    html`<i class=${phase} style=${{ width: `${longest > 0 ? (100 * (parts[at] ?? 0)) / longest : 0}%` }}></i>`)}</span>
    <span>${parts.every((part) => part === null) ? DASH : seconds(all)}</span></span>`;
}

function Members({ round, names }) {
  return html`<table class="rows members"><thead><tr><th scope="col">Member</th><th scope="col">Role</th>
    <th scope="col" class="n">Samples</th><th scope="col" class="n">Counted</th><th scope="col" class="n">Up</th>
    <th scope="col" class="n">Down</th><th scope="col">Left out</th></tr></thead><tbody>
    ${round.members.map((member) => html`<tr key=${member.id}><td data-title="Member"><b class="name">${nameOf(member, names)}</b>
      <span class="id" title=${member.id}>${short(member.id)}</span></td><td data-title="Role">${member.role || DASH}</td>
      <td data-title="Samples" class="n">${member.samples === 0 ? DASH : count(member.samples)}</td>
      <td data-title="Counted" class="n">${percent(member.counted_share, 0)}</td>
      <td data-title="Up" class="n">${bytes(member.up_bytes)}</td><td data-title="Down" class="n">${bytes(member.down_bytes)}</td>
      <td data-title="Left out">${member.left_out ?? DASH}</td></tr>`)}</tbody></table>`;
}

/** `key`: a peer may fail at an epoch several times. */
const keyOf = (round) => `${round.epoch}/${round.round}/${round.group}/${round.ended}`;

export class Rounds extends Component {
  state = { open: null };

  row(round, names, longest) {
    const key = keyOf(round);
    const open = this.state.open === key;
    const out = round.members.filter((member) => member.left_out !== null);
    const left = out.map((member) => `${nameOf(member, names)}: ${member.left_out}`).join('; ');
    const cells = [
      html`<button type="button" aria-expanded=${open} onClick=${() => this.setState({ open: open ? null : key })}>
        <i aria-hidden="true">${open ? '▾' : '▸'}</i> ${count(round.epoch)}</button>`,
      html`<span class=${round.result === 'committed' ? 'good' : 'bad'}>${round.result}</span>${
        round.reason && html` <span class="why">${round.reason}</span>`}`,
      html`<span class="id" title=${round.group}>${round.group ? short(round.group) : DASH}</span>`,
      count(round.members.length), round.samples === 0 ? DASH : count(round.samples),
      html`<${Duration} round=${round} longest=${longest} />`, bytes(round.up_bytes), bytes(round.down_bytes),
      left || DASH, html`<time datetime=${round.ended}>${clock(round.ended)}</time>`,
    ];
    const number = [3, 4, 6, 7];
    const main = html`<tr key=${key}>${cells.map((cell, at) => html`<td data-title=${TITLES[at]}
      class=${number.includes(at) ? 'n' : ''}>${cell}</td>`)}</tr>`;
    if (!open) return main;
    return [main, html`<tr key=${`${key}+`} class="detail"><td colspan=${TITLES.length}>
      <${Members} round=${round} names=${names} /></td></tr>`];
  }

  render({ live }) {
    const { rounds, peers } = live.state;
    const names = new Map(peers.map((peer) => [peer.id, peer.name]));
    const sum = (round) => PHASES.reduce((all, phase) => all + (round[`${phase}_s`] ?? 0), 0);
    const longest = Math.max(0, ...rounds.map(sum));
    return html`<section class="card" aria-labelledby="rounds"><header><h2 id="rounds">Rounds</h2>
      <p class="legend">${PHASES.map((phase) => html`<span><i class=${phase}></i>${phase}</span>`)}</p></header>
      <table class="rows rounds"><thead><tr>${TITLES.map((title, at) => html`<th scope="col"
        class=${[3, 4, 6, 7].includes(at) ? 'n' : ''}>${title}</th>`)}</tr></thead>
        <tbody>${rounds.map((round) => this.row(round, names, longest))}</tbody></table>
      ${rounds.length === 0 && html`<p class="none">no round has been told yet</p>`}</section>`;
  }
}
