#!/usr/bin/env python3
"""Who may take part, with real programs: a run by token, a ban and an expiry while connected, a renewed token, a revoked
one. Who is turned away ends with exit code 4 and the reason, and the others go on.

Usage: admission_test.py COORDINATOR PEER [CASE…]. Prints a line per case and a last line that counts. Tokens end when their
time has come, so what waits for that has a run of its own beside the others.
"""
import json, os, pathlib, subprocess, sys, tempfile, threading, time, traceback

import programs
from programs import free_port, write_text

COORDINATOR, PEER = sys.argv[1:3]
STARTED = []


def start(command, log):
    STARTED.append(programs.Program(command, log, ENVIRONMENT))
    return STARTED[-1]


def ends(program, code, seconds, *says):
    """By itself, with this code and a last line that holds all of `says`; how long that took."""
    began = time.monotonic()
    got = program.process.wait(seconds)
    assert got == code, f'exit {got}, not {code}: {program.log()}'
    last = program.log().strip().splitlines()[-1]
    for words in (*says, ' Try: '):
        assert words in last, f'"{words}" is not in: {last}'
    return time.monotonic() - began


def ask(*command, code=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=ENVIRONMENT, timeout=20)
    assert done.returncode == code, f'exit {done.returncode}, not {code}: {done.stderr}'
    return done


def goes_on(peer, epochs=3):
    peer.wait_for('epoch', 40, peer.count('epoch') + epochs)


class Host:
    """A run of its own: its coordinator, and the homes beside that."""

    def __init__(self, folder):
        self.folder, self.home, self.at = folder, folder / 'host', f'127.0.0.1:{free_port()}'
        self.run_id = f'admission-{folder.name}'
        folder.mkdir()

    def run(self):
        self.program = start([COORDINATOR, '--run-id', self.run_id, '--new-run', '--preset', 'demo', '--data', TEXT,
                              '--home', self.home, '--listen', self.at, '--dashboard', 'off', '--checkpoint-every', '0',
                              '--no-lan', '--target-batch', '16', '--epochs', '9999', '--admission', 'token', '--json'],
                             self.folder / 'host.log')
        self.program.wait_for('ready')

    def stop(self):
        assert self.program.stop() == 0, self.program.log()

    def keys(self, *words, **how):
        return ask(COORDINATOR, *words, '--run-id', self.run_id, '--home', self.home, **how)

    def peer_keys(self, home, *words, **how):
        return ask(PEER, 'keys', *words, '--run-id', self.run_id, '--home', home, **how)

    def peer_id(self, home):
        self.peer_keys(home, 'create')
        shown = self.peer_keys(home, 'show').stdout.split()
        assert shown[0] == 'peer' and len(shown[1]) == 56, shown
        return shown[1]

    def peer(self, home, log):
        return start([PEER, '--run-id', self.run_id, '--home', home, '--bootstrap', self.at, '--listen', '127.0.0.1:0',
                      '--no-lan', *programs.LIGHT, '--patience', '20', '--json'],
                     self.folder / log)

    def give_token(self, home, *more):
        """What the host gives to this home, and its serial."""
        made = self.keys('keys', 'token', self.peer_id(home), *more)
        (home / 'token.new').write_text(made.stdout)
        (home / 'token.new').rename(home / 'token')
        return made.stderr.split('keys revoke ')[1].split()[0], made.stderr

    def admitted(self, name, *more):
        serial, _ = self.give_token(self.folder / name, *more)
        peer = self.peer(self.folder / name, f'{name}.log')
        peer.serial = serial
        return peer

    def log_lines(self):
        return (self.home / 'logs/coordinator.jsonl').read_text().splitlines()

    def disconnected(self, short_id, since):
        """When the coordinator closed the connection, by its log after that line of it; None: it did not."""
        return next((json.loads(line)['unix_ms'] for line in self.log_lines()[since:] if '"net.disconnected"' in line
                     and short_id in line and 'not allowed any more' in line), None)

    def wait_closed(self, short_id, since, seconds):
        programs.wait(f'{short_id} is not connected any more', seconds,
                      lambda: self.disconnected(short_id, since) is not None)

    def token_end(self, name):
        """When the token ends that the peer of this home shows, Unix milliseconds, by its log."""
        lines = (self.folder / name / 'logs/peer.jsonl').read_text().splitlines()
        return [json.loads(line)['expires_ms'] for line in lines if '"node.token"' in line][-1]


def words_and_files(host):
    home = host.folder / 'words'
    peer = host.peer_id(home)
    assert host.peer_keys(home, 'create').stdout.split()[-1] == peer
    _, said = host.give_token(home, '--claims', 'join,contribute', '--for', '2h')
    assert 'may join contribute, for 2 h' in said and peer in said and 'reduce' not in said, said
    assert 'collab-token-v1 ' not in said and (home / 'token').read_text().count('\n') == 1
    secret = (host.home / 'authority.key').read_text().split()[1]
    assert secret not in said and secret not in (home / 'token').read_text()
    for wrong, words in ((('token', 'nobody'), 'no peer'), (('token', peer, '--for', '8d'), '7d'),
                         (('token', peer, '--claims', 'all'), 'claim'), (('token', peer, '--for', 'long'), 'length'),
                         (('token', peer, '--authority', home / 'identity.key'), 'authority'), (('revoke', 'x'), 'serial'),
                         (('revoked',), 'keys create')):
        said = host.keys('keys', *wrong, code=2).stderr
        assert words in said and ' Try: ' in said, said
    assert '--reason' in host.keys('ban', peer, code=2).stderr
    assert 'bans' in host.keys('ban', peer, '--lift', code=2).stderr
    assert '--authority' in host.peer_keys(home, 'token', peer, code=2).stderr
    made = host.peer_keys(home, 'token', peer, '--authority', host.home / 'authority.key')
    assert made.stdout.startswith('collab-token-v1 ')
    (home / 'token').write_text('nonsense\n')
    ends(host.peer(home, 'words.log'), 2, 20, 'holds no token')


def without_a_token(host):
    ends(host.peer(host.folder / 'without', 'without.log'), 4, 30, 'admits by token', 'token')
    home, robbed = host.folder / 'stolen', host.folder / 'robbed'
    host.give_token(robbed)
    home.mkdir()
    (home / 'token').write_text((robbed / 'token').read_text())
    ends(host.peer(home, 'stolen.log'), 4, 30, 'for another peer')


def trains_with_one(host):
    pair = [host.admitted(f'with{i}') for i in range(2)]
    for peer in pair:
        peer.wait_for('epoch', 60, 3)
    assert all(e['peers'] == 2 for e in pair[0].events()[-1:] if e['event'] == 'epoch'), pair[0].events()[-2:]
    for peer in pair:
        assert peer.stop() == 0, peer.log()


def banned_while_connected(host):
    stays, goes = host.admitted('stays'), host.admitted('goes')
    for peer in (stays, goes):
        peer.wait_for('epoch', 60, 2)
    who = goes.events()[0]['id']
    since, began = len(host.log_lines()), time.monotonic()
    host.keys('ban', who, '--reason', 'sends nonsense', '--for', '1h')
    host.wait_closed(who[:8], since, 10)
    print(f'  banned: closed {time.monotonic() - began:.1f} s after the command', flush=True)
    ends(goes, 4, 30, 'not admitted', 'banned', 'sends nonsense')
    print(f'  banned: ended {time.monotonic() - began:.1f} s after the command', flush=True)
    goes_on(stays)
    print(f'  banned: the other has had three more epochs {time.monotonic() - began:.1f} s after the command', flush=True)
    ends(host.peer(host.folder / 'goes', 'goes2.log'), 4, 30, 'banned', 'sends nonsense')
    host.keys('ban', who, '--lift')
    time.sleep(4)
    back = host.peer(host.folder / 'goes', 'goes3.log').wait_for('epoch', 60)
    assert back.stop() == 0 and stays.stop() == 0, back.log()


def restarted_coordinator(host):
    """A ban outlives the coordinator, in its home and at the other servers."""
    who = host.peer_id(host.folder / 'again')
    host.give_token(host.folder / 'again')
    host.keys('ban', who, '--reason', 'still nonsense')
    host.stop()
    host.run()
    ends(host.peer(host.folder / 'again', 'again.log'), 4, 30, 'still nonsense')


def expires_while_connected(host):
    stays = host.admitted('longer')
    goes = host.admitted('shorter', '--for', '35s')
    for peer in (stays, goes):
        peer.wait_for('epoch', 30, 1)
    since, who = len(host.log_lines()), goes.events()[0]['id'][:8]
    host.wait_closed(who, since, 50)
    late = (host.disconnected(who, since) - host.token_end('shorter')) / 1000
    print(f'  expired: closed {late:.1f} s after its end', flush=True)
    assert 0 <= late < 5, late
    ends(goes, 4, 20, 'not admitted', 'has expired')
    goes_on(stays)
    assert stays.stop() == 0, stays.log()


def renewed_while_connected(host):
    home = host.folder / 'renewed'
    peer = host.admitted('renewed', '--for', '35s')
    old_end = time.monotonic() + 35
    peer.wait_for('epoch', 30, 1)
    since = len(host.log_lines())
    host.give_token(home)
    time.sleep(old_end + 4 - time.monotonic())
    assert not host.disconnected(peer.events()[0]['id'][:8], since), 'closed in spite of a newer token'
    goes_on(peer)
    host.keys('keys', 'revoke', peer.serial, '--reason', 'the old one')
    goes_on(peer)
    newer = (home / 'token').read_text()
    serial, _ = host.give_token(home)
    time.sleep(4)
    host.keys('keys', 'revoke', serial, '--reason', 'lost laptop')
    ends(peer, 4, 30, 'revoked', 'lost laptop')
    (home / 'token').write_text(newer)
    back = host.peer(home, 'renewed2.log').wait_for('joined', 40)
    assert back.stop() == 0, back.log()


# a run of its own for each line, all at the same time
RUNS = [[('keys: tokens in words, wrong words refused', words_and_files),
         ('4: without a token, and with another peer\'s', without_a_token), ('a pair with tokens trains', trains_with_one),
         ('4: banned while connected; the others go on', banned_while_connected),
         ('a ban outlives the coordinator', restarted_coordinator)],
        [('4: a token expires while connected; the others go on', expires_while_connected)],
        [('a renewed token holds without a restart, a revoked one ends it', renewed_while_connected)]]
PASSED, FAILED = [], []


def carry_out(cases, folder):
    host = Host(folder)
    try:
        host.run()
        for name, case in cases:
            began = time.monotonic()
            try:
                case(host)
                PASSED.append(name)
                print(f'ok: {name} ({time.monotonic() - began:.1f} s)', flush=True)
            except (AssertionError, subprocess.SubprocessError, OSError, KeyError, IndexError, ValueError) as problem:
                fail(name, problem)
        host.stop()
    except (AssertionError, subprocess.SubprocessError, OSError) as problem:
        fail('the coordinator', problem)


def fail(name, problem):
    FAILED.append(name)
    where = traceback.extract_tb(problem.__traceback__)[-1].lineno
    print(f'FAILED: {name}: line {where}: {type(problem).__name__}: {problem}', flush=True)


chosen = sys.argv[3:]
with tempfile.TemporaryDirectory() as place:
    folder = pathlib.Path(place)
    ENVIRONMENT = dict(os.environ, XDG_CONFIG_HOME=str(folder / 'config'), XDG_DATA_HOME=str(folder / 'data'),
                       OMP_WAIT_POLICY='passive')
    TEXT = write_text(folder / 'text')
    try:
        wanted = [[entry for entry in cases if not chosen or entry[1].__name__ in chosen] for cases in RUNS]
        threads = [threading.Thread(target=carry_out, args=(cases, folder / str(i)))
                   for i, cases in enumerate(wanted) if cases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for program in STARTED:
            if program.process.poll() is None:
                program.process.kill()
                program.process.wait()
print(f'{len(PASSED)} passed, {len(FAILED)} failed')
sys.exit(not PASSED or len(PASSED) < sum(map(len, wanted)) or bool(FAILED))
