#!/usr/bin/env python3
"""Every way out of the programs: wrong words, closed doors, full disks, bad arithmetic. Each has its exit code, and a
message that says what failed, why, and what to do.

Usage: doors_test.py COORDINATOR PEER BENCH ODD_MANIFEST NAN_PEER. Prints a line per case and a last line that counts.
"""
import base64, concurrent.futures, contextlib, json, os, pathlib, resource, shutil, signal, socket, subprocess, sys
import tempfile, time

import programs
from programs import free_port, wait, write_text

COORDINATOR, PEER, BENCH, ODD_MANIFEST, NAN_PEER = sys.argv[1:6]
RUN = 'doors-test'
OTHERS_KEY = 'duez6vcqllxblksclsx7ioqi4g2yuyzpo4e5tu2mrtlomcltejrqckoq'  # of nobody here


class Skip(Exception):
    pass


RUNNING = []


def start(command, log):
    RUNNING.append(programs.Program(command, log, ENVIRONMENT))
    return RUNNING[-1]


def host(home, *more, run=RUN, text=None):
    """A coordinator on loopback, ready. Founds the run unless the home holds it."""
    at = free_port()
    program = start([COORDINATOR, '--run-id', run, '--new-run', '--preset', 'demo', '--data', text or TEXT, '--home', home,
                       '--listen', f'127.0.0.1:{at}', '--dashboard', 'off', '--checkpoint-every', '0', '--no-lan',
                       '--target-batch', '16', '--json', *more], home.with_suffix('.log'))
    program.at = f'127.0.0.1:{at}'
    return program.wait_for('ready')


def peer_words(home, at, *more, run=RUN, program=(PEER,)):
    return [*program, '--run-id', run, '--home', home, '--bootstrap', at, '--listen', '127.0.0.1:0', '--no-lan',
            *programs.LIGHT, '--patience', '2', '--json', *more]


def ends(code, command, *says, change=None, seconds=15):
    """Runs the command to its end: this code, and a message with cause and remedy that holds all of `says`."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=ENVIRONMENT, timeout=seconds, preexec_fn=change)
    assert done.returncode == code, f'exit {done.returncode}, not {code}: {done.stderr[-400:]}'
    last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ''
    what, _, remedy = last.partition(' Try: ')
    assert what.startswith(pathlib.Path(str(command[0])).name.replace('nan_peer', 'collab-peer') + ': '), last
    assert len(what) > 20 and len(remedy) > 5, f'no cause or no remedy: {last!r}'
    for words in says:
        assert words in last, f'"{words}" is not in: {last}'


def together(*calls):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        running = [pool.submit(call[0], *call[1:]) for call in calls]
    problems = [str(one.exception()) for one in running if one.exception()]
    assert not problems, '\n  '.join(problems)


def usage(folder):
    bad = folder / 'bad.toml'
    bad.write_text('epochs = = 3\n')
    unknown = folder / 'unknown.toml'
    unknown.write_text('epoch = 3\n')
    join = [PEER, '--run-id', RUN]
    found = [COORDINATOR, '--run-id', RUN, '--home', folder / 'nothing', '--new-run', '--dashboard', 'off', '--no-lan',
             '--listen', '127.0.0.1:0']
    own = [*found, '--job', 'mine', '--target-batch', '32']
    long_settings, far_too_long, empty = folder / 'long.json', folder / 'far-too-long.json', folder / 'empty-file'
    long_settings.write_text('{"note": "' + 40_000 * 'x' + '"}')
    far_too_long.write_text('{"note": "' + 80_000 * 'x' + '"}')
    empty.write_bytes(b'')
    together((ends, 2, [*join, '--epoch', '3'], 'unknown option --epoch', 'did you mean --epochs?'),
             (ends, 2, [*join, '--epochs', 'many'], 'epochs cannot be "many"', 'a whole number'),
             (ends, 2, [*join, '--cpu-percent', '0'], 'cpu-percent cannot be "0"', 'from 1 to 100'),
             (ends, 2, [*join, '--set', 'epoch=3'], 'unknown option epoch', 'did you mean epochs?'),
             (ends, 2, [*join, '--set', 'epochs'], '--set'),
             (ends, 2, [*join, '--config', bad], str(bad), 'line 1'),
             (ends, 2, [*join, '--config', unknown], 'did you mean epochs?', str(unknown)),
             (ends, 2, [*join, '--config', folder / 'none.toml'], 'none.toml'),
             (ends, 2, [*join, '--log-level', 'loud', '--home', folder / 'nothing1'], 'log-level cannot be "loud"'),
             (ends, 2, [*join, '--listen', 'here', '--home', folder / 'nothing2'], 'cannot listen on "here"'),
             (ends, 2, [*join, '--bootstrap', 'nowhere', '--home', folder / 'nothing3'], 'nowhere'),
             (ends, 2, [*join, '--device', 'toaster', '--home', folder / 'nothing4'], 'toaster'),
             (ends, 2, [*join, '--role', 'spectator', '--home', folder / 'nothing6'], 'spectator', 'trainer, aux or monitor'),
             (ends, 2, [*join, '--role', 'aux', '--client', '--home', folder / 'nothing7'], '--client'),
             (ends, 2, [PEER], '--run-id'), (ends, 2, [PEER, '--run-id', 'No Good'], 'No Good'),
             (ends, 2, [PEER, 'stauts', '--run-id', 'x', 'y'], 'stauts'),
             (ends, 2, [COORDINATOR, '--run-id', RUN, '--presett', 'demo'], 'did you mean --preset?'),
             (ends, 2, [COORDINATOR, '--run-id', RUN, '--target-batch', '0'], 'target-batch'),
             (ends, 2, [COORDINATOR, '--run-id', RUN, '--home', folder / 'nothing5'], '--new-run'),
             (ends, 2, [*found, '--preset', 'huge', '--data', TEXT], 'huge', 'demo, tiny'),
             (ends, 2, [*found, '--codec', 'float33', '--preset', 'demo', '--data', TEXT], 'float33', 'float16'),
             (ends, 2, [*found, '--admission', 'maybe', '--data', TEXT, '--preset', 'demo'], 'maybe', '--allow'),
             (ends, 2, [*found, '--admission', 'list', '--data', TEXT, '--preset', 'demo'], '--allow'),
             (ends, 2, [*found[:-1], '0.0.0.0:0', '--data', TEXT], '--admission'),
             (ends, 2, [*own, '--preset', 'demo'], 'presets are of albert'),
             (ends, 2, [*own, '--settings', long_settings], 'at most 32768'),
             (ends, 2, [*own, '--settings', far_too_long], 'at most 32768'),
             (ends, 8, [*own, '--data', folder], 'is no file'), (ends, 8, [*own, '--data', empty], 'is empty'),
             (ends, 2, [*found, '--job', 'a\udcff', '--target-batch', '32'], 'a-z 0-9 . _ -'),
             (ends, 2, [BENCH, 'all-reduce', '--peers', '1'], 'peers cannot be "1"'),
             (ends, 2, [BENCH, 'all-reduce', '--peer', '4'], 'did you mean --peers?'),
             (ends, 2, [BENCH, 'all-reduse'], 'did you mean all-reduce?'),
             (ends, 2, [BENCH, 'all-reduce', '--codec', 'float33'], 'float33'))
    assert not list(folder.glob('nothing*/*.signed')) and not list(folder.glob('nothing/*')), 'a refused command left a trace'


def found_again(folder):
    """The manifest names the coordinator, so a home that has seen the run needs no --bootstrap."""
    at = f'127.0.0.1:{free_port()}'
    hosts = lambda: start([COORDINATOR, '--run-id', 'named', '--new-run', '--preset', 'demo', '--data', TEXT, '--home',
                             folder / 'named', '--listen', at, '--dashboard', 'off', '--no-lan', '--target-batch', '64',
                             '--json'], folder / 'named.log').wait_for('ready')
    first = hosts()
    peer = start(peer_words(folder / 'seen', at, run='named'), folder / 'seen.log').wait_for('joined', 30)
    assert peer.stop() == 0 and first.stop() == 0
    shown = subprocess.run([COORDINATOR, 'manifest', '--run-id', 'named', '--home', folder / 'named'], env=ENVIRONMENT,
                           capture_output=True, text=True, timeout=5).stdout
    assert f'@{at}' in shown and 'sequence 2' in shown, shown
    again = hosts()
    (folder / 'seen/contacts').unlink(missing_ok=True)
    (folder / 'config/collab/runs.toml').unlink()
    words = [word for word in peer_words(folder / 'seen', at, run='named') if word not in ('--bootstrap', at)]
    back = start(words, folder / 'seen2.log')
    back.wait_for('joined', 30)
    assert back.stop() == 0 and again.stop() == 0


def unreachable(folder):
    closed = f'127.0.0.1:{free_port()}'
    together((ends, 3, peer_words(folder / 'u1', closed), 'refused', 'Is it running?'),
             (ends, 3, peer_words(folder / 'u2', OPEN.at, run='another-run'), 'another-run'))


def not_admitted(folder):
    allowed = folder / 'allowed'
    allowed.write_text('# nobody yet\n')
    closed = host(folder / 'closed', '--admission', 'list', '--allow', allowed)
    ends(4, peer_words(folder / 'n1', closed.at), 'admit')
    known = folder / 'n2'
    ends(4, peer_words(known, OPEN.at, run=f'{RUN}#{closed.events()[0]["key"]}'), 'key')
    torn = folder / 'n3'
    torn.mkdir(mode=0o700)
    (torn / 'identity.key').write_text('collab-ed25519-v1 torn\n')
    (torn / 'identity.key').chmod(0o600)
    code, checks = doctor(torn, closed.at, '--client')
    place = checks[f'bootstrap {closed.at}']  # the run may admit the key that is torn, so this one's refusal says nothing
    assert code == 6 and place['result'] == 'warn' and 'passing key' in place['measured'], checks
    stopped = closed.stop()
    assert stopped == 0, stopped
    # whoever serves it again without the list would admit everybody
    ends(2, [COORDINATOR, '--run-id', RUN, '--home', folder / 'closed', '--listen', '127.0.0.1:0', '--dashboard', 'off',
             '--no-lan'], '--allow FILE')


def incompatible(folder):
    def odd(field, value, *says):
        home = folder / f'odd-{field}'
        shutil.copytree(folder / 'founded', home)
        subprocess.run([ODD_MANIFEST, home, RUN, field, value], check=True)
        program = host(home)
        ends(5, peer_words(folder / f'i-{field}', program.at), *says)
        program.stop()

    together((odd, 'codec', 'zip7', '"zip7"'), (odd, 'schema', 'x', 'other tensors'))

    def broken(field, value, *says):
        home = folder / f'odd-{field}'
        shutil.copytree(folder / 'founded', home)
        subprocess.run([ODD_MANIFEST, home, RUN, field, value], check=True)
        ends(5, [COORDINATOR, '--run-id', RUN, '--home', home, '--listen', '127.0.0.1:0', '--dashboard', 'off',
                 '--no-lan'], *says)

    broken('recipe', '{}', 'recipe')
    broken('version', '9', 'protocol 9', 'update this program')
    home = folder / 'torn'
    shutil.copytree(folder / 'founded', home)
    (home / 'manifest.signed').write_bytes((home / 'manifest.signed').read_bytes()[:-9])
    ends(5, [COORDINATOR, '--run-id', RUN, '--home', home, '--listen', '127.0.0.1:0', '--dashboard', 'off', '--no-lan'],
         'damaged')


def unknown_job(folder):
    home = folder / 'odd-job'
    shutil.copytree(folder / 'founded', home)
    subprocess.run([ODD_MANIFEST, home, RUN, 'job', 'crystal-ball'], check=True)
    program = host(home)
    ends(5, peer_words(folder / 'job', program.at), '"crystal-ball"', 'known here: albert')
    program.stop()


@contextlib.contextmanager
def small_disk(place, kib):
    place.mkdir()
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={kib}k', 'tmpfs', place], capture_output=True).returncode:
        raise Skip('mounting a small file system needs root')
    try:
        yield place
    finally:
        subprocess.run(['umount', '-l', place], check=True)


def this_machine(folder):
    taken = OPEN.at
    wide = folder / 'wide'
    wide.mkdir()
    shutil.copy(folder / 'founded/identity.key', wide / 'identity.key')
    (wide / 'identity.key').chmod(0o644)
    (folder / 'a-file').write_text('x')
    torn = folder / 'torn-key'
    torn.mkdir()
    (torn / 'identity.key').write_text((folder / 'founded/identity.key').read_text()[:30])
    (torn / 'identity.key').chmod(0o600)
    coordinator = [COORDINATOR, '--run-id', RUN, '--no-lan', '--dashboard', 'off']
    for home in ('m1', 'm3'):
        shutil.copytree(folder / 'founded', folder / home)
    together((ends, 6, peer_words(folder / 'm2', taken, '--listen', taken), taken),
             (ends, 6, [*coordinator, '--home', folder / 'm1', '--listen', taken], taken),
             (ends, 6, [*coordinator[:-2], '--home', folder / 'm3', '--listen', '127.0.0.1:0', '--dashboard', taken], taken),
             (ends, 6, peer_words(wide, taken), 'chmod 600'),
             (ends, 6, peer_words(folder / 'a-file', taken), 'a-file'),
             (ends, 6, peer_words(torn, taken), 'torn'),
             (ends, 6, [*coordinator, '--home', folder / 'a-file', '--new-run', '--listen', '127.0.0.1:0'], 'a-file'),
             (ends, 6, [*coordinator, '--home', folder / 'open', '--listen', '127.0.0.1:0'], 'in use by pid'))


def file_size_limit():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def disk_full(folder):
    ends(6, peer_words(folder / 'limited', OPEN.at), 'File too large', change=file_size_limit)
    with small_disk(folder / 'disk', 64) as disk:
        ends(6, [COORDINATOR, '--run-id', RUN, '--new-run', '--preset', 'demo', '--data', TEXT, '--home', disk / 'c',
                 '--listen', '127.0.0.1:0', '--dashboard', 'off', '--no-lan'], 'No space left', 'free some disk space')
        ends(6, peer_words(disk / 'p', OPEN.at), 'No space left', 'free some disk space')
        key = (disk / 'p/identity.key').read_text()
        subprocess.run(['mount', '-o', 'remount,size=64m', disk], check=True)
        again = start(peer_words(disk / 'p', OPEN.at, '--epochs', '2'), folder / 'again.log')
        again.wait_for('left', 30)
        assert again.process.wait(5) == 0 and (disk / 'p/identity.key').read_text() == key, 'the home was lost'


def checkpoint_disk_full(folder):
    """A checkpoint that does not fit costs nothing but itself, and the older one still loads."""
    with small_disk(folder / 'disk2', 1024 * 64) as disk:
        first = start(peer_words(disk / 'p', OPEN.at), folder / 'd1.log').wait_for('epoch', 30, 2)
        assert first.stop() == 0 and first.count('checkpoint') == 1, first.log()
        with open(disk / 'filler', 'wb') as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b'x' * 65536)
                filler.flush()
        os.truncate(disk / 'filler', (disk / 'filler').stat().st_size - 500_000)
        second = start(peer_words(disk / 'p', OPEN.at), folder / 'd2.log').wait_for('epoch', 30, 2)
        assert second.stop() == 0 and second.count('checkpoint_failed') == 1, second.log()
        (disk / 'filler').unlink()
        evaluated = subprocess.run([PEER, 'eval', '--run-id', RUN, '--home', disk / 'p', '--json', '--threads', '1'],
                                   env=ENVIRONMENT, capture_output=True, text=True, timeout=20)
        assert evaluated.returncode == 0 and json.loads(evaluated.stdout)['epoch'] > 0, evaluated.stderr


def data_missing(folder):
    (folder / 'empty').mkdir()
    (folder / 'latin').mkdir()
    (folder / 'latin/a.txt').write_bytes(b'\xff\xfe\xfa' * 100)
    other = write_text(folder / 'other', step=5)
    found = [COORDINATOR, '--run-id', RUN, '--new-run', '--preset', 'demo', '--listen', '127.0.0.1:0', '--dashboard', 'off',
             '--no-lan']
    shutil.copytree(folder / 'founded', folder / 'd1')
    torn = (folder / 'd1/prepared.bin').read_bytes()
    (folder / 'd1/prepared.bin').write_bytes(torn[:len(torn) // 2])
    together((ends, 8, [*found, '--home', folder / 'd4', '--data', folder / 'empty'], str(folder / 'empty')),
             (ends, 8, [*found, '--home', folder / 'd5', '--data', folder / 'no-such'], 'no-such'),
             (ends, 8, [*found, '--home', folder / 'd6', '--data', folder / 'latin'], 'latin'),
             (ends, 8, peer_words(folder / 'd2', OPEN.at, '--data', other), 'hash differs'),
             (ends, 8, peer_words(folder / 'd3', OPEN.at, '--data', folder / 'no-such'), 'no-such'),
             (ends, 8, [PEER, 'export', '--run-id', RUN, '--home', folder / 'founded', '--to', folder / 'x'], 'no checkpoint'),
             (ends, 8, [COORDINATOR, '--run-id', RUN, '--listen', '127.0.0.1:0', '--dashboard', 'off', '--no-lan', '--home',
                        folder / 'd1'], 'prepared.bin'))


def damaged_checkpoint(folder):
    home = folder / 'p1'
    peer = start(peer_words(home, OPEN.at), folder / 'p1.log').wait_for('epoch', 30, 2)
    assert peer.stop() == 0, peer.log()
    kept = sorted((home / 'checkpoints').glob('*'))
    model = next(folder for folder in kept if (folder / 'model.safetensors').exists()) / 'model.safetensors'
    whole = model.read_bytes()
    model.write_bytes(whole[:5000] + bytes([whole[5000] ^ 255]) + whole[5001:])
    ends(8, [PEER, 'eval', '--run-id', RUN, '--home', home, '--threads', '1'], 'checkpoint')
    ends(8, [PEER, 'export', '--run-id', RUN, '--home', home, '--to', folder / 'exported'], 'checkpoint')
    assert not (folder / 'exported').exists()
    back = start(peer_words(home, OPEN.at), folder / 'p1b.log').wait_for('epoch', 30)
    assert back.stop() == 0, back.log()


def interrupt(program):
    """One Ctrl+C that has arrived: of two that wait for a busy machine the system makes one."""
    program.process.send_signal(signal.SIGINT)
    status = pathlib.Path(f'/proc/{program.process.pid}/status')

    def pending():
        masks = dict(line.split(':', 1) for line in status.read_text().splitlines())
        return int(masks['ShdPnd'], 16) >> signal.SIGINT - 1 & 1

    while pending():
        time.sleep(0.001)


def interrupts(folder):
    home = folder / 'twice'
    own = host(folder / 'own2', run='own-run-2')
    peer = start(peer_words(home, own.at, run='own-run-2'), folder / 'twice.log').wait_for('epoch', 30, 2)
    interrupt(peer)
    assert peer.stop(seconds=2) == 130, peer.process.returncode
    back = start(peer_words(home, own.at, run='own-run-2'), folder / 'twice-again.log').wait_for('epoch', 30)
    assert back.stop() == 0, back.log()
    looking = start(peer_words(folder / 'looking', f'127.0.0.1:{free_port()}', '--patience', '60'), folder / 'looking.log')
    looking.wait_for('started')
    time.sleep(0.3)
    assert looking.stop(seconds=5) == 0
    interrupt(own)
    assert own.stop(seconds=2) == 130, own.process.returncode


def planned_leave(folder):
    """The samples in hand count when a step is due; when none is, one that stays takes them."""
    pair = [start(peer_words(folder / f'l{i}', OPEN.at), folder / f'l{i}.log').wait_for('joined', 30) for i in range(2)]
    for peer in pair:
        peer.wait_for('epoch', 20, 3)
    began = time.monotonic()
    assert pair[0].stop() == 0 and time.monotonic() - began < 10, pair[0].log()
    assert pair[0].events()[-1]['samples_lost'] == 0, pair[0].events()[-3:]
    pair[1].wait_for('epoch', 8, pair[1].count('epoch') + 2)
    assert not pair[1].count('round_failed') and pair[1].stop() == 0, pair[1].log()
    # no pass of the text ends meanwhile: at an end peers share what is left by a rule, and may compute the same twice
    text = write_text(folder / 'long_text', documents=2000)
    far = host(folder / 'far', '--target-batch', '1000000', run='far-run', text=text)
    lone = start(peer_words(folder / 'lone', far.at, run='far-run'), folder / 'lone.log').wait_for('joined', 30)
    other = start(peer_words(folder / 'other', far.at, run='far-run'), folder / 'other.log').wait_for('joined', 30)
    time.sleep(4)  # until each knows what the other may have
    began = time.monotonic()
    assert other.stop() == 0 and time.monotonic() - began < 10, other.log()
    assert other.events()[-1]['samples_lost'] == 0 and other.count('samples.handed_on') == 1, other.events()[-3:]
    time.sleep(1)
    began = time.monotonic()
    assert lone.stop() == 0 and time.monotonic() - began < 3, lone.log()
    assert lone.events()[-1]['samples_lost'] > 0 and lone.count('samples.lost') == 1, lone.events()[-3:]
    far.stop()


def leaves_while_it_waits(folder):
    """One of two that both only dial, with a coordinator that is told not to average: with four batches in hand it computes
    nothing more, and still leaves. (One alone would train alone.)"""
    own = host(folder / 'nobody', '--no-average', '--relay', 'off', run='nobody-run')
    words = lambda name: peer_words(folder / name, own.at, '--client', run='nobody-run')
    peer, other = [start(words(name), folder / f'{name}.log') for name in ('waits', 'waits-too')]
    for program in (peer, other):
        program.wait_for('joined', 30)
    asked = [*words('waits')[:1], 'status', '--json', '--run-id', 'nobody-run', '--home', folder / 'waits']

    def is_full():
        told = subprocess.run([str(word) for word in asked], capture_output=True, text=True, env=ENVIRONMENT, timeout=10)
        return told.returncode == 0 and json.loads(told.stdout)['run']['own_samples'] >= 3 * 16
    wait('three batches in hand', 30, is_full)
    epochs = peer.count('epoch')
    time.sleep(0.5)
    began = time.monotonic()
    # while there is company it may have a step any moment, so who leaves gives it ten seconds
    assert peer.stop(seconds=20) == 0 and time.monotonic() - began < 12, peer.log()
    assert peer.events()[-1]['event'] == 'left' and peer.count('epoch') == epochs, peer.events()[-3:]
    other.stop()
    own.stop()


def nan_gradients(folder):
    swarm = [start(peer_words(folder / f'g{i}', OPEN.at), folder / f'g{i}.log') for i in range(2)]
    bad = start(peer_words(folder / 'bad', OPEN.at, program=(NAN_PEER, 'gradients')), folder / 'bad.log')
    for program in (*swarm, bad):
        program.wait_for('joined', 30)
    bad.wait_for('microbatch_dropped', 20)
    here = [program.count('epoch') for program in swarm]
    for program, epochs in zip(swarm, here):
        program.wait_for('epoch', 20, epochs + 4)
    committed = [e for e in bad.events() if e['event'] == 'epoch' and e['own_samples'] == 0 and e['result'] == 'committed']
    hashes = {e['epoch']: e['parameters'] for e in swarm[0].events() if e['event'] == 'epoch'}
    assert all(hashes.get(e['epoch'], e['parameters']) == e['parameters'] for e in committed), 'parameters differ'
    assert not any(program.count('round_failed') for program in swarm), 'rounds of the others failed'
    for program in (bad, *swarm):
        assert program.stop() == 0, program.log()
    assert bad.events()[-1]['samples'] <= 16 * 8, 'dropped samples were thanked for'


def nan_steps(folder):
    home = folder / 'diverging'
    own = host(folder / 'own', run='own-run')
    ends(7, peer_words(home, own.at, run='own-run', program=(NAN_PEER, 'rate')), 'not finite', '3 times in a row', 'learning rate', seconds=60)
    sound = start(peer_words(home, own.at, run='own-run'), folder / 'sound.log').wait_for('epoch', 30)
    assert sound.stop() == 0 and own.stop() == 0


def doctor(home, at, *more, run=RUN, change=None, named=True):
    """The exit code, and the findings by name. What they say adds up, and it took less than half a minute."""
    words = ['--run-id', run, '--home', home] if named else []
    began = time.monotonic()
    done = subprocess.run([str(word) for word in [PEER, 'doctor', *words, *(['--bootstrap', at] if at else []), '--no-lan',
                                                  '--threads', '1', '--device', 'cpu', '--json', *more]],
                          capture_output=True, text=True, env=ENVIRONMENT, timeout=30, preexec_fn=change)
    assert done.stdout.count('\n') == 1, f'{done.stdout[-400:]} {done.stderr[-400:]}'
    report = json.loads(done.stdout)
    checks = {check['name']: check for check in report['checks']}
    assert len(checks) == len(report['checks']), 'a name is there twice'
    for check in report['checks']:
        assert set(check) == {'name', 'result', 'measured', 'remedy', 'code'} and check['measured'], check
        assert (check['result'] == 'ok') == (check['remedy'] == '') and (check['result'] == 'fail') == (check['code'] != 0), check
    assert report['exit_code'] == done.returncode and report['version'] == 1, report
    assert report['worst'] == max((check['result'] for check in report['checks']), key=['ok', 'warn', 'fail'].index)
    assert time.monotonic() - began < 30
    return done.returncode, checks


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))


def doctors_report(folder):
    place = f'bootstrap {OPEN.at}'

    def new_home():
        code, checks = doctor(folder / 'h1', OPEN.at, '--listen', '127.0.0.1:0')
        assert code == 0 and all(c['result'] == 'ok' for n, c in checks.items() if n not in ('cpu', 'memory')), checks
        assert {'key', 'port', 'cpu', 'gpu', place, 'run', 'protocol', 'clock', 'dial-back', 'recipe', 'home', 'disk',
                'memory', 'files', 'tokenizer', 'text'} == set(checks), set(checks)
        assert 'others dial 127.0.0.1:' in checks['dial-back']['measured'], checks['dial-back']
        assert 'none yet' in checks['key']['measured'] and not (folder / 'h1').exists(), 'the doctor made something'

    def known_home():
        shutil.copytree(folder / 'founded', folder / 'h2')
        (folder / 'h2').chmod(0o700)
        (folder / 'h2/identity.key').write_text(f'collab-ed25519-v1 {base64.b32encode(bytes(range(32))).decode().lower()[:52]}\n')
        before = {path.name: path.stat().st_mtime_ns for path in (folder / 'h2').rglob('*')}
        secret = (folder / 'h2/identity.key').read_text().split()[1]
        code, checks = doctor(folder / 'h2', OPEN.at, '--client', '--data', TEXT)
        assert code == 0 and 'whole' in checks['text']['measured'] and 'whole' in checks['tokenizer']['measured'], checks
        assert checks['data']['measured'].startswith('not needed') and 'dial-back' not in checks, checks
        assert secret[:8] not in json.dumps(checks), 'the key was shown'
        assert before == {path.name: path.stat().st_mtime_ns for path in (folder / 'h2').rglob('*')}, 'the home changed'
        whole = (folder / 'h2/prepared.bin').read_bytes()
        (folder / 'h2/prepared.bin').write_bytes(whole[:-1] + b'?')
        code, checks = doctor(folder / 'h2', OPEN.at, '--client', '--data', TEXT)
        assert code == 0 and '40 files of text' in checks['data']['measured'], checks['data']
        (folder / 'h2').chmod(0o777)
        code, checks = doctor(folder / 'h2', OPEN.at, '--client', '--data', folder / 'no-such', '--microbatch', '8')
        assert code == 6 and checks['key']['remedy'].startswith('chmod 700') and checks['text']['result'] == 'warn', checks
        assert checks['data']['code'] == 8 and '8 samples' in checks['recipe']['measured'], checks

    def in_use():
        code, checks = doctor(folder / 'open', OPEN.at, '--listen', OPEN.at)
        assert code == 0 and f'in use by pid {OPEN.process.pid}' in checks['key']['measured'], checks
        assert checks['port']['result'] == 'warn' and 'stop that one' in checks['port']['remedy'], checks['port']

    def gone():
        closed = f'127.0.0.1:{free_port()}'
        with socket.socket() as silent:
            silent.bind(('127.0.0.1', 0))
            silent.listen()
            mute = f'127.0.0.1:{silent.getsockname()[1]}'
            code, checks = doctor(folder / 'h3', closed, '--bootstrap', mute)
        assert code == 3 and f'{closed} refused' in checks[f'bootstrap {closed}']['measured'], checks
        assert f'{mute} silent for 5 s' in checks[f'bootstrap {mute}']['measured'], checks
        assert checks['run']['code'] == 3 and 'dial-back' not in checks, checks

    def others():
        code, checks = doctor(folder / 'h4', OPEN.at, run='another-run')
        assert code == 3 and f'takes part in run "{RUN}"' in checks[place]['measured'], checks
        code, checks = doctor(None, OPEN.at, named=False)
        assert code == 0 and 'not named' in checks['run']['measured'] and checks[place]['result'] == 'ok', checks
        code, checks = doctor(None, None, named=False)
        assert code == 0 and place not in checks and 'disk' in checks, checks
        code, checks = doctor(folder / 'h5', OPEN.at, run=f'{RUN}#{OTHERS_KEY}')
        assert code == 4 and 'of another authority' in checks[place]['measured'], (code, checks)

    def limits():
        code, checks = doctor(folder / 'h6', OPEN.at, change=few_files)
        assert code == 6 and '100 files at once' in checks['files']['measured'], checks
        assert 'ulimit' in checks['files']['remedy'], checks
        code, checks = doctor(folder / 'h7', OPEN.at, '--listen', OPEN.at)
        assert code == 6 and checks['port']['remedy'].startswith('--listen 127.0.0.1:'), checks

    def wishes():
        """What was wished for and cannot be, as a start would end with it."""
        (folder / 'token').write_text('none')
        code, checks = doctor(folder / 'h10', OPEN.at, '--token', folder / 'token')
        assert code == 2 and 'holds no token' in checks['token']['measured'] and 'host' in checks['token']['remedy'], checks
        if not os.path.exists('/dev/nvidia0'):
            code, checks = doctor(folder / 'h10', None, '--device', 'cuda', '--client', named=False)
            assert code == 6 and checks['gpu']['code'] == 6 and 'cuda' in checks['gpu']['remedy'], checks
        code, checks = doctor(folder / 'h10', None, '--device', 'toaster', '--client', named=False)
        assert code == 2 and checks['gpu']['code'] == 2 and 'toaster' in checks['gpu']['measured'], checks
        code, checks = doctor(folder / 'h10', OPEN.at, '--name', 'x' * 65)
        assert code == 2 and 'too long' in checks['options']['measured'] and 'run' not in checks, checks
        for at, *more in ((OPEN.at, '--listen', 'here'), ('nowhere',)):
            code, checks = doctor(folder / 'h10', at, *more)
            assert code == 2 and set(checks) == {'options'} and checks['options']['remedy'], checks
        code, checks = doctor(folder / 'h10', OPEN.at, '--listen', 'localhost:4600')
        assert code == 2 and 'no address of this machine' in checks['port']['measured'], checks

    def homes():
        """What a home holds, and cannot be joined with."""
        shutil.copytree(folder / 'founded', folder / 'h11')
        manifest = (folder / 'h11/manifest.signed').read_bytes()
        code, checks = doctor(folder / 'h11', OPEN.at, '--client', run=f'{RUN}#{OTHERS_KEY}')
        assert code == 4 and 'does not fit' in checks['run']['measured'] and '--home' in checks['run']['remedy'], checks
        (folder / 'h11/manifest.signed').write_bytes(manifest[:-9])
        code, checks = doctor(folder / 'h11', OPEN.at, '--client')
        assert code == 5 and 'damaged' in checks['run']['measured'] and checks['run']['remedy'], checks

    together((new_home,), (known_home,), (in_use,), (gone,), (others,), (limits,), (wishes,), (homes,))
    said = subprocess.run([PEER, 'doctor', '--run-id', RUN, '--home', folder / 'h8', '--bootstrap', OPEN.at, '--no-lan'],
                          env=ENVIRONMENT, capture_output=True, text=True, timeout=30)
    lines = said.stdout.splitlines()
    assert said.returncode == 0 and len(lines) >= 14 and all(line.split()[0] in ('ok', 'warn') for line in lines), said
    assert not [name for name in ('h1', 'h3', 'h4', 'h5', 'h6', 'h7', 'h8', 'h10') if (folder / name).exists()]
    # a start that failed names the doctor, and what a quick look at the machine finds
    closed = f'127.0.0.1:{free_port()}'
    ends(3, peer_words(folder / 'h9', closed), f'collab-peer doctor --run-id {RUN} --bootstrap {closed} --home {folder}/h9 ')
    ends(3, peer_words(folder / "h 9's", closed, '--name', 'Zoë $HOME', '--client'), '--listen 127.0.0.1:0 --client --no-lan',
         f"--home '{folder}/h 9'\\''s' --name 'Zoë $HOME' --device cpu --threads 1 ")
    (folder / 'h9').chmod(0o777)
    failed = subprocess.run([str(word) for word in peer_words(folder / 'h9', f'127.0.0.1:{free_port()}')], text=True,
                            stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=15, preexec_fn=few_files)
    assert failed.returncode == 6 and 'fail  files' in failed.stderr, failed.stderr
    assert failed.stderr.count('others may write') == 1, failed.stderr


def doctor_on_a_full_disk(folder):
    with small_disk(folder / 'disk3', 64) as disk:
        code, checks = doctor(disk / 'p', OPEN.at)
        assert code == 6 and checks['disk']['code'] == 6 and 'free some disk space' in checks['disk']['remedy'], checks
        assert not (disk / 'p').exists()


# Side by side, for they wait more than they work: what happens in the run that is open to all, one by one, and what has a
# run of its own or gets into none.
IN_THE_OPEN_RUN = [
    ('6: a full disk', disk_full), ('a checkpoint that does not fit is said, and training goes on', checkpoint_disk_full),
    ('a peer whose gradients are NaN drops them, and the others go on', nan_gradients),
    ('8: a damaged checkpoint', damaged_checkpoint), ('the doctor finds each of these, and changes nothing', doctors_report),
    ('the doctor finds a full disk', doctor_on_a_full_disk), ('0: a planned leave', planned_leave)]
APART = [
    ('0: a leave of who waits for others', leaves_while_it_waits),
    ('2: wrong words', usage), ('3: a run that cannot be reached', unreachable),
    ('a coordinator is found again by its manifest', found_again), ('4: a peer that is not admitted', not_admitted),
    ('5: a manifest that does not fit', incompatible), ('5: a job that is unknown', unknown_job),
    ('6: port, key and home of this machine', this_machine), ('7: three steps in a row that are not finite', nan_steps),
    ('8: text and data that are missing or damaged', data_missing), ('130: a second Ctrl+C', interrupts)]


def run_cases(cases, folder):
    """How each of them ended."""
    results = []
    for name, case in cases:
        began = time.monotonic()
        try:
            case(folder)
            results.append('passed')
            print(f'ok: {name} ({time.monotonic() - began:.1f} s)\n', end='', flush=True)
        except Skip as reason:
            results.append('skipped')
            print(f'skipped: {name}: {reason}\n', end='', flush=True)
        except (AssertionError, subprocess.SubprocessError, OSError, KeyError) as problem:
            results.append('failed')
            print(f'FAILED: {name}: {type(problem).__name__}: {problem}\n', end='', flush=True)
    return results


chosen = sys.argv[6:]
lanes = [[(name, case) for name, case in cases if not chosen or case.__name__ in chosen] for cases in (IN_THE_OPEN_RUN, APART)]
with tempfile.TemporaryDirectory() as place:
    folder = pathlib.Path(place)
    ENVIRONMENT = dict(os.environ, XDG_CONFIG_HOME=str(folder / 'config'), XDG_DATA_HOME=str(folder / 'data'),
                       OMP_WAIT_POLICY='passive')
    TEXT = write_text(folder / 'text')
    try:
        OPEN = host(folder / 'open')
        shutil.copytree(folder / 'open', folder / 'founded', ignore=shutil.ignore_patterns('*.sock', '*.lock', '*sock*'))
        with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
            ended = [end for lane in pool.map(lambda cases: run_cases(cases, folder), lanes) for end in lane]
        assert OPEN.stop() == 0, OPEN.log()
    finally:
        for program in RUNNING:
            if program.process.poll() is None:
                program.process.kill()
                program.process.wait()
print(', '.join(f'{ended.count(end)} {end}' for end in ('passed', 'failed', 'skipped')))
sys.exit('failed' in ended)
