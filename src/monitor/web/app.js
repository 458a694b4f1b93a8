// The frame around the pages: where you are, whether it is live, light or dark.
import { DASH, count, fixed } from './format.js';
import { Live } from './live.js';
import { Component, html, render } from './markup.js';
import { Peers } from './peers.js';
import { Rounds } from './rounds.js';
import { Run } from './run.js';

const PAGES = { run: ['Run', Run], peers: ['Peers', Peers], rounds: ['Rounds', Rounds] };
const here = () => (location.hash.slice(2) in PAGES ? location.hash.slice(2) : 'run');

function Link({ live }) {
  const lost = !live.connected && (live.state !== null || live.lostSince !== null);
  const [tone, text] = lost ? ['bad', 'connection lost, trying again']
    : !live.connected ? ['warn', 'connecting']
    : !live.state.run.connected ? ['warn', 'no directory answers this node'] : ['good', 'live'];
  return html`<p class=${`link ${tone}`} role="status" data-test="link"><i aria-hidden="true"></i>${text}</p>`;
}

class App extends Component {
  live = new Live(() => this.refresh());
  state = { page: here(), theme: document.documentElement.dataset.theme ?? '' };

  componentDidMount() {
    addEventListener('hashchange', () => {
      this.live.wantRounds(here() === 'rounds');
      this.setState({ page: here() });
    });
    this.live.withRounds = here() === 'rounds';
    this.live.start();
  }

  /** Many events at once are painted once. A page that nobody sees gets no frames, so a timer serves it. */
  refresh() {
    if (this.due) return;
    this.due = true;
    const paint = () => {
      this.due = false;
      this.forceUpdate();
    };
    if (document.hidden) setTimeout(paint, 250);
    else requestAnimationFrame(paint);
  }

  toggleTheme() {
    const dark = this.state.theme ? this.state.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    const theme = dark ? 'light' : 'dark';
    document.documentElement.dataset.theme = theme;
    localStorage.setItem('theme', theme);
    this.setState({ theme });
  }

  title() {
    const run = this.live.state?.run;
    return run ? `${count(run.epoch)} · ${fixed(run.loss_train, 3)} · ${run.run_id}` : 'collab';
  }

  render(props, { page, theme }) {
    const { live } = this;
    document.title = this.title();
    const [, Page] = PAGES[page];
    return html`<a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      document.getElementById('main').focus();
    }}>skip to the page</a>
      <header class="top"><h1>${live.state?.run.run_id ?? DASH}</h1>
        <nav aria-label="Pages">${Object.entries(PAGES).map(([key, [name]]) => html`<a href=${`#/${key}`}
          aria-current=${key === page ? 'page' : undefined}>${name}</a>`)}</nav>
        <${Link} live=${live} />
        <button type="button" class="theme" aria-label="light or dark" onClick=${() => this.toggleTheme()}>◐</button>
      </header>
      <main id="main" tabindex="-1" class=${live.connected ? '' : 'stale'}>${live.state === null
        ? html`<p class="none">asking the node</p>` : html`<${Page} live=${live} theme=${theme} />`}</main>`;
  }
}

render(html`<${App} />`, document.getElementById('app'));
