// The loss by epoch: mean of peers, their spread, held-out points.
import uPlot from './uPlot.js';
import { DASH, count, fixed } from './format.js';
import { Component, html } from './markup.js';

const HEIGHT = 320;
const LATEST = 200;  // epochs of the narrow view

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** One table for all lines: epochs of both curves, each line with its gaps. */
function table({ training, heldout }, latest) {
  const last = training.epoch.at(-1) ?? 0;
  const from = latest ? training.epoch.findIndex((epoch) => epoch > last - LATEST) : 0;
  const cut = (column) => column.slice(Math.max(0, from));
  const lines = [cut(training.epoch), cut(training.loss), cut(training.loss_low), cut(training.loss_high)];
  const first = lines[0][0] ?? 0;
  const at = heldout.epoch.findIndex((epoch) => epoch >= first);
  if (at < 0) return [...lines, lines[0].map(() => null)];
  return uPlot.join([lines, [heldout.epoch.slice(at), heldout.loss.slice(at)]]);
}

/** By the means: one peer's bad epoch must not flatten the curve. */
function lossRange(plot) {
  const seen = [...plot.data[1], ...plot.data[4]].filter((value) => value !== null && value !== undefined);
  if (seen.length === 0) return [0, 1];
  const low = Math.min(...seen);
  const high = Math.max(...seen);
  const margin = Math.max(0.05 * (high - low), 0.01);
  return [low - margin, high + margin];
}

function axis(values) {
  return {
    stroke: colour('--muted'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    font: '12px system-ui, sans-serif',
    values,
  };
}

function options(width, pointed) {
  const mean = colour('--accent');
  const whole = (plot, splits) => splits.map((at) => (Number.isInteger(at) ? count(at) : ''));
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    padding: [8, 22, 0, 0],
    scales: { x: { time: false }, y: { range: lossRange } },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    axes: [{ ...axis(whole), space: 70, size: 30 }, { ...axis(), size: 48, space: 40 }],
    series: [
      {},
      { stroke: mean, width: 2, points: { show: plotsFew }, spanGaps: true },
      { stroke: 'transparent', points: { show: false }, spanGaps: true },
      { stroke: 'transparent', points: { show: false }, spanGaps: true },
      { stroke: 'transparent', points: { show: true, size: 7, width: 0, fill: colour('--second') } },
    ],
    bands: [{ series: [3, 2], fill: colour('--band') }],
    hooks: { setCursor: [(plot) => pointed(plot.cursor.idx)] },
  };
}

/** A single point has no line to be seen by. */
const plotsFew = (plot) => plot.data[0].length < 3;

export class LossChart extends Component {
  state = { at: null, latest: false };

  componentDidMount() {
    this.watcher = new ResizeObserver(() => this.plot?.setSize({ width: this.box.clientWidth, height: HEIGHT }));
    this.watcher.observe(this.box);
    this.repaint = () => this.build();
    this.dark = matchMedia('(prefers-color-scheme: dark)');
    this.dark.addEventListener('change', this.repaint);
    this.build();
  }

  componentWillUnmount() {
    this.watcher.disconnect();
    this.dark.removeEventListener('change', this.repaint);
    this.plot.destroy();
  }

  componentDidUpdate(before, beforeState) {
    if (before.theme !== this.props.theme) return this.build();
    const fresh = before.training !== this.props.training || before.heldout !== this.props.heldout;
    if (fresh || beforeState.latest !== this.state.latest) this.plot.setData(table(this.props, this.state.latest));
  }

  build() {
    this.plot?.destroy();
    const pointed = (at) => at !== this.state.at && this.setState({ at: at ?? null });
    this.plot = new uPlot(options(this.box.clientWidth, pointed), table(this.props, this.state.latest), this.box);
  }

  /** Arrow keys do what the mouse does. */
  walk(event) {
    const last = this.plot.data[0].length - 1;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
    let at = { Home: 0, End: last }[event.key] ?? (step && (this.state.at ?? last + 1) + step);
    if (at === undefined || last < 0) return;
    event.preventDefault();
    at = Math.min(last, Math.max(0, at));
    this.plot.setCursor({ left: this.plot.valToPos(this.plot.data[0][at], 'x'), top: 0 });
  }

  readout() {
    const [epochs, mean, low, high, held] = this.plot?.data ?? table(this.props, false);
    const at = this.state.at ?? mean.findLastIndex((value) => value !== null && value !== undefined);
    if (at < 0 || epochs[at] === undefined) return html`<p class="readout">no peer has told a loss yet</p>`;
    const spread = low[at] < high[at] ? ` (${fixed(low[at], 3)} to ${fixed(high[at], 3)})` : '';
    return html`<p class="readout">
      <span>epoch <b>${count(epochs[at])}</b></span>
      <span><i class="mark mean"></i>mean of peers <b>${fixed(mean[at], 3)}</b>${spread}</span>
      <span><i class="mark held"></i>held-out <b>${held[at] == null ? DASH : fixed(held[at], 3)}</b></span></p>`;
  }

  describe({ training }) {
    const n = training.epoch.length;
    if (n === 0) return 'Loss by epoch: nothing told yet';
    return `Loss by epoch, mean of peers: from ${fixed(training.loss[0], 2)} at ${training.epoch[0]} to ` +
      `${fixed(training.loss[n - 1], 2)} at ${training.epoch[n - 1]}. Arrow keys read single epochs.`;
  }

  render(props, { latest }) {
    const choose = (value) => () => this.setState({ latest: value, at: null });
    const button = (value, text) => html`<button type="button" aria-pressed=${latest === value}
      onClick=${choose(value)}>${text}</button>`;
    return html`<section class="card chart" aria-labelledby="loss">
      <header><h2 id="loss">Loss</h2><div class="choice">${button(false, 'all')}${button(true, `last ${LATEST}`)}</div>
      </header>
      ${this.readout()}
      <div class="plot" ref=${(box) => { this.box = box; }} tabindex="0" role="img" aria-label=${this.describe(props)}
        onKeyDown=${(event) => this.walk(event)} onBlur=${() => this.setState({ at: null })}></div>
    </section>`;
  }
}
