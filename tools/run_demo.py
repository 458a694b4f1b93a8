#!/usr/bin/env python3
"""Runs a coordinator and four or more real peers, kills one, adds one, and reports what came out.

Everything it knows it reads from the programs' own JSON lines, so the report says what the programs saw.
"""
import argparse, collections, html, json, math, os, pathlib, shutil, signal, socket, subprocess, sys, threading, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KILL_AT, JOIN_AT = 30, 40
START_TIMEOUT_S, STALL_S = 120, 60


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Program:
    """A child process whose JSON lines are read as they come."""

    def __init__(self, name, command, log):
        self.name, self.lines, self.ended, self.killed = name, [], False, False
        self.errors = open(log, 'w')
        # the user's own run book stays out of it: this run's key is a new one each time
        environment = dict(os.environ, XDG_CONFIG_HOME=str(pathlib.Path(log).parent / 'config'))
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment)
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            with self.changed:
                self.lines.append(event)
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def events(self, kind):
        with self.changed:
            return [e for e in self.lines if e.get('event') == kind]

    def epoch(self):
        epochs = self.events('epoch')
        return epochs[-1]['epoch'] if epochs else 0

    def wait_for(self, kind, timeout):
        deadline = time.monotonic() + timeout
        with self.changed:
            while not any(e.get('event') == kind for e in self.lines):
                left = deadline - time.monotonic()
                if left <= 0 or (self.ended and not any(e.get('event') == kind for e in self.lines)):
                    return None
                self.changed.wait(left)
            return next(e for e in self.lines if e.get('event') == kind)

    def cpu_seconds(self):
        try:
            fields = pathlib.Path(f'/proc/{self.process.pid}/stat').read_text().rsplit(')', 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
        except OSError:
            return None

    def stop(self, patience=20):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join(5)
        return self.process.returncode


class Demo:
    def __init__(self, options):
        self.options, self.folder = options, options.folder.resolve()
        self.port = free_port()
        self.http = free_port()
        self.late_name = f'peer-{options.peers + 1}'
        self.peers, self.cpu, self.notes = {}, {}, []
        self.started = time.monotonic()

    def say(self, text):
        print(f'{time.monotonic() - self.started:6.1f} s  {text}', flush=True)

    def fail(self, what, program=None):
        print(f'demo: {what}', file=sys.stderr)
        if program:
            log = self.folder / f'{program.name}.log'
            print(f'last lines of {log}:', *log.read_text().splitlines()[-20:], sep='\n  ', file=sys.stderr)
        self.stop_all()
        sys.exit(1)

    def start_coordinator(self, found=True):
        command = [str(ROOT / 'build/apps/coordinator/collab-coordinator'), '--run-id', 'demo', '--json',
                   '--home', str(self.folder / 'coordinator'), '--listen', f'127.0.0.1:{self.port}',
                   '--dashboard', f'127.0.0.1:{self.http}', '--admission', 'open']
        if found:
            command += ['--new-run', '--preset', 'demo']
            if self.options.epochs:
                command += ['--epochs', str(self.options.epochs)]
            if self.options.group_size:
                command += ['--group-size-max', str(self.options.group_size)]
            if self.options.data:
                command += ['--data', str(self.options.data)]
        self.coordinator = Program('coordinator', command, self.folder / 'coordinator.log')
        ready = self.coordinator.wait_for('ready', START_TIMEOUT_S)
        if ready is None:
            self.fail('the coordinator did not start', self.coordinator)
        self.say(f'coordinator on 127.0.0.1:{self.port}; dashboard at http://127.0.0.1:{self.http}/')

    def start_peer(self, name):
        command = [str(ROOT / 'build/apps/peer/collab-peer'), '--run-id', 'demo', '--json', '--name', name,
                   '--home', str(self.folder / name), '--bootstrap', f'127.0.0.1:{self.port}',
                   '--listen', '127.0.0.1:0', '--no-lan', '--threads', '1', '--device', 'cpu', '--rest-on', 'none']
        self.peers[name] = Program(name, command, self.folder / f'{name}.log')

    def alive(self):
        return [p for p in self.peers.values() if not p.killed and p.process.poll() is None]

    def note_cpu(self):
        for program in [self.coordinator, *self.peers.values()]:
            seconds = program.cpu_seconds()
            if seconds is not None:
                self.cpu[program.name] = seconds

    def train(self):
        limit = time.monotonic() + self.options.minutes * 60
        last_epoch, moved, shown = 0, time.monotonic(), -1
        while True:
            time.sleep(0.05)
            self.note_cpu()
            for peer in self.peers.values():
                if not peer.killed and peer.process.poll() not in (None, 0):
                    self.fail(f'{peer.name} ended with code {peer.process.returncode}', peer)
            epoch = max(p.epoch() for p in self.peers.values())
            if epoch > last_epoch:
                last_epoch, moved = epoch, time.monotonic()
            if epoch >= KILL_AT and not any(p.killed for p in self.peers.values()):
                victim = self.peers['peer-2']
                victim.killed = True
                victim.process.kill()
                self.say(f'epoch {epoch}: killed {victim.name} (SIGKILL)')
            if epoch >= JOIN_AT and self.late_name not in self.peers:
                self.start_peer(self.late_name)
                self.say(f'epoch {epoch}: started {self.late_name}')
            if epoch // 50 > shown:
                shown = epoch // 50
                self.say(f'epoch {epoch}: loss {self.loss_text(epoch)}, {len(self.alive())} peers')
            if not self.alive() or time.monotonic() > limit:
                return
            if time.monotonic() - moved > STALL_S:
                self.fail(f'no epoch for {STALL_S} s after epoch {last_epoch}', self.alive()[0])

    def loss_text(self, epoch):
        losses = self.mean_losses()
        near = [losses[e] for e in range(max(1, epoch - 9), epoch + 1) if e in losses]
        return f'{sum(near) / len(near):.3f}' if near else '-'

    def mean_losses(self):
        by_epoch = collections.defaultdict(list)
        for peer in self.peers.values():
            for e in peer.events('epoch'):
                if e.get('loss') is not None:
                    by_epoch[e['epoch']].append(e['loss'])
        return {e: sum(v) / len(v) for e, v in sorted(by_epoch.items())}

    def evaluations(self):
        found = {}
        for peer in self.peers.values():
            for e in peer.events('evaluation'):
                found[e['epoch']] = e
        return dict(sorted(found.items()))

    def stop_all(self):
        for program in [*self.alive(), self.coordinator]:
            program.stop()

    def run(self):
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        self.start_coordinator()
        for i in range(1, self.options.peers + 1):
            self.start_peer(f'peer-{i}')
        for peer in list(self.peers.values()):
            if peer.wait_for('joined', START_TIMEOUT_S) is None:
                self.fail(f'{peer.name} did not join', peer)
        self.say(f'{self.options.peers} peers have joined')
        self.train()
        keep = self.options.keep and self.alive()
        if not keep:
            for peer in self.alive():
                peer.stop()
            self.coordinator.stop()
        ok = self.report()
        if keep:
            print(f'\nstill running: dashboard at http://127.0.0.1:{self.http}/; logs in {self.folder}; '
                  'Ctrl+C ends it')
            try:
                while self.alive():
                    time.sleep(1)
            except KeyboardInterrupt:
                self.stop_all()
        return ok

    def final_evaluation(self):
        """The exported model, evaluated by the program itself."""
        best = max((p for p in self.peers.values() if not p.killed), key=lambda p: p.epoch())
        target = self.folder / 'model'
        command = [str(ROOT / 'build/apps/peer/collab-peer'), '--run-id', 'demo', '--home', str(self.folder / best.name)]
        subprocess.run(command[:1] + ['export'] + command[1:] + ['--to', str(target)], check=True, stdout=subprocess.DEVNULL)
        result = subprocess.run(command[:1] + ['eval'] + command[1:] + ['--json', '--threads', '2', '--device', 'cpu'], check=True,
                                capture_output=True, text=True)
        return target, json.loads(result.stdout.splitlines()[-1])

    def report(self):
        losses, evaluations = self.mean_losses(), self.evaluations()
        epochs = max(losses, default=0)
        hashes = collections.defaultdict(set)
        for peer in self.peers.values():
            for e in peer.events('epoch'):
                hashes[e['epoch']].add((e['parameters'], e['ledger']))
        unequal = sorted(e for e, found in hashes.items() if len(found) > 1)
        compared = sum(1 for e in hashes if sum(e in {x['epoch'] for x in p.events('epoch')} for p in self.peers.values()) > 1)
        committed = sum(1 for p in self.peers.values() for e in p.events('epoch') if e['result'] == 'committed')
        caught_up = sum(1 for p in self.peers.values() for e in p.events('epoch') if e['result'] != 'committed')
        failed = sum(len(p.events('round_failed')) for p in self.peers.values())
        model, final = self.final_evaluation()
        vocabulary = final['vocabulary']
        at_100 = next((e['mlm_loss'] for epoch, e in evaluations.items() if epoch >= 100), None)
        late = self.peers.get(self.late_name)
        checks = []

        def check(what, holds):
            checks.append((what, bool(holds)))

        check(f'first training loss {losses.get(1, math.nan):.3f} is near ln {vocabulary} = {math.log(vocabulary):.3f}',
              1 in losses and abs(losses[1] - math.log(vocabulary)) < 0.5)
        if at_100 is not None:
            check(f'held-out MLM loss after 100 epochs {at_100:.3f} <= ln {vocabulary} - 1.2 = {math.log(vocabulary) - 1.2:.3f}',
                  at_100 <= math.log(vocabulary) - 1.2)
        check(f'held-out MLM loss at the end {final["mlm_loss"]:.3f} < unigram baseline {final["unigram_loss"]:.3f}',
              final['mlm_loss'] < final['unigram_loss'] or epochs < 300)
        check(f'all peers hold equal parameters and ledgers: compared at {compared} epochs, unequal at {len(unequal)}',
              compared > 0 and not unequal)
        check('peer-2 was killed and the others went on', any(p.killed for p in self.peers.values()) or epochs < KILL_AT)
        check(f'{self.late_name} joined late and took part', late is None and epochs < JOIN_AT or
              late is not None and any(e['result'] == 'committed' for e in late.events('epoch')))

        lines = [f'epochs            {epochs} in {time.monotonic() - self.started:.0f} s',
                 f'training loss     {losses.get(1, math.nan):.3f} -> {self.loss_text(epochs)}',
                 f'held-out MLM loss {final["mlm_loss"]:.3f} (unigram baseline {final["unigram_loss"]:.3f}, '
                 f'accuracy {100 * final["mlm_accuracy"]:.1f} %)',
                 f'rounds            {committed} committed, {failed} failed, {caught_up} caught up (peer-rounds)', '']
        lines.append(f'{"peer":<12} {"epochs":>7} {"samples":>9} {"up MB":>8} {"down MB":>8} {"CPU s":>7}')
        for name, peer in self.peers.items():
            own = peer.events('epoch')
            lines.append(f'{name:<12} {len(own):>7} {sum(e["own_samples"] for e in own):>9} '
                         f'{(own[-1]["bytes_up"] if own else 0) / 1e6:>8.1f} {(own[-1]["bytes_down"] if own else 0) / 1e6:>8.1f} '
                         f'{self.cpu.get(name, 0):>7.1f}' + ('   killed' if peer.killed else ''))
        lines.append(f'{"coordinator":<12} {"":>7} {"":>9} {"":>8} {"":>8} {self.cpu.get("coordinator", 0):>7.1f}')
        lines.append('')
        lines += [f'{"ok  " if holds else "FAIL"} {what}' for what, holds in checks]
        lines += ['', f'exported model    {model}', f'loss curve        {self.folder / "loss.svg"}']
        (self.folder / 'loss.svg').write_text(loss_curve(losses, evaluations, final, vocabulary))
        (self.folder / 'report.txt').write_text('\n'.join(lines) + '\n')
        print('\n' + '\n'.join(lines))
        return all(holds for _, holds in checks)


def loss_curve(losses, evaluations, final, vocabulary, width=860, height=420):
    """Training and held-out loss by epoch, with the two lines that a model has to get under."""
    last = max(losses, default=1)
    held_out = {e: v['mlm_loss'] for e, v in evaluations.items()} | {last: final['mlm_loss']}
    high = max([*losses.values(), math.log(vocabulary)]) + 0.2
    low = min([*losses.values(), *held_out.values(), final['unigram_loss']]) - 0.2
    x = lambda epoch: 60 + (width - 90) * epoch / max(last, 1)
    y = lambda loss: 30 + (height - 80) * (high - loss) / (high - low)
    path = lambda points: ' '.join(f'{x(e):.1f},{y(v):.1f}' for e, v in points.items())
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for tick in range(math.ceil(low * 2), math.floor(high * 2) + 1):
        out.append(f'<path d="M60 {y(tick / 2):.1f}H{width - 30}" stroke="#ddd"/>'
                   f'<text x="52" y="{y(tick / 2) + 4:.1f}" text-anchor="end">{tick / 2:g}</text>')
    for epoch in range(0, last + 1, max(50, last // 12 // 50 * 50)):
        out.append(f'<text x="{x(epoch):.1f}" y="{height - 28}" text-anchor="middle">{epoch}</text>')
    for value, text in ((math.log(vocabulary), f'ln {vocabulary}'), (final['unigram_loss'], 'unigram baseline, held out')):
        out.append(f'<path d="M60 {y(value):.1f}H{width - 30}" stroke="#888" stroke-dasharray="6 4"/>'
                   f'<text x="{width - 34}" y="{y(value) - 5:.1f}" text-anchor="end" fill="#555">{html.escape(text)}</text>')
    out.append(f'<polyline points="{path(losses)}" fill="none" stroke="#4878b0" stroke-width="1" opacity="0.7"/>')
    out.append(f'<polyline points="{path(held_out)}" fill="none" stroke="#c44e52" stroke-width="2"/>')
    out.append(f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">epoch (one step of all peers together)</text>')
    out.append('<text x="64" y="20" fill="#4878b0">training loss, mean of all peers</text>'
               '<text x="300" y="20" fill="#c44e52">held-out MLM loss</text></svg>')
    return '\n'.join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--minutes', type=float, default=30, help='stop training after so many minutes')
    parser.add_argument('--epochs', type=int, default=0, help='stop training at this epoch (default: the recipe\'s 600)')
    parser.add_argument('--peers', type=int, default=4, help='that begin (default 4)')
    parser.add_argument('--group-size', type=int, default=0, help='at most so many average in one group; with more peers groups form a grid')
    parser.add_argument('--data', type=pathlib.Path, help='a folder of text instead of the packaged Bengali')
    parser.add_argument('--folder', type=pathlib.Path, default=ROOT / 'build/demo')
    parser.add_argument('--keep', action='store_true', help='leave everything running')
    demo = Demo(parser.parse_args())
    try:
        sys.exit(0 if demo.run() else 1)
    except KeyboardInterrupt:
        print('\ndemo: interrupted; stopping everything', file=sys.stderr)
        demo.stop_all()
        sys.exit(130)


if __name__ == '__main__':
    main()
