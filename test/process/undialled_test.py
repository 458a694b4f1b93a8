#!/usr/bin/env python3
"""Real programs: two peers train whom nobody can dial, and later four, on a grid. Their coordinator averages for them, unless it
is told not to, and hands the state of the run on to those who come later.

Usage: undialled_test.py COORDINATOR PEER. Prints a line per case and a last line that counts them.
"""
import collections, sys, tempfile, traceback

import programs
from programs import wait

COORDINATOR, PEER = sys.argv[1:3]
ADDRESS = f'127.0.0.1:{programs.free_port()}'
FRIENDS = 'ab'


class Swarm:
    def __init__(self, running):
        self.running, self.peers = running, {}
        self.text = programs.write_text(running.folder / 'text', documents=400)
        self.host()

    def host(self, *more):
        """The run, or the coordinator again, with what else it is told."""
        self.coordinator = self.running.start('coordinator', [
            COORDINATOR, '--new-run', '--run-id', 'friends', '--preset', 'demo', '--data', self.text, '--target-batch', '24', '--epochs', '9999',
            '--grid', '2x2',
            '--home', self.running.folder / 'host', '--listen', ADDRESS, '--dashboard', 'off', '--checkpoint-every', '0',
            '--no-lan', '--relay-rate', '1000', '--json', *more])
        wait('the coordinator is ready', 30, lambda: self.coordinator.events('ready'))

    def join(self, name, *more):
        self.peers[name] = self.running.start(name, [
            PEER, '--run-id', 'friends', '--bootstrap', ADDRESS, '--name', name, '--no-lan', '--no-port-map', *programs.LIGHT,
            '--json', *more])

    def committed(self, name, group_of):
        return [e for e in self.peers[name].events('epoch') if e['result'] == 'committed' and e['peers'] == group_of]

    def go_on(self, names, epochs, seconds, group_of):
        """Each ends so many more epochs, in groups of so many."""
        goals = {name: len(self.committed(name, group_of)) + epochs for name in names}
        wait(f'{epochs} epochs of {names} in groups of {group_of}', seconds,
             lambda: all(len(self.committed(name, group_of)) >= goal for name, goal in goals.items()))

    def waits(self, name, words):
        return [e for e in self.peers[name].events('peer.waiting') if words in e['text']]

    def coordinator_averages(self):
        told = self.coordinator.events('status')
        return bool(told) and told[-1]['averages']

    def hold_the_same(self):
        hashes = collections.defaultdict(set)
        for peer in self.peers.values():
            for event in peer.events('epoch'):
                hashes[event['epoch']].add((event['parameters'], event['ledger']))
        unequal = [epoch for epoch, told in hashes.items() if len(told) > 1]
        assert hashes and not unequal, f'parameters or ledgers differ at epochs {unequal}'


def averages_for_them(swarm):
    """The first one trains alone meanwhile."""
    swarm.join('a', '--client')
    swarm.go_on('a', 3, 20, group_of=1)
    swarm.join('b', '--client')
    wait('both have joined', 40, lambda: all(peer.events('joined') for peer in swarm.peers.values()))
    swarm.go_on(FRIENDS, 20, 20, group_of=3)
    assert swarm.coordinator_averages()


def one_dies_and_another_comes(swarm):
    """Both have to fetch the state of somebody whom they cannot dial."""
    swarm.peers['b'].process.kill()
    swarm.peers['b'].process.wait()
    swarm.join('b', '--client')
    swarm.go_on(FRIENDS, 5, 20, group_of=3)  # ten of them are waited when its former life may have signed for this epoch
    swarm.join('d', '--client')
    swarm.go_on('abd', 5, 20, group_of=4)
    swarm.peers['d'].process.terminate()
    wait('it has left', 20, swarm.peers['d'].ended)
    swarm.go_on(FRIENDS, 5, 20, group_of=3)


def four_fill_a_grid(swarm):
    """In each group of two, in both rounds, it is the third."""
    for name in 'fg':
        swarm.join(name, '--client')
    swarm.go_on('abfg', 5, 40, group_of=3)
    for name in 'fg':
        swarm.peers[name].process.terminate()
    wait('both have left', 20, lambda: all(swarm.peers[name].ended() for name in 'fg'))
    swarm.go_on(FRIENDS, 5, 20, group_of=3)


def one_can_be_dialled(swarm):
    swarm.join('c', '--listen', '127.0.0.1:0')
    wait('it has joined', 40, lambda: swarm.peers['c'].events('joined'))
    swarm.go_on('abc', 5, 20, group_of=3)
    wait('the coordinator says that it averages no more', 5, lambda: not swarm.coordinator_averages())
    swarm.peers['c'].process.kill()
    swarm.go_on(FRIENDS, 10, 20, group_of=3)
    assert swarm.coordinator_averages()


def coordinator_is_told_not_to(swarm):
    swarm.coordinator.process.kill()
    swarm.coordinator.process.wait()
    swarm.host('--no-average', '--relay', 'off')
    told = lambda name: swarm.waits(name, 'nobody who trains here can be dialled')
    swarm.join('e', '--client')
    wait('both tell what they wait for', 40, lambda: all(told(name) for name in FRIENDS))
    wait('who comes tells what it lacks', 20, lambda: swarm.waits('e', 'nobody hands it on'))
    assert not swarm.coordinator_averages()
    swarm.peers['e'].process.kill()
    swarm.coordinator.process.kill()
    swarm.coordinator.process.wait()
    swarm.host()
    swarm.go_on(FRIENDS, 10, 30, group_of=3)
    assert all(len(told(name)) == 1 for name in FRIENDS)


def all_leave(swarm):
    swarm.hold_the_same()
    for name in FRIENDS:
        swarm.peers[name].process.terminate()
    wait('both have left', 20, lambda: all(swarm.peers[name].ended() for name in FRIENDS))
    assert all(swarm.peers[name].process.returncode == 0 for name in FRIENDS)


CASES = [averages_for_them, one_dies_and_another_comes, four_fill_a_grid, one_can_be_dialled, coordinator_is_told_not_to, all_leave]
done = 0
with tempfile.TemporaryDirectory() as folder, programs.Programs(folder) as running:
    try:
        swarm = Swarm(running)
        for case in CASES:
            case(swarm)
            done += 1
            print(f'ok: {case.__name__}', flush=True)
    except AssertionError:
        print(f'FAILED: {CASES[done].__name__}: {traceback.format_exc()}')
        for program in running.all:
            print(f'--- {program.log_file}: {program.log()[-1500:]}', *program.lines[-8:], sep='\n')
print(f'{done} passed, {int(done < len(CASES))} failed, {max(0, len(CASES) - done - 1)} skipped')
sys.exit(done < len(CASES))
