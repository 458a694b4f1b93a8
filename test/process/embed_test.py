#!/usr/bin/env python3
"""A training loop, alone and together: how few lines change, and that nothing else does.

Usage: embed_test.py COORDINATOR ALONE TOGETHER SOURCES. Three processes of TOGETHER learn Fashion-MNIST and end with equal
parameters, each having done its part; so does ALONE, with their target batch as its batch and as many steps. Both learn; so
few steps say nothing of which is better.
"""
import difflib, gzip, json, pathlib, re, subprocess, sys, tempfile, time

from programs import Programs

COORDINATOR, ALONE, TOGETHER, SOURCES = sys.argv[1:]
DATA = pathlib.Path('/usr/share/datasets/fashion-mnist')
# An epoch lasts long enough for who comes a little later to find its place in it: at 256 samples two did all the work, and
# the third followed 300 epochs behind.
STEPS, TARGET, MICROBATCH = 40, 3072, 64
LEARNED = 60  # per cent; guessing has 10


def changed_lines():
    """Taken away plus added, as `diff` counts them: a line that differs counts twice."""
    before, after = ((pathlib.Path(SOURCES) / name).read_text().splitlines() for name in ('alone.cpp', 'together.cpp'))
    changed = [line for line in difflib.ndiff(before, after) if line[0] in '+-']
    assert 0 < len(changed) <= 10, changed
    return len(changed)


def unpack(folder):
    folder.mkdir()
    for file in DATA.glob('*.gz'):
        (folder / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    return folder


def accuracy(words):
    return float(re.search(r'accuracy ([0-9.]+) %', words)[1])


def watch(programs, peers):
    """What each peer shows of the epoch it gathers for, every quarter of a second until they have ended."""
    seen, deadline = [], time.monotonic() + 150
    while not all(peer.ended() for peer in peers) and time.monotonic() < deadline:
        status = subprocess.run([COORDINATOR, 'status', '--run-id', 'fashion', '--home', programs.folder / 'coordinator'],
                                text=True, capture_output=True, timeout=20)
        if status.returncode == 0:
            here = [peer for peer in json.loads(status.stdout)['peers'] if peer['role'] != 'coordinator']
            seen.append({peer['id']: (peer['epoch'], peer['samples']) for peer in here if peer['epoch'] is not None})
        time.sleep(0.25)
    return seen


def shares_of(seen):
    """Per cent by peer, of samples gathered for the newest epoch of that moment: who only follows has none."""
    sums = {}
    for moment in seen:
        newest = max((epoch for epoch, _ in moment.values()), default=0)
        for peer, (epoch, samples) in moment.items():
            sums[peer] = sums.get(peer, 0) + (samples if epoch == newest else 0)
    whole = max(1, sum(sums.values()))
    return sorted(round(100 * samples / whole) for samples in sums.values())


print(f'{changed_lines()} lines taken away or added')
if not DATA.is_dir():
    print(f'skipped: no {DATA}; install dataset-fashion-mnist')
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder, Programs(folder) as programs:
    data = unpack(programs.folder / 'fashion')
    host, address = programs.coordinator(COORDINATOR, 'fashion', '--job', 'fashion-mnist', '--target-batch', TARGET)
    peers = [programs.start(name, [TOGETHER, data, STEPS, MICROBATCH, 'fashion', address, programs.folder / name / 'home'])
             for name in 'abc']
    watched = watch(programs, peers)
    together = [accuracy(peer.finish(180)) for peer in peers]
    print(f'together {together} %', flush=True)
    models = {(peer.place / 'parameters.pt').read_bytes() for peer in peers}
    assert len(models) == 1, f'{len(models)} different models'
    host.leave()
    shares = shares_of(watched)
    print(f'seen at {len(watched)} moments; of the samples that were then in hand the three had {shares} %')
    assert len(shares) == 3 and min(shares) >= 5, f'not all took part: {shares}'
    alone = accuracy(programs.start('alone', [ALONE, data, STEPS, TARGET]).finish(120))
    print(f'{STEPS} steps of {TARGET} samples: alone {alone:.2f} %, together {together[0]:.2f} %')
    assert min(alone, *together) >= LEARNED
print('1 passed, 0 failed, 0 skipped')
