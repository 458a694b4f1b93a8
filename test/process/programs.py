"""Programs that a test starts and watches: their JSON lines, a bound for every wait, nothing left running."""
import json, os, pathlib, signal, socket, subprocess, threading, time


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

    def start(self, name, command):
        """In a folder `name`, which is the program's home of homes too: two programs never share a key."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        environment = dict(os.environ, XDG_CONFIG_HOME=str(place / 'config'), XDG_DATA_HOME=str(place / 'data'),
                           OMP_NUM_THREADS='1', OMP_WAIT_POLICY='passive')
        program, *words = map(str, command)
        self.all.append(Program(name, [os.path.abspath(program), *words], place, environment))
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
    def __init__(self, name, command, place, environment):
        self.name, self.place, self.lines, self.changed = name, place, [], threading.Lock()
        with open(place / 'log', 'a') as log:
            self.process = subprocess.Popen(command, cwd=place, env=environment, text=True, stdout=subprocess.PIPE, stderr=log)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip())

    def events(self, kind):
        with self.changed:
            found = [json.loads(line) for line in self.lines if line.startswith('{')]
        return [e for e in found if e['event'] == kind]

    def ended(self):
        return self.process.poll() is not None

    def log(self):
        return f'{self.name} (exit {self.process.poll()}):\n' + (self.place / 'log').read_text()[-2000:]

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
