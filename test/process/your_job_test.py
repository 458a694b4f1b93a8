#!/usr/bin/env python3
"""A run of a job that is not collab's: its coordinator knows nothing of it but a name, its data travels by hash.

Usage: your_job_test.py COORDINATOR YOUR_JOB PEER
"""
import json, os, subprocess, sys, tempfile

from programs import Programs, wait

COORDINATOR, YOUR_JOB, PEER = sys.argv[1:]
EPOCHS = 200


def join(programs, name, address, program=YOUR_JOB):
    return programs.start(name, [program, '--run-id', 'letters', '--home', programs.folder / name / 'home', '--bootstrap', address,
                                 '--listen', '127.0.0.1:0', '--no-lan', '--threads', '1', '--device', 'cpu', '--json'])


with tempfile.TemporaryDirectory() as folder, Programs(folder) as programs:
    text = programs.folder / 'text'
    text.write_text(' '.join(f'{n} times {m} is {n * m}.' for n in range(40) for m in range(20)))
    settings = programs.folder / 'settings.json'
    settings.write_text('{"note": "for the job to read"}')
    host, address = programs.coordinator(COORDINATOR, 'letters', '--job', 'next-byte', '--data', text, '--settings', settings,
                                         '--target-batch', 256, '--epochs', EPOCHS, '--checkpoint-every', 20)
    stranger = join(programs, 'stranger', address, PEER)
    wait('collab-peer says that it lacks the job', 30, stranger.ended)
    assert stranger.process.returncode == 5 and '"next-byte"' in stranger.log(), stranger.log()

    def doctor(data):
        words = [YOUR_JOB, 'doctor', '--run-id', 'letters', '--home', programs.folder / 'looked-at', '--bootstrap', address,
                 '--listen', '127.0.0.1:0', '--no-lan', '--threads', '1', '--device', 'cpu', '--json', '--data', data]
        environment = dict(os.environ, XDG_CONFIG_HOME=folder, XDG_DATA_HOME=folder)
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, env=environment, timeout=30)
        checks = {check['name']: check for check in json.loads(done.stdout)['checks']}
        assert checks['recipe']['measured'].startswith('next-byte') and 'a run takes' in checks['disk']['measured'], checks
        return done.returncode, checks['data']['measured']

    code, said = doctor(text)
    assert code == 0 and "the run's: its hash" in said, said
    code, said = doctor(settings)
    assert code == 8 and 'its hash differs' in said, said

    peers = [join(programs, name, address) for name in 'ab']
    for peer in peers:
        peer.finish(120)
    hashes = {}
    for event in peers[0].events('epoch') + peers[1].events('epoch'):
        hashes.setdefault(event['epoch'], set()).add(event['parameters'])
    assert max(hashes) == EPOCHS and all(len(found) == 1 for found in hashes.values()), hashes
    assert any(e['peers'] == 2 for e in peers[0].events('epoch'))
    losses = [e['loss'] for peer in peers for e in sorted(peer.events('evaluation'), key=lambda e: e['epoch'])]
    assert losses and min(losses) < 3.0, losses  # ln 256 = 5.5
    for peer in peers:
        assert (peer.place / 'home/prepared.bin').read_bytes() == text.read_bytes()
        assert not (peer.place / 'home/spiece.model').exists()

    def same_home(*words):
        home = ['--run-id', 'letters', '--home', peers[0].place / 'home']
        return subprocess.run([YOUR_JOB, *words, *map(str, home)], capture_output=True, text=True, check=True).stdout

    found = json.loads(same_home('eval', '--json', '--threads', '1', '--device', 'cpu'))
    assert found['epoch'] == EPOCHS and found['loss'] < 3.0 and 'vocabulary' not in found, found
    same_home('export', '--to', str(programs.folder / 'model'))
    assert [f.name for f in (programs.folder / 'model').iterdir()] == ['model.safetensors']
    host.leave()
    kept = sorted(path.name for path in (programs.folder / 'coordinator/checkpoints').glob('epoch-*'))
    assert kept and kept[-1] == f'epoch-{EPOCHS:06}', (kept, host.log())  # peers stay until it has the last state
    print(f'{EPOCHS} epochs, held-out loss {found["loss"]:.2f}, the coordinator kept {len(kept)} checkpoints')
print('1 passed, 0 failed, 0 skipped')
