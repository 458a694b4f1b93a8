"""Programs that a test starts and watches: their JSON lines, a bound for every wait, nothing left running."""
import json, os, pathlib, signal, socket, subprocess, sys, threading, time

# the proxy of the machine that tests is no business of theirs
for name in ('https_proxy', 'HTTPS_PROXY', 'no_proxy', 'NO_PROXY', 'COLLAB_PROXY'):
    os.environ.pop(name, None)

# who is interrupted leaves nothing running: `meson test` sends this to all processes of a test, and waits for half a second
signal.signal(signal.SIGTERM, lambda *_: sys.exit('interrupted'))

# all that runs in the tests is as urgent as they are
os.environ['COLLAB_NICE'] = '0'
os.environ['COLLAB_REST_ON'] = 'none'  # also where the tests run on a laptop's battery

WORDS = 'আমরা তুমি বই পড়ি নদী জল আকাশ নীল ফুল লাল গাছ সবুজ মাছ ধরে ছেলে মেয়ে স্কুল যায় ভাত খায় গান গায় ঘরে থাকে'.split()


# Words for a peer of the demo preset that leaves the machine to the others: what it computes beyond the target batch only
# makes epochs longer.
LIGHT = ['--threads', '1', '--device', 'cpu', '--no-evaluate', '--microbatch', '4', '--cpu-percent', '25']


def write_text(folder, step=3, documents=40):
    """Sentences in which words follow each other by a rule, so that there is something to learn. Returns the folder."""
    folder.mkdir()
    for document in range(documents):
        lines = []
        for line in range(30):
            at = document * 7 + line * step
            lines.append(' '.join(WORDS[(at + word * (1 + line % 3)) % len(WORDS)] for word in range(5 + line % 4)) + '।')
        (folder / f'{document}.txt').write_text('\n'.join(lines) + '\n')
    return folder


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def wait(what, seconds, condition):
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            raise AssertionError(f'not within {seconds} s: {what}')
        time.sleep(0.05)


class Programs:
    """All that one test starts, in a folder of its own; killed at the end of a `with`."""

    def __init__(self, folder):
        self.folder, self.all = pathlib.Path(folder), []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.all:
            if program.process.poll() is None:
                program.process.kill()
            program.process.wait()

    def start(self, name, command, stdin=None):
        """In a folder `name`, which is the program's home of homes too: two programs never share a key."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        environment = dict(os.environ, XDG_CONFIG_HOME=str(place / 'config'), XDG_DATA_HOME=str(place / 'data'),
                           OMP_NUM_THREADS='1', OMP_WAIT_POLICY='passive')
        program, *words = map(str, command)
        self.all.append(Program([os.path.abspath(program), *words], place / 'log', environment, place,
                                stdin))
        return self.all[-1]

    def coordinator(self, program, run_id, *more):
        """A new run on loopback; returns the program and where peers dial."""
        host = self.start('coordinator', [program, '--new-run', '--run-id', run_id, '--home', self.folder / 'coordinator',
                                          '--listen', f'127.0.0.1:{free_port()}', '--dashboard', 'off', '--no-lan', '--json',
                                          *more])
        wait('the coordinator is ready', 30, lambda: host.events('ready') or host.ended())
        assert host.events('ready'), host.log()
        return host, host.events('ready')[0]['addresses'][0]


class Program:
    """One that runs until it is asked to end, or ends; what it prints is kept."""

    def __init__(self, command, log, environment, place=None, stdin=None):
        self.place, self.log_file, self.lines, self.changed = place, log, [], threading.Lock()
        with open(log, 'a') as out:
            self.process = subprocess.Popen([str(word) for word in command], cwd=place, env=environment, text=True,
                                            stdin=stdin, stdout=subprocess.PIPE, stderr=out)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip())

    def events(self, kind=None):
        """Of this kind, or all: its lines of JSON."""
        with self.changed:
            found = [json.loads(line) for line in self.lines if line.startswith('{')]
        return [e for e in found if kind in (None, e['event'])]

    def count(self, kind):
        return len(self.events(kind))

    def wait_for(self, kind, seconds=30, times=1):
        end = time.monotonic() + seconds
        while self.count(kind) < times:
            assert time.monotonic() < end, f'no {kind} within {seconds} s: {self.log()}'
            assert not self.ended() or self.count(kind) >= times, f'ended before {kind}: {self.log()}'
            time.sleep(0.02)
        return self

    def ended(self):
        return self.process.poll() is not None

    def log(self):
        return f'{self.log_file} (exit {self.process.poll()}):\n' + self.log_file.read_text()[-2000:]

    def stop(self, how=signal.SIGINT, seconds=15):
        """Its exit code."""
        if not self.ended():
            self.process.send_signal(how)
        return self.process.wait(seconds)

    def leave(self, seconds=20):
        self.process.send_signal(signal.SIGINT)
        return self.finish(seconds)

    def finish(self, seconds):
        """What it printed, when it has ended well."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'not within {seconds} s: {self.log()}') from None
        assert code == 0, self.log()
        self.reader.join()
        return '\n'.join(self.lines)
