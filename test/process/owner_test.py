#!/usr/bin/env python3
"""Real programs: what the owner of a peer's machine wishes, or of a coordinator's. A peer pauses, rests when its traffic is used up, takes part in its
hours only, and keeps to the part of the line that it was given; the others train on, and it comes back by itself.

Usage: owner_test.py COORDINATOR PEER. Prints a line per case and a last line that counts them.
"""
import json, subprocess, sys, tempfile, time, traceback

import programs
from programs import wait

COORDINATOR, PEER = sys.argv[1:3]
SLOWEST = 20  # seconds for a start on a busy machine


class Swarm:
    def __init__(self, running):
        self.running, self.peers = running, {}
        self.text = programs.write_text(running.folder / 'text', documents=400)
        self.host, self.at = running.coordinator(COORDINATOR, 'owned', '--preset', 'demo', '--data', self.text,
                                                 '--target-batch', '24', '--epochs', '9999')

    def words(self, name, *more):
        return [PEER, *more, '--run-id', 'owned', '--home', self.running.folder / name / 'home']

    def start(self, name, *more):
        at = [] if '--bootstrap' in more else ['--bootstrap', self.at]
        peer = self.running.start(name, self.words(name, *at, '--name', name, '--no-lan', '--no-port-map', '--listen',
                                                   '127.0.0.1:0', *programs.LIGHT, '--json', *more))
        self.peers[name] = peer
        return peer

    def tell(self, name, *command):
        done = subprocess.run([str(word) for word in self.words(name, *command)], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def go_on(self, names, epochs, group_of):
        def committed(name):
            return len([e for e in self.peers[name].events('epoch') if e['result'] == 'committed' and e['peers'] == group_of])
        goals = {name: committed(name) + epochs for name in names}
        wait(f'{epochs} epochs of {names} in groups of {group_of}', 40,
             lambda: all(committed(name) >= goal for name, goal in goals.items()))


def pauses_and_resumes(swarm):
    swarm.start('a')
    b = swarm.start('b')
    swarm.go_on('ab', 3, group_of=2)
    assert swarm.tell('b', 'pause') == 'paused until collab-peer resume'
    b.wait_for('resting', SLOWEST)
    assert b.events('left')[-1]['samples_lost'] == 0, b.events('left')
    assert 'rests until collab-peer resume: its owner paused it' in swarm.tell('b', 'status')
    swarm.go_on('a', 3, group_of=1)
    assert swarm.tell('b', 'resume') == 'the pause is over'
    b.wait_for('resumed', 5)
    swarm.go_on('ab', 3, group_of=2)
    assert swarm.tell('b', 'resume') == 'nothing was paused'


def pauses_for_a_time(swarm):
    b = swarm.peers['b']
    rested = b.count('resting')
    assert swarm.tell('b', 'pause', '4s').startswith('paused until ')
    b.wait_for('resting', SLOWEST, rested + 1)
    b.wait_for('resumed', 10, rested + 1)
    swarm.go_on('ab', 2, group_of=2)


def is_stopped_while_it_begins_to_rest(swarm):
    """Wherever in the leave that meets it: who is asked to end does not go on to rest."""
    b = swarm.peers['b']
    swarm.tell('b', 'pause')
    time.sleep(0.8)  # within a second the leave begins; a moment before or after it the same holds
    assert b.stop(seconds=20) == 0, b.log()
    swarm.tell('b', 'resume')
    swarm.start('b').wait_for('joined', SLOWEST)
    swarm.go_on('ab', 1, group_of=2)


def leaves_while_it_rests(swarm):
    swarm.tell('b', 'pause')
    swarm.peers['b'].wait_for('resting', SLOWEST)
    swarm.tell('b', 'leave')
    swarm.peers['b'].finish(10)
    swarm.tell('b', 'resume')


def rests_when_its_traffic_is_used_up(swarm):
    """And knows it after a restart: until tomorrow it never joins. A larger limit lets it in."""
    c = swarm.start('c', '--limit-day', '0.008')
    c.wait_for('resting', 60)
    rest = c.events('resting')[0]
    assert rest['until'] == 'midnight' and '8 MB' in rest['why'].replace('0.008 GB', '8 MB'), rest
    assert any(e['event'] == 'epoch' for e in c.events()), c.log()
    assert c.stop() == 0
    again = swarm.start('c', '--limit-day', '0.008', '--limit-month', '1')
    again.wait_for('resting', SLOWEST)
    assert not again.events('started'), again.events()
    assert again.stop() == 0
    more = swarm.start('c', '--limit-day', '1')
    more.wait_for('joined', SLOWEST)
    more.leave()


def takes_part_in_its_hours_only(swarm):
    days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']
    in_three_days = days[(time.localtime().tm_wday + 3) % 7]
    d = swarm.start('d', '--hours', f'{in_three_days} 10:00-11:00')
    d.wait_for('resting', SLOWEST)
    assert d.events('resting')[0]['until'] == f'{in_three_days.capitalize()} 10:00'
    assert d.stop() == 0 and not d.events('started')


def pauses_while_it_looks_for_the_run(swarm):
    nobody = f'127.0.0.1:{programs.free_port()}'
    f = swarm.start('f', '--bootstrap', nobody, '--patience', '60')
    f.wait_for('started', SLOWEST)
    swarm.tell('f', 'pause')
    f.wait_for('resting', SLOWEST)
    swarm.tell('f', 'resume')
    f.wait_for('started', SLOWEST, 2)
    f.stop()


def keeps_to_its_part_of_the_line(swarm):
    """8 Mbit/s each way, of which a connection's start and what was counted a moment ago are a second at most."""
    e = swarm.start('e', '--limit-up', '8', '--limit-down', '8')
    e.wait_for('joined', 60)
    swarm.go_on('ae', 1, group_of=2)
    before, then = e.events('epoch')[-1], time.monotonic()
    swarm.go_on('ae', 4, group_of=2)
    after, seconds = e.events('epoch')[-1], time.monotonic() - then
    for way in ('bytes_up', 'bytes_down'):
        moved = after[way] - before[way]
        assert 0 < moved <= 1e6 * (seconds + 1), (way, moved, seconds)
    print(f'   {(after["bytes_up"] - before["bytes_up"]) / seconds / 1e6:.2f} MB/s up of 1, in {seconds:.1f} s')


def coordinator_keeps_to_its_part(swarm):
    """At 0.5 Mbit/s the run's files take their time; a second of it is what a line may be ahead."""
    home, at = swarm.running.folder / 'slow', f'127.0.0.1:{programs.free_port()}'
    host = swarm.running.start('slow', [COORDINATOR, '--new-run', '--run-id', 'owned', '--home', home, '--preset', 'demo', '--data', swarm.text,
                                        '--listen', at, '--dashboard', 'off', '--no-lan', '--limit-up', '0.5', '--json'])
    host.wait_for('ready', SLOWEST)
    seconds = sum(file.stat().st_size for file in (home / 'prepared.bin', home / 'spiece.model')) / (0.5e6 / 8)
    assert seconds > 2, seconds
    g = swarm.start('g', '--bootstrap', at)
    g.wait_for('started', SLOWEST)
    began = time.monotonic()
    g.wait_for('joined', 60)
    assert seconds - 1 <= time.monotonic() - began <= 2 * seconds + 10, (seconds, time.monotonic() - began)
    g.stop()
    host.stop()
    del swarm.peers['g']


def hold_the_same(swarm):
    told = {}
    for name, peer in swarm.peers.items():
        for event in peer.events('epoch'):
            told.setdefault(event['epoch'], {}).setdefault((event['parameters'], event['ledger']), []).append((name, event))
    apart = [by_hash for by_hash in told.values() if len(by_hash) > 1]
    assert told and not apart, apart


CASES = [pauses_and_resumes, pauses_for_a_time, is_stopped_while_it_begins_to_rest, leaves_while_it_rests, rests_when_its_traffic_is_used_up,
         takes_part_in_its_hours_only, pauses_while_it_looks_for_the_run, keeps_to_its_part_of_the_line, coordinator_keeps_to_its_part,
         hold_the_same]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder, programs.Programs(folder) as running:
        swarm = Swarm(running)
        for case in CASES:
            began = time.monotonic()
            try:
                case(swarm)
                print(f'ok {case.__name__} {time.monotonic() - began:.1f} s', flush=True)
            except Exception:
                failed += 1
                print(f'FAILED {case.__name__}\n{traceback.format_exc()}', flush=True)
                break
    print(f'{len(CASES)} cases, {failed} failed')
    return 1 if failed else 0


sys.exit(main())
