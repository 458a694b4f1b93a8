#!/usr/bin/env python3
"""Six peers, five of whom nobody can dial, train one model: real programs, each in a network namespace of its own, behind
real routers of five kinds. Then lines and relays fail while they train.

Usage: behind_routers_test.py COORDINATOR PEER. Prints how each reaches each, a line per case, and a last line that counts.
EPOCHS in the environment: how many the first case waits for. Where no network namespaces can be made all is skipped, with the
reason.
"""
import collections, json, os, re, subprocess, sys, time

import laboratory, programs
from laboratory import LAB, lab
from programs import wait

COORDINATOR, PEER = [os.path.abspath(program) for program in sys.argv[1:]]
RUN, HOST, WEB = 'routers', '11.99.0.1:4600', 'wss://11.99.0.1:443/collab/v1'
KINDS = {'a': 'open', 'b': 'masquerade', 'c': 'masquerade:reject', 'd': 'random', 'e': 'masquerade', 'f': 'masquerade'}
NAMES = {'public': 'a', 'home': 'b', 'home-2': 'c', 'symmetric': 'd', 'proxied': 'e', 'client': 'f'}
HIDDEN = [name for name in NAMES if name != 'public']
PROXY = '10.77.5.1:3128'
EPOCHS = int(os.environ.get('EPOCHS', '50'))
# of circuits and tries to punch: far below the 3 MB that the gradients of one epoch have
WORDS_MAX = 200_000


class Swarm:
    def __init__(self, running):
        self.running, self.peers = running, {}
        # enough for a hundred epochs: where all units of a pass are in one epoch, many are computed by two
        self.text = programs.write_text(running.folder / 'text', documents=2000)
        self.found()
        lab('nat_lab.sh', 'egress', NAMES['proxied'], 'none')
        self.start('proxy', 'router-e', [LAB / 'http_proxy.py', PROXY, '--ports', '443']).wait_for('ready')
        for name, site in NAMES.items():
            self.count_words_to_hidden(site)
            self.peers[name] = self.start(name, site, [
                PEER, '--run-id', RUN, '--home', self.home(name), '--name', name, '--no-lan', '--no-port-map', *programs.LIGHT,
                '--json', *self.words(name)])

    def start(self, name, where, command):
        return self.running.start(name, [LAB / 'nat_lab.sh', 'exec', where, *command])

    def found(self, name='coordinator'):
        """The run; or, with its home, the coordinator again."""
        self.coordinator = self.start(name, 'wan', [
            COORDINATOR, '--new-run', '--run-id', RUN, '--preset', 'demo', '--data', self.text, '--target-batch', '48', '--epochs', '9999',
            '--admission', 'open', '--checkpoint-every', '0', '--home', self.running.folder / 'host', '--listen', '0.0.0.0:4600',
            '--announce', HOST, '--wss-port', '443', '--dashboard', 'off', '--no-lan', '--json'])
        self.coordinator.wait_for('ready', 20)

    def words(self, name):
        if name == 'proxied':
            return ['--proxy', PROXY, '--bootstrap', WEB]
        more = {'public': ['--wss-port', '443'], 'client': ['--client']}
        return ['--bootstrap', HOST, *more.get(name, [])]

    def home(self, name):
        return self.running.folder / f'{name}-home'

    def count_words_to_hidden(self, site):
        """A counter in the site's router: bytes to sites that nobody can dial."""
        addresses = ', '.join(f'11.99.0.{11 + list(KINDS).index(NAMES[name])}' for name in HIDDEN if NAMES[name] != site)
        rules = f'''table ip words {{
            counter hidden {{ }}
            chain outgoing {{ type filter hook postrouting priority 300; oifname "wan" ip daddr {{ {addresses} }} counter name hidden; }}
        }}'''
        lab('nat_lab.sh', 'exec', f'router-{site}', 'nft', '-f', '-', input=rules)

    def words_to_hidden(self, site):
        told = json.loads(lab('nat_lab.sh', 'exec', f'router-{site}', 'nft', '-j', 'list', 'counter', 'ip', 'words', 'hidden'))
        return next(entry['counter']['bytes'] for entry in told['nftables'] if 'counter' in entry)

    def status(self, name):
        """What it says of the others, by name."""
        asked = subprocess.run([PEER, 'status', '--json', '--run-id', RUN, '--home', self.home(name)], capture_output=True,
                               text=True, timeout=15)
        assert asked.returncode == 0, asked
        return {peer['name']: peer for peer in json.loads(asked.stdout)['peers']}

    def committed(self, name):
        return [event for event in self.peers[name].events('epoch') if event['result'] == 'committed']

    def latest(self, name):
        return max((event['epoch'] for event in self.peers[name].events('epoch')), default=0)

    def alive(self):
        for name, peer in self.peers.items():
            assert not peer.ended(), f'{name} has ended: {peer.log()}'

    def each_commits(self, epochs, seconds, names=tuple(NAMES), with_peers=1):
        """So many more, each in groups of at least so many."""
        counts = lambda name: sum(event['peers'] >= with_peers for event in self.committed(name))
        goals = {name: counts(name) + epochs for name in names}
        began = time.monotonic()
        wait_for = lambda: all(counts(name) >= goal for name, goal in goals.items())
        try:
            wait(f'{epochs} epochs of {", ".join(names)}', seconds, wait_for)
        except AssertionError as late:
            logs = '\n'.join(f'{name} {counts(name)} of {goals[name]}: {self.peers[name].log()}' for name in names
                             if counts(name) < goals[name])
            raise AssertionError(f'{late}: {logs}') from None
        self.alive()
        return time.monotonic() - began

    def hold_the_same(self):
        """Parameters and ledger, whoever has been through the same epoch. Returns how many epochs were compared."""
        hashes = collections.defaultdict(dict)
        for name, peer in self.peers.items():
            for event in peer.events('epoch'):
                hashes[event['epoch']][name] = event['parameters'], event['ledger']
        for epoch, told in hashes.items():
            assert len(set(told.values())) == 1, (epoch, told)
        return sum(len(told) > 1 for told in hashes.values())

    def readdressed(self, name):
        log = self.home(name) / 'logs' / 'peer.jsonl'
        return sum('"net.readdressed"' in line for line in log.read_text().splitlines())

    def lost(self):
        """Samples that each says count nowhere, and of how many it told that they do."""
        lost = {name: sum(int(re.search(r'(\d+) samples', event['text'])[1]) for event in peer.events('samples.lost'))
                for name, peer in self.peers.items()}
        return f'{sum(lost.values())} beside {sum(e["own_samples"] for name in NAMES for e in self.committed(name))} ({lost})'


def show(table):
    names = ['coordinator', *NAMES]
    width = max(len(cell) for row in table.values() for cell in [*row.values(), *names]) + 1
    print(' ' * 11 + ''.join(name.ljust(width) for name in names))
    for name, row in table.items():
        print(name.ljust(11) + ''.join(row.get(other, '').ljust(width) for other in names).rstrip(), flush=True)


def trains(swarm):
    """All six, with equal bytes; tensors go to and from those who can be dialled, and to nobody else."""
    began = time.monotonic()
    swarm.each_commits(EPOCHS, 150)
    took = time.monotonic() - began
    everybody = {name: sum(event['peers'] == len(NAMES) for event in swarm.committed(name)) for name in NAMES}
    compared = swarm.hold_the_same()
    table = {}
    for name in NAMES:
        told = swarm.status(name)
        table[name] = {other: f'{peer["path"] or "-"}, {peer["bulk_bytes"] / 1e6:.1f} MB' for other, peer in told.items()
                       if other != name}
        for other in set(HIDDEN) - {name}:
            if name != 'public':
                assert told[other]['bulk_bytes'] == 0, f'{name} has exchanged tensors with {other}: {table[name]}'
                assert told[other]['path'] in (None, 'relay', 'tcp, punched'), table[name]
        if name != 'public':
            assert told['public']['bulk_bytes'] > 1e6 and told['public']['path'] == PATHS.get(name, 'tcp'), table[name]
    show(table)
    states = {peer: told['reachability'] for peer, told in swarm.status('public').items()}
    assert states == STATES, states
    words = {name: swarm.words_to_hidden(site) for name, site in NAMES.items() if name != 'public'}
    assert all(count < WORDS_MAX for count in words.values()), words
    print(f'{EPOCHS} epochs in {took:.0f} s, {compared} compared; with all six in the group: {everybody}; '
          f'bytes to each other past the relays: {words}; samples lost: {swarm.lost()}', flush=True)


PATHS = {'proxied': 'wss through a proxy'}
STATES = {'coordinator': 'open', 'public': 'open', 'home': 'punchable', 'home-2': 'punchable', 'symmetric': 'relayed',
          'proxied': 'outbound_only', 'client': 'outbound_only'}


def line_fails(swarm):
    """For 8 s nothing passes between one of them and the world. The others go on, and it is back within 10 s."""
    others = [name for name in NAMES if name != 'home']
    lab('nat_lab.sh', 'line', NAMES['home'], 'down')
    down = time.monotonic()
    swarm.each_commits(1, 8, others)
    first = time.monotonic() - down
    time.sleep(max(0.0, 8 - (time.monotonic() - down)))
    before = swarm.latest('home')
    lab('nat_lab.sh', 'line', NAMES['home'], 'up')
    back = swarm.each_commits(1, 10, ['home'])
    swarm.each_commits(2, 10, with_peers=len(NAMES))
    print(f'line down for 8 s at epoch {before}: an epoch of the others after {first:.1f} s; it commits {back:.1f} s after its '
          f'line is back; samples lost so far: {swarm.lost()}; {swarm.hold_the_same()} epochs compared', flush=True)


def address_changes(swarm):
    """Of one that dials, then of the only one that the others can dial: it must find that out, be judged, and be found."""
    heals(swarm, 'symmetric', 'renumber', 'another address')
    heals(swarm, 'public', 'renumber', 'another address')
    assert swarm.readdressed('public') == 1  # its machine knew at once


def router_forgets(swarm):
    """What it knew of all connections of one of them: they are dead at both ends, and nobody says so. A second time
    when the one that others dial has just moved: whoever still dials where it was must not wait for that."""
    heals(swarm, 'home', 'forget', 'its router forgets all connections')


def heals(swarm, name, what, said, within=10):
    before = swarm.latest(name)
    lab('nat_lab.sh', what, NAMES[name])
    again = swarm.each_commits(1, within, with_peers=len(NAMES))
    print(f'{name}: {said} at epoch {before}: an epoch of all six within {again:.1f} s; samples lost so far: {swarm.lost()}; '
          f'{swarm.hold_the_same()} epochs compared', flush=True)


def relay_dies(swarm):
    """The coordinator is killed, and with it the relay and observer of most; 5 s later it is there again."""
    swarm.coordinator.process.kill()
    swarm.coordinator.process.wait()
    without = swarm.each_commits(2, 10, with_peers=len(NAMES))
    time.sleep(max(0.0, 5 - without))
    swarm.found('coordinator-again')
    again = swarm.each_commits(3, 10, with_peers=len(NAMES))
    states = {peer: told['reachability'] for peer, told in swarm.status('public').items()}
    print(f'coordinator killed: two epochs of all six within {without:.1f} s; three more within {again:.1f} s of its return, when '
          f'public sees {states}; samples lost so far: {swarm.lost()}; {swarm.hold_the_same()} epochs compared', flush=True)


def all_leave(swarm):
    """Together, as planned."""
    for peer in swarm.peers.values():
        peer.process.send_signal(2)
    for peer in swarm.peers.values():
        peer.finish(25)
    swarm.hold_the_same()


CASES = [trains, line_fails, router_forgets, address_changes, router_forgets, relay_dies, all_leave]

sys.exit(laboratory.run(KINDS, CASES, Swarm))
