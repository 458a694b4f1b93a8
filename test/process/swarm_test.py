#!/usr/bin/env python3
"""Real programs, real keys, real text: peers of one swarm are frozen, killed and added, and its coordinator dies.

Usage: swarm_test.py COORDINATOR PEER. Prints a line per case and a last line that counts them. Every wait has a bound;
what is asserted is what the programs say of themselves: epochs, hashes of parameters, who caught up and how.
"""
import collections, os, pathlib, signal, sys, tempfile, time

import programs
from programs import free_port, write_text

COORDINATOR, PEER = sys.argv[1:3]


class Program(programs.Program):
    def epoch(self):
        return max((e['epoch'] for e in self.events('epoch')), default=0)

    def kill(self, how):
        self.process.send_signal(how)


class Swarm:
    def __init__(self, folder):
        self.folder, self.port, self.peers, self.history = folder, free_port(), {}, []
        self.asides = []
        self.environment = dict(os.environ, XDG_CONFIG_HOME=str(folder / 'config'), OMP_WAIT_POLICY='passive')
        write_text(folder / 'text')
        self.start_coordinator()

    def start_coordinator(self):
        self.coordinator = Program(
            [COORDINATOR, '--run-id', 'swarm-test', '--new-run', '--preset', 'demo', '--data', str(self.folder / 'text'),
             '--home', str(self.folder / 'coordinator'), '--listen', f'127.0.0.1:{self.port}', '--dashboard', 'off',
             '--checkpoint-every', '0', '--no-lan', '--target-batch', '96', '--json'],
            self.folder / 'coordinator.log', self.environment)
        self.wait('the coordinator is ready', 30, lambda: self.coordinator.events('ready'))

    def start_program(self, name, *more):
        return Program(
            [PEER, '--run-id', 'swarm-test', '--home', str(self.folder / name), '--bootstrap', f'127.0.0.1:{self.port}',
             '--listen', '127.0.0.1:0', '--no-lan', '--threads', '1', '--device', 'cpu', '--no-evaluate', '--json', *more],
            self.folder / f'{name}.log', self.environment)

    def start_peer(self, name):
        self.peers[name] = self.start_program(name)
        self.history.append(self.peers[name])
        return self.peers[name]

    def start_aside(self, role):
        self.asides.append(self.start_program(role, '--role', role))
        return self.asides[-1]

    def wait(self, what, seconds, condition):
        start = time.monotonic()
        while not condition():
            if time.monotonic() - start > seconds:
                raise AssertionError(f'not within {seconds} s: {what}')
            time.sleep(0.05)
        return time.monotonic() - start

    def goes_on(self, names, epochs, seconds, what):
        """Each of `names` ends `epochs` more epochs within the time."""
        goals = {name: self.peers[name].epoch() + epochs for name in names}
        return self.wait(what, seconds, lambda: all(self.peers[n].epoch() >= g for n, g in goals.items()))

    def of_all_four(self):
        """Epochs that a, b, c and d committed, with what each brought: nothing, when the others were quick."""
        by_epoch = collections.defaultdict(list)
        for name in 'abcd':
            for e in self.peers[name].events('epoch'):
                by_epoch[e['epoch']].append(e)
        return [{'epoch': number, 'peers': ended[0]['peers'], 'samples': ended[0]['samples'],
                 'brought': [e['own_samples'] for e in ended]}
                for number, ended in by_epoch.items() if [e['result'] for e in ended] == 4 * ['committed']]

    def unequal_epochs(self):
        hashes = collections.defaultdict(set)
        for peer in self.history:
            for e in peer.events('epoch'):
                hashes[e['epoch']].add((e['parameters'], e['ledger']))
        shared = [e for e in hashes if sum(e in {x['epoch'] for x in p.events('epoch')} for p in self.history) > 1]
        assert shared, 'no two peers ended one epoch'
        return [e for e in shared if len(hashes[e]) > 1]

    def stop(self):
        for program in [*self.history, *self.asides, self.coordinator]:
            if program.process.poll() is None:
                program.kill(signal.SIGKILL)
                program.process.wait()


def start(swarm):
    for name in 'abc':
        swarm.start_peer(name)
    swarm.wait('three peers have joined', 40, lambda: all(p.events('joined') for p in swarm.peers.values()))
    swarm.goes_on('abc', 3, 30, 'three epochs together')


def late_joiner(swarm):
    late = swarm.start_peer('d')
    swarm.wait('the fourth peer has joined', 30, lambda: late.events('joined'))
    downloads = late.events('state.downloaded')
    assert downloads and int(downloads[0]['text'].split(' MB from ')[1].split()[0]) >= 2, downloads
    swarm.wait('it takes part', 15, lambda: any(e['result'] == 'committed' for e in late.events('epoch')))


def aside(swarm):
    helper, watcher = swarm.start_aside('aux'), swarm.start_aside('monitor')
    swarm.wait('the auxiliary averages', 30, lambda: len(helper.events('round.committed')) >= 3)
    swarm.wait('peers have it in their groups', 5, lambda: swarm.peers['a'].events('epoch')[-1]['peers'] == 5)
    swarm.wait('the monitor sees epochs, of four peers', 10,
               lambda: any(e['peers'] == 4 and e['loss'] > 0 for e in watcher.events('epoch')))
    swarm.wait('an epoch with it that all four committed', 10, lambda: any(e['peers'] == 5 for e in swarm.of_all_four()))
    for e in swarm.of_all_four():
        assert sum(e['brought']) == e['samples'], f'the peers brought what was averaged, the auxiliary nothing: {e}'
    helper.kill(signal.SIGKILL)
    took = swarm.goes_on('abcd', 1, 8, 'the others go on without the auxiliary')
    watcher.kill(signal.SIGINT)
    swarm.wait('the monitor has left', 15, lambda: watcher.process.poll() is not None)
    assert watcher.process.returncode == 0 and watcher.events('left')[0]['rounds'] == 0, watcher.process.returncode
    return took


def frozen(swarm):
    swarm.peers['b'].kill(signal.SIGSTOP)
    took = swarm.goes_on('acd', 1, 8, 'the others go on without the frozen one')
    swarm.goes_on('acd', 4, 15, 'and keep going')
    swarm.peers['b'].kill(signal.SIGCONT)
    swarm.wait('the thawed one is back', 25, lambda: swarm.peers['b'].epoch() >= swarm.peers['a'].epoch() - 1)
    return took


def killed(swarm):
    swarm.peers['c'].kill(signal.SIGKILL)
    took = swarm.goes_on('abd', 1, 8, 'the others go on without the killed one')
    back = swarm.start_peer('c')
    swarm.wait('the killed one is back', 30, lambda: any(e['result'] == 'committed' for e in back.events('epoch')))
    return took


def coordinator_dies(swarm):
    swarm.coordinator.kill(signal.SIGKILL)
    swarm.coordinator.process.wait()
    took = swarm.goes_on('abcd', 5, 20, 'training goes on without a coordinator')
    swarm.start_coordinator()
    swarm.goes_on('abcd', 5, 20, 'and with it again')
    return took


def planned_leave(swarm):
    leaver = swarm.peers['d']
    leaver.kill(signal.SIGINT)
    swarm.wait('it has left', 15, lambda: leaver.process.poll() is not None)
    assert leaver.process.returncode == 0, leaver.process.returncode
    assert leaver.events('left') and (swarm.folder / 'd/checkpoints').exists()
    swarm.goes_on('abc', 2, 8, 'the others do not wait for it')


def equal(swarm):
    unequal = swarm.unequal_epochs()
    assert not unequal, f'parameters or ledgers differ at epochs {unequal}'


CASES = [('three peers find the run and train', start), ('a late joiner fetches the state from several donors', late_joiner),
         ('an auxiliary averages for the others, a monitor looks on', aside),
         ('a frozen peer delays nobody for long and catches up', frozen), ('a killed peer is left out and comes back', killed),
         ('the coordinator dies and comes back', coordinator_dies), ('a planned leave', planned_leave),
         ('all parameters and ledgers were equal at every epoch', equal)]

with tempfile.TemporaryDirectory() as place:
    swarm, failed, done = Swarm(pathlib.Path(place)), 0, 0
    try:
        for name, case in CASES:
            took = case(swarm)
            done += 1
            print(f'ok: {name}' + (f' ({took:.1f} s)' if took else ''), flush=True)
    except AssertionError as problem:
        failed = 1
        print(f'FAILED: {name}: {problem}')
        for log in sorted(pathlib.Path(place).glob('*.log')):
            print(f'--- {log.name}', *log.read_text().splitlines()[-15:], sep='\n')
    finally:
        swarm.stop()
print(f'{done} passed, {failed} failed, {len(CASES) - done - failed} skipped')
sys.exit(failed)
