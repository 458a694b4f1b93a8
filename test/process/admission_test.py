#!/usr/bin/env python3
"""Who may take part, with real programs: a run by token, a ban and an expiry while connected, a renewed token, a revoked
one. Who is turned away ends with exit code 4 and the reason, and the others go on.

Usage: admission_test.py COORDINATOR PEER [CASE…]. Prints a line per case and a last line that counts.
"""
import os, pathlib, subprocess, sys, tempfile, time, traceback

import programs
from programs import free_port, write_text

COORDINATOR, PEER = sys.argv[1:3]
RUN = 'admission-test'
RUNNING = []


def start(command, log):
    RUNNING.append(programs.Program(command, log, ENVIRONMENT))
    return RUNNING[-1]


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


def keys(*words, **how):
    return ask(COORDINATOR, *words, '--run-id', RUN, '--home', HOST.home, **how)


def peer_words(home, *more):
    return [PEER, '--run-id', RUN, '--home', home, '--bootstrap', HOST.at, '--listen', '127.0.0.1:0', '--no-lan', '--threads',
            '1', '--device', 'cpu', '--no-evaluate', '--patience', '20', '--json', *more]


def peer_id(home):
    ask(PEER, 'keys', 'create', '--run-id', RUN, '--home', home)
    shown = ask(PEER, 'keys', 'show', '--run-id', RUN, '--home', home).stdout.split()
    assert shown[0] == 'peer' and len(shown[1]) == 56, shown
    return shown[1]


def give_token(home, *more):
    """What the host gives to this home, and its serial."""
    made = keys('keys', 'token', peer_id(home), *more)
    (home / 'token.new').write_text(made.stdout)
    (home / 'token.new').rename(home / 'token')
    return made.stderr.split('keys revoke ')[1].split()[0], made.stderr


def admitted(home, *more):
    serial, _ = give_token(home, *more)
    peer = start(peer_words(home), home.with_suffix('.log'))
    peer.serial = serial
    return peer


def disconnected(short_id, since):
    """When the coordinator closed the connection, by its log; None: not yet."""
    for line in (HOST.home / 'logs/coordinator.jsonl').read_text().splitlines()[since:]:
        if '"net.disconnected"' in line and short_id in line and 'not allowed any more' in line:
            return line
    return None


def log_lines():
    return len((HOST.home / 'logs/coordinator.jsonl').read_text().splitlines())


def wait_closed(short_id, since, seconds):
    end = time.monotonic() + seconds
    while not disconnected(short_id, since):
        assert time.monotonic() < end, f'{short_id} is still connected after {seconds} s'
        time.sleep(0.05)


def goes_on(peer, epochs=3):
    peer.wait_for('epoch', 40, peer.count('epoch') + epochs)


def words_and_files(folder):
    home = folder / 'words'
    peer = peer_id(home)
    assert ask(PEER, 'keys', 'create', '--run-id', RUN, '--home', home).stdout.split()[-1] == peer
    _, said = give_token(home, '--claims', 'join,contribute', '--for', '2h')
    assert 'may join contribute, for 2 h' in said and peer in said and 'reduce' not in said, said
    assert 'collab-token-v1 ' not in said and (home / 'token').read_text().count('\n') == 1
    secret = (HOST.home / 'authority.key').read_text().split()[1]
    assert secret not in said and secret not in (home / 'token').read_text()
    for wrong, words in ((('token', 'nobody'), 'no peer'), (('token', peer, '--for', '8d'), '7d'),
                         (('token', peer, '--claims', 'all'), 'claim'), (('token', peer, '--for', 'long'), 'length'),
                         (('token', peer, '--authority', home / 'identity.key'), 'authority'), (('revoke', 'x'), 'serial'),
                         (('revoked',), 'keys create')):
        said = keys('keys', *wrong, code=2).stderr
        assert words in said and ' Try: ' in said, said
    assert '--reason' in keys('ban', peer, code=2).stderr
    assert 'bans' in keys('ban', peer, '--lift', code=2).stderr
    assert '--authority' in ask(PEER, 'keys', 'token', peer, '--run-id', RUN, '--home', home, code=2).stderr
    made = ask(PEER, 'keys', 'token', peer, '--run-id', RUN, '--home', home, '--authority', HOST.home / 'authority.key')
    assert made.stdout.startswith('collab-token-v1 ')
    (home / 'token').write_text('nonsense\n')
    ends(start(peer_words(home), folder / 'words.log'), 2, 20, 'holds no token')


def without_a_token(folder):
    ends(start(peer_words(folder / 'without'), folder / 'without.log'), 4, 30, 'admits by token', 'token')
    home = folder / 'stolen'
    give_token(folder / 'robbed')
    home.mkdir()
    (home / 'token').write_text((folder / 'robbed/token').read_text())
    ends(start(peer_words(home), folder / 'stolen.log'), 4, 30, 'for another peer')


def trains_with_one(folder):
    pair = [admitted(folder / f'with{i}') for i in range(2)]
    for peer in pair:
        peer.wait_for('epoch', 60, 3)
    assert all(e['peers'] == 2 for e in pair[0].events()[-1:] if e['event'] == 'epoch'), pair[0].events()[-2:]
    for peer in pair:
        assert peer.stop() == 0, peer.log()


def banned_while_connected(folder):
    stays, goes = admitted(folder / 'stays'), admitted(folder / 'goes')
    for peer in (stays, goes):
        peer.wait_for('epoch', 60, 2)
    who = goes.events()[0]['id']
    since, began = log_lines(), time.monotonic()
    keys('ban', who, '--reason', 'sends nonsense', '--for', '1h')
    wait_closed(who[:8], since, 10)
    print(f'  closed {time.monotonic() - began:.1f} s after the command', flush=True)
    ends(goes, 4, 30, 'not admitted', 'banned', 'sends nonsense')
    print(f'  ended {time.monotonic() - began:.1f} s after the command', flush=True)
    goes_on(stays)
    ends(start(peer_words(folder / 'goes'), folder / 'goes2.log'), 4, 30, 'banned', 'sends nonsense')
    keys('ban', who, '--lift')
    time.sleep(4)
    back = start(peer_words(folder / 'goes'), folder / 'goes3.log').wait_for('epoch', 60)
    assert back.stop() == 0 and stays.stop() == 0, back.log()


def expires_while_connected(folder):
    stays, goes = admitted(folder / 'longer'), admitted(folder / 'shorter', '--for', '45s')
    began = time.monotonic()
    for peer in (stays, goes):
        peer.wait_for('epoch', 40, 1)
    since = log_lines()
    wait_closed(goes.events()[0]['id'][:8], since, 60)
    late = time.monotonic() - began - 45
    print(f'  closed {late:.1f} s after its end', flush=True)
    assert -2 < late < 5, late
    ends(goes, 4, 20, 'not admitted', 'has expired')
    goes_on(stays)
    assert stays.stop() == 0, stays.log()


def renewed_while_connected(folder):
    home = folder / 'renewed'
    peer = admitted(home, '--for', '40s').wait_for('epoch', 35, 1)
    since = log_lines()
    give_token(home)
    time.sleep(44)
    assert not disconnected(peer.events()[0]['id'][:8], since), 'closed in spite of a newer token'
    goes_on(peer)
    keys('keys', 'revoke', peer.serial, '--reason', 'the old one')
    goes_on(peer)
    newer = (home / 'token').read_text()
    serial, _ = give_token(home)
    time.sleep(4)
    keys('keys', 'revoke', serial, '--reason', 'lost laptop')
    ends(peer, 4, 30, 'revoked', 'lost laptop')
    (home / 'token').write_text(newer)
    back = start(peer_words(home), folder / 'renewed2.log').wait_for('joined', 40)
    assert back.stop() == 0, back.log()


def restarted_coordinator(folder):
    """A ban outlives the coordinator, in its home and at the other servers."""
    who = peer_id(folder / 'again')
    give_token(folder / 'again')
    keys('ban', who, '--reason', 'still nonsense')
    global HOST
    assert HOST.stop() == 0, HOST.log()
    HOST = host(folder, HOST.at)
    ends(start(peer_words(folder / 'again'), folder / 'again.log'), 4, 30, 'still nonsense')


def host(folder, at):
    home = folder / 'host'
    program = start([COORDINATOR, '--run-id', RUN, '--new-run', '--preset', 'demo', '--data', TEXT, '--home', home,
                       '--listen', at, '--dashboard', 'off', '--checkpoint-every', '0', '--no-lan', '--target-batch', '64',
                       '--admission', 'token', '--json'], folder / 'host.log')
    program.at, program.home = at, home
    return program.wait_for('ready')


CASES = [('keys: tokens in words, wrong words refused', words_and_files),
         ('4: without a token, and with another peer\'s', without_a_token), ('a pair with tokens trains', trains_with_one),
         ('4: banned while connected; the others go on', banned_while_connected),
         ('4: a token expires while connected; the others go on', expires_while_connected),
         ('a renewed token holds without a restart, a revoked one ends it', renewed_while_connected),
         ('a ban outlives the coordinator', restarted_coordinator)]

passed, failed = 0, 0
chosen = sys.argv[3:]
with tempfile.TemporaryDirectory() as place:
    folder = pathlib.Path(place)
    ENVIRONMENT = dict(os.environ, XDG_CONFIG_HOME=str(folder / 'config'), XDG_DATA_HOME=str(folder / 'data'),
                       OMP_WAIT_POLICY='passive')
    TEXT = write_text(folder / 'text')
    try:
        HOST = host(folder, f'127.0.0.1:{free_port()}')
        for name, case in CASES:
            if chosen and case.__name__ not in chosen:
                continue
            began = time.monotonic()
            try:
                case(folder)
                passed += 1
                print(f'ok: {name} ({time.monotonic() - began:.1f} s)', flush=True)
            except (AssertionError, subprocess.SubprocessError, OSError, KeyError, IndexError) as problem:
                failed += 1
                where = traceback.extract_tb(problem.__traceback__)[-1].lineno
                print(f'FAILED: {name}: line {where}: {type(problem).__name__}: {problem}', flush=True)
        assert HOST.stop() == 0, HOST.log()
    finally:
        for program in RUNNING:
            if program.process.poll() is None:
                program.process.kill()
                program.process.wait()
print(f'{passed} passed, {failed} failed')
sys.exit(failed > 0 or passed == 0)
