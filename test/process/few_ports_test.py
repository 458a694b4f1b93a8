#!/usr/bin/env python3
"""A peer whose network lets it out to port 443 only trains with one that listens elsewhere: real programs, in network
namespaces. The coordinator, at port 443, leads it on, and carries tensors too.

Usage: few_ports_test.py COORDINATOR PEER. Prints a line per case, and a last line that counts. Where no network namespaces can
be made all is skipped, with the reason.
"""
import collections, json, os, re, subprocess, sys, time

import laboratory, programs
from laboratory import LAB, lab
from programs import wait

COORDINATOR, PEER = [os.path.abspath(program) for program in sys.argv[1:]]
RUN, HOST, WEB = 'campus', '11.99.0.1:4600', 'wss://11.99.0.1:443/collab/v1'
KINDS = {'a': 'open', 'b': 'masquerade'}
NAMES = {'owner': 'a', 'campus': 'b'}


class Swarm:
    def __init__(self, running):
        self.running, self.peers = running, {}
        self.text = programs.write_text(running.folder / 'text', documents=2000)
        self.found('coordinator')
        lab('nat_lab.sh', 'egress', NAMES['campus'], 'web')
        for name, bootstrap in {'owner': HOST, 'campus': WEB}.items():
            self.peers[name] = self.start(name, NAMES[name], [
                PEER, '--run-id', RUN, '--home', self.home(name), '--name', name, '--bootstrap', bootstrap, '--no-lan',
                '--no-port-map', *programs.LIGHT, '--json'])

    def start(self, name, where, command):
        return self.running.start(name, [LAB / 'nat_lab.sh', 'exec', where, *command])

    def found(self, name):
        self.coordinator = self.start(name, 'wan', [
            COORDINATOR, '--new-run', '--run-id', RUN, '--preset', 'demo', '--data', self.text, '--target-batch', '150',
            '--admission', 'open', '--checkpoint-every', '0', '--home', self.running.folder / 'host', '--listen', '0.0.0.0:4600',
            '--announce', HOST, '--wss-port', '443', '--relay-rate', '200', '--dashboard', 'off', '--no-lan', '--json'])
        self.coordinator.wait_for('ready', 20)

    def home(self, name):
        return self.running.folder / f'{name}-home'

    def status(self, name):
        asked = subprocess.run([PEER, 'status', '--json', '--run-id', RUN, '--home', self.home(name)], capture_output=True,
                               text=True, timeout=15)
        assert asked.returncode == 0, asked
        return {peer['name']: peer for peer in json.loads(asked.stdout)['peers']}

    def together(self, name):
        return sum(e['result'] == 'committed' and e['peers'] == len(NAMES) for e in self.peers[name].events('epoch'))

    def go_on(self, epochs, seconds):
        """So many more epochs of both in one group."""
        goals = {name: self.together(name) + epochs for name in NAMES}
        began = time.monotonic()
        try:
            wait(f'{epochs} epochs of both', seconds, lambda: all(self.together(name) >= goal for name, goal in goals.items()))
        except AssertionError as late:
            raise AssertionError(f'{late}: {[(name, peer.log()) for name, peer in self.peers.items()]}') from None
        return time.monotonic() - began

    def hold_the_same(self):
        hashes = collections.defaultdict(set)
        for peer in self.peers.values():
            for event in peer.events('epoch'):
                hashes[event['epoch']].add((event['parameters'], event['ledger']))
        assert hashes and all(len(told) == 1 for told in hashes.values()), hashes

    def lost(self):
        return {name: sum(int(re.search(r'(\d+) samples', event['text'])[1]) for event in peer.events('samples.lost'))
                for name, peer in self.peers.items()}


def trains(swarm):
    """Tensors go both ways, through the coordinator."""
    took = swarm.go_on(5, 90)
    swarm.hold_the_same()
    ways = {}
    for name, other in ('owner', 'campus'), ('campus', 'owner'):
        way = swarm.status(name)[other]
        assert way['path'] == 'relay' and way['bulk_bytes'] > 5 * 1e6, way
        ways[f'{name} to {other}'] = f'{way["path"]}, {way["bulk_bytes"] / 1e6:.0f} MB'
    to_coordinator = swarm.status('campus')['coordinator']['path']
    assert to_coordinator == 'wss', to_coordinator
    print(f'five epochs of both in {took:.1f} s; {ways}; samples lost: {swarm.lost()}', flush=True)


def relay_returns(swarm):
    """The coordinator is killed, and with it the only way between them. When it is there again they train together."""
    swarm.coordinator.process.kill()
    swarm.coordinator.process.wait()
    time.sleep(3)
    swarm.found('coordinator-again')
    took = swarm.go_on(2, 60)
    swarm.hold_the_same()
    print(f'two more of both within {took:.1f} s of its return; samples lost so far: {swarm.lost()}', flush=True)


CASES = [trains, relay_returns]

sys.exit(laboratory.run(KINDS, CASES, Swarm))
