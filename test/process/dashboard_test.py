#!/usr/bin/env python3
"""The dashboard in a headless Chromium: dashboard_test.py PROBE [--pictures FOLDER]

A real server with a made-up swarm (dashboard_probe), driven over the DevTools protocol. Skipped where there is no
Chromium: tools/setup --browser.
"""
import json, os, pathlib, shutil, statistics, subprocess, sys, tempfile, threading, time, unittest

PROBE = sys.argv[1]
PICTURES = pathlib.Path(sys.argv[3]) if sys.argv[2:3] == ['--pictures'] else None
SIZES = {'narrow': (360, 640), 'wide': (1440, 900)}
PAGES = ['run', 'peers', 'rounds']
PATIENCE_S = 30
TRIES = 5  # of what has to be quick: their median counts
SKIPPED = 77  # what meson takes for a skip
BROWSERS = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome']

# Every text on the page against what is painted below it, by the formula of WCAG 2.
LOW_CONTRAST = '''(() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = (c) => { const [r, g, b] = c.map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const known = new Map([[null, [255, 255, 255, 1]]]);
  const ground = (element) => { if (!known.has(element))
      known.set(element, over(parse(getComputedStyle(element).backgroundColor), ground(element.parentElement)));
    return known.get(element); };
  const bad = []; let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const box = element.getBoundingClientRect();
    if (!walker.currentNode.data.trim() || box.width === 0 || box.right < 0) continue;
    const below = ground(element);
    const [a, b] = [light(over(parse(getComputedStyle(element).color), below)), light(below)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    texts += 1;
    if (ratio < 4.5) bad.push(walker.currentNode.data.trim().slice(0, 30) + ' ' + ratio.toFixed(2));
  }
  return {texts, bad};
})()'''


class Probe:
    """The server with its made-up swarm."""

    def __init__(self, port=0):
        self.process = subprocess.Popen([PROBE, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])
        self.url = f'http://127.0.0.1:{self.port}'

    def tell(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        assert self.process.stdout.readline() == 'done\n'

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Browser:
    """DevTools protocol over a pipe: JSON texts that end in a zero byte."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix='dashboard-test-')
        to_browser, self.writer = os.pipe()
        self.reader, from_browser = os.pipe()
        options = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
                   '--remote-debugging-pipe', f'--user-data-dir={self.folder}', 'about:blank']
        # the browser wants its ends of the pipe to be 3 and 4
        command = ['bash', '-c', f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}', program, *options]
        self.process = subprocess.Popen(command, pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL,
                                        env=dict(os.environ, XDG_CONFIG_HOME=self.folder))
        os.close(to_browser)
        os.close(from_browser)
        self.changed = threading.Condition()
        self.answers, self.listeners, self.last_id, self.ended = {}, {}, 0, False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        unread = b''
        while True:
            try:
                chunk = os.read(self.reader, 1 << 16)
            except OSError:
                chunk = b''
            *texts, unread = (unread + chunk).split(b'\0')
            with self.changed:
                for message in map(json.loads, texts):
                    if 'id' in message:
                        self.answers[message['id']] = message
                    elif message.get('sessionId') in self.listeners:
                        self.listeners[message['sessionId']](message['method'], message['params'])
                self.ended = not chunk
                self.changed.notify_all()
            if not chunk:
                return

    def ask(self, method, session=None, **params):
        with self.changed:
            self.last_id += 1
            number = self.last_id
        message = {'id': number, 'method': method, 'params': params}
        if session:
            message['sessionId'] = session
        os.write(self.writer, json.dumps(message).encode() + b'\0')
        with self.changed:
            if not self.changed.wait_for(lambda: number in self.answers or self.ended, PATIENCE_S):
                raise TimeoutError(method)
            answer = self.answers.pop(number, None)
        if answer is None or 'error' in answer:
            raise RuntimeError(f'{method}: {answer}')
        return answer['result']

    def close(self):
        # its many processes would go on writing into the folder for a while after a kill
        self.ask('Browser.close')
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.writer)
        shutil.rmtree(self.folder, ignore_errors=True)


class Page:
    """A tab of its own, with what its scripts complained about."""

    KEYS = {'Tab': 9, 'Enter': 13, 'ArrowLeft': 37, 'End': 35}

    def __init__(self, browser, url, size='wide', scheme='light', motion='no-preference'):
        self.browser, self.complaints = browser, []
        self.target = browser.ask('Target.createTarget', url='about:blank')['targetId']
        self.session = browser.ask('Target.attachToTarget', targetId=self.target, flatten=True)['sessionId']
        browser.listeners[self.session] = self._note
        for domain in ('Page', 'Runtime', 'Log'):
            self.ask(f'{domain}.enable')
        self.resize(size)
        self.media(scheme, motion)
        self.go(url)

    def _note(self, method, params):
        if method == 'Runtime.exceptionThrown':
            self.complaints.append(json.dumps(params['exceptionDetails'])[:500])
        elif method == 'Runtime.consoleAPICalled' and params['type'] in ('error', 'warning', 'assert'):
            self.complaints.append(json.dumps(params['args'])[:500])
        elif method == 'Log.entryAdded' and params['entry']['level'] in ('error', 'warning'):
            self.complaints.append(f'{params["entry"]["text"]} {params["entry"].get("url", "")}')

    def ask(self, method, **params):
        return self.browser.ask(method, self.session, **params)

    def go(self, url):
        self.ask('Page.navigate', url=url)
        self.wait('document.querySelector("[data-test=link]")?.className.includes("good")')

    def resize(self, size):
        width, height = SIZES[size]
        self.ask('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1,
                 mobile=size == 'narrow')

    def media(self, scheme, motion='no-preference'):
        self.ask('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme},
                                                         {'name': 'prefers-reduced-motion', 'value': motion}])

    def value(self, expression):
        result = self.ask('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in result:
            raise RuntimeError(f'{expression}: {result["exceptionDetails"]}')
        return result['result'].get('value')

    def wait(self, expression, seconds=PATIENCE_S):
        """Seconds until it holds."""
        began = time.monotonic()
        while not self.value(f'Boolean({expression})'):
            if time.monotonic() - began > seconds:
                raise AssertionError(f'not within {seconds} s: {expression}\n{self.value("document.body.innerText")[:800]}')
            time.sleep(0.02)
        return time.monotonic() - began

    def open(self, name):
        self.value(f'location.hash = "#/{name}"')
        self.wait(f'document.querySelector("nav [aria-current]")?.textContent.toLowerCase() === "{name}"')
        self.value('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')

    def press(self, key):
        for kind in ('rawKeyDown', 'char', 'keyUp') if key == 'Enter' else ('rawKeyDown', 'keyUp'):
            self.ask('Input.dispatchKeyEvent', type=kind, key=key, code=key, windowsVirtualKeyCode=self.KEYS[key],
                     **({'text': '\r'} if kind == 'char' else {}))

    def focused(self):
        return self.value('(document.activeElement.textContent || document.activeElement.className).trim()')

    def tab_to(self, text, presses_max=60):
        for _ in range(presses_max):
            self.press('Tab')
            if self.focused().startswith(text):
                return
        raise AssertionError(f'the tab key does not reach {text}')

    def picture(self, name):
        import base64
        height = min(1600, self.value('document.documentElement.scrollHeight'))
        clip = {'x': 0, 'y': 0, 'width': self.value('innerWidth'), 'height': max(height, self.value('innerHeight')), 'scale': 1}
        data = self.ask('Page.captureScreenshot', format='png', captureBeyondViewport=True, clip=clip)['data']
        (PICTURES / f'{name}.png').write_bytes(base64.b64decode(data))

    def close(self):
        self.browser.ask('Target.closeTarget', targetId=self.target)


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(program())
        cls.addClassCleanup(cls.browser.close)

    def start(self, peers=4, epochs=12):
        probe = Probe()
        self.addCleanup(probe.kill)
        probe.tell(f'peers {peers}')
        for _ in range(epochs if peers else 0):
            probe.tell('epoch')
        return probe

    def show(self, probe, *arguments, **options):
        page = Page(self.browser, probe.url, *arguments, **options)
        self.addCleanup(page.close)
        return page

    def check_page(self, page, what):
        self.assertEqual(page.complaints, [], what)
        wide = page.value('[document.documentElement.scrollWidth, innerWidth]')
        self.assertLessEqual(wide[0], wide[1], f'{what}: scrolls sideways')
        outside = page.value('''[...document.querySelectorAll("main *")].filter((e) => {
            const box = e.getBoundingClientRect();
            return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5); }).map((e) => e.outerHTML.slice(0, 80))''')
        self.assertEqual(outside, [], f'{what}: beyond the edge')

    def test_pages_fit_and_can_be_read(self):
        for peers in (0, 4, 200):
            probe = self.start(peers)
            page = self.show(probe)
            for size in SIZES:
                page.resize(size)
                for name in PAGES:
                    page.open(name)
                    if name == 'rounds' and peers:
                        page.wait('document.querySelectorAll("table.rounds tbody tr").length === 12')
                    for scheme in ('light', 'dark'):
                        what = f'{name}-{peers}-{size}-{scheme}'
                        page.media(scheme, 'reduce')
                        with self.subTest(what):
                            self.check_page(page, what)
                            contrast = page.value(LOW_CONTRAST)
                            self.assertEqual(contrast['bad'], [])
                            self.assertGreater(contrast['texts'], 10)
                        if PICTURES:
                            page.picture(what)

    def test_shows_what_the_node_tells(self):
        page = self.show(self.start(200))
        text = page.value('document.body.innerText')
        for wanted in ('sahajbert', '1,212', '2,710 of 4,096 samples', '3.4', 'collab-peer --run-id sahajbert#', 'collab://'):
            self.assertIn(wanted, text)
        page.open('peers')
        self.assertEqual(page.value('document.querySelectorAll("table.peers tbody tr").length'), 201)
        page.open('rounds')
        page.wait('document.querySelector("table.rounds tbody tr")')
        text = page.value('document.body.innerText')
        for wanted in ('no_quorum', 'committed', 'peer-2: frozen'):
            self.assertIn(wanted, text)

    def test_an_unknown_number_is_a_dash(self):
        page = self.show(self.start(0))
        shown = page.value('Object.fromEntries([...document.querySelectorAll(".number")].map('
                           '(e) => [e.querySelector("dt").textContent, e.querySelector("b").textContent]))')
        self.assertEqual((shown['Training loss'], shown['Checkpoint'], shown['Epoch takes']), ('–', '–', '–'))
        self.assertEqual(shown['Peers'], '0')

    def test_sort_and_filter(self):
        page = self.show(self.start(200))
        page.open('peers')
        names = '[...document.querySelectorAll("table.peers .name")].map((e) => e.textContent)'
        rates = '''(() => { const heads = [...document.querySelectorAll("table.peers th")];
            const at = heads.findIndex((e) => e.textContent.startsWith("Samples/s"));
            return [...document.querySelectorAll("table.peers tbody tr")].map((e) => e.children[at].textContent); })()'''
        page.value('[...document.querySelectorAll("th button")].find((e) => e.textContent.startsWith("Samples/s")).click()')
        page.wait('document.querySelector("th[aria-sort=descending]")')
        shown = [float(rate) for rate in page.value(rates) if rate != '–']
        self.assertEqual(shown, sorted(shown, reverse=True))
        self.assertEqual(page.value(rates)[-1], '–', 'who has no rate comes last')
        page.value('''(() => { const field = document.querySelector("input[type=search]"); field.value = "client peer-1";
            field.dispatchEvent(new Event("input", {bubbles: true})); })()''')
        page.wait(f'{names}.length < 100')
        self.assertTrue(all('peer-1' in name for name in page.value(names)))

    def test_an_event_is_on_the_screen_within_a_second(self):
        probe = self.start(4)
        page = self.show(probe)
        seen, counted = [], []
        for number in range(1, TRIES + 1):
            probe.tell(f'alert thing {number}')
            seen.append(page.wait(f'document.querySelector(".events").innerText.includes("thing {number}")'))
            probe.tell('epoch')
            counted.append(page.wait(f'document.querySelector("[data-test=epoch]").textContent === "1,2{12 + number}"'))
        self.assertLess(statistics.median(seen), 1)
        self.assertLess(statistics.median(counted), 2)

    def test_nothing_jumps_while_the_run_goes_on(self):
        probe = self.start(4)
        for size in SIZES:
            page = self.show(probe, size)
            page.value('''(() => { window.moved = []; new PerformanceObserver((list) => { for (const entry of list.getEntries())
                window.moved.push([entry.value, ...entry.sources.map((s) => s.node?.parentElement?.outerHTML?.slice(0, 90))]); })
                .observe({type: "layout-shift"}); })()''')
            for number in range(5):
                probe.tell('epoch')
                probe.tell(f'alert thing {number}')
                time.sleep(0.3)
            # lines of the event list move down to make room for the new one: that is what a list does
            moved = [entry for entry in page.value('moved') if not any('<ol' in str(part) or '<li' in str(part) for part in entry[1:])]
            self.assertLess(sum(entry[0] for entry in moved), 0.01, moved)

    def test_keys_reach_everything(self):
        page = self.show(self.start(4))
        page.press('Tab')
        self.assertEqual(page.focused(), 'skip to the page')
        page.tab_to('Peers')
        ring = page.value('getComputedStyle(document.activeElement).outlineStyle')
        self.assertEqual(ring, 'solid')
        page.press('Enter')
        page.wait('document.querySelector("table.peers")')
        page.tab_to('Epoch')
        page.press('Enter')
        page.wait('document.querySelector("th[aria-sort]").textContent.startsWith("Epoch")')
        page.open('rounds')
        page.tab_to('▸')
        page.press('Enter')
        page.wait('document.querySelector("table.members")')
        page.open('run')
        page.value('document.querySelector(".plot").focus()')
        page.press('End')
        page.wait('document.querySelector(".readout").innerText.includes("1,212")')
        page.press('ArrowLeft')
        page.wait('document.querySelector(".readout").innerText.includes("1,211")')
        self.check_page(page, 'after all keys')

    def test_the_theme_can_be_chosen_and_is_kept(self):
        page = self.show(self.start(4))
        ground = 'getComputedStyle(document.body).backgroundColor'
        light = page.value(ground)
        page.value('document.querySelector(".theme").click()')
        dark = page.value(ground)
        self.assertNotEqual(light, dark)
        page.go(page.value('location.href'))
        self.assertEqual(page.value(ground), dark)

    def test_a_lost_connection_is_shown_and_recovers(self):
        probe = self.start(4)
        page = self.show(probe)
        page.value('window.kept = true')
        shown, recovered = [], []
        for number in range(1, TRIES + 1):
            probe.tell('close')
            shown.append(page.wait('document.querySelector("[data-test=link]").className.includes("bad")'))
            if PICTURES:
                page.picture('lost')
            probe.tell(f'alert said {number} while nobody listened')
            time.sleep(0.5)
            probe.tell('open')
            recovered.append(page.wait('document.querySelector("[data-test=link]").className.includes("good") && '
                                       f'document.querySelector(".events").innerText.includes("said {number} while")'))
        self.assertLess(statistics.median(shown), 5)
        self.assertLess(statistics.median(recovered), 5)
        said = page.value('document.querySelector(".events").innerText.split("said 1 while").length')
        self.assertEqual((said, page.value('window.kept')), (2, True), 'once, and the page was not loaded anew')

    def test_a_node_that_was_started_anew_is_followed(self):
        probe = self.start(4)
        page = self.show(probe)
        probe.kill()
        page.wait('document.querySelector("[data-test=link]").className.includes("bad")')
        again = Probe(probe.port)
        self.addCleanup(again.kill)
        again.tell('peers 2')
        page.wait('document.querySelector("[data-test=link]").className.includes("good")')
        again.tell('alert after the restart')
        page.wait('document.querySelector(".events").innerText.includes("after the restart")')


def program():
    return next(filter(None, map(shutil.which, BROWSERS)), None)


if __name__ == '__main__':
    if program() is None:
        print('skipped: no Chromium here; tools/setup --browser installs one')
        sys.exit(SKIPPED)
    if PICTURES:
        PICTURES.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[4 if PICTURES else 2:], verbosity=2)
