#!/usr/bin/env python3
"""A training loop, alone and together: how few lines change, that nothing else does, and that the model is as good.

Usage: embed_test.py COORDINATOR ALONE TOGETHER SOURCES [RUNS]. Three processes of TOGETHER learn Fashion-MNIST and end with
equal parameters, each having done its part. ALONE takes as many steps of as many samples. One run together has half a point
more or less on the 10,000 images held out (the standard deviation of 17), so of one run, of half the steps, the test asks
that it has learnt; of eight or more, that the means are the same within half a point.
"""
import collections, difflib, gzip, json, pathlib, re, subprocess, sys, tempfile, time

from programs import Programs

COORDINATOR, ALONE, TOGETHER, SOURCES = sys.argv[1:5]
RUNS = int((sys.argv[5:] or ['1'])[0])
DATA = pathlib.Path('/usr/share/datasets/fashion-mnist')
STEPS, TARGET, MICROBATCH = 600 if RUNS > 1 else 300, 1024, 64
# The swarm's step has the target batch and what comes in while the round begins, up to a quarter. So one machine is given
# both ends. (A single run is compared with nothing.)
BATCHES = [batch + run for run in range(RUNS) for batch in (TARGET, TARGET * 5 // 4)] if RUNS > 1 else [TARGET]
APART = 0.5  # points at most, of the means
LEARNED = 82  # per cent; guessing has 10


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
    """The committed rounds that the coordinator was told of until the peers have ended: by epoch, samples by member."""
    rounds, deadline = {}, time.monotonic() + 150
    while not all(peer.ended() for peer in peers) and time.monotonic() < deadline:
        status = subprocess.run([COORDINATOR, 'status', '--run-id', 'fashion', '--home', programs.folder / 'coordinator'],
                                text=True, capture_output=True, timeout=20)
        if status.returncode == 0:
            committed = [told for told in json.loads(status.stdout)['rounds'] if told['result'] == 'committed']
            rounds |= {told['epoch']: {m['id'][:8]: m['samples'] for m in told['members']} for told in committed}
        time.sleep(0.25)
    return rounds


def shares_of(rounds):
    """Per cent by peer, of the samples that those rounds averaged: who only follows has none."""
    sums = collections.Counter()
    for members in rounds.values():
        sums.update(members)
    return sorted(100 * samples / max(1, sums.total()) for samples in sums.values())


def learn_together(folder, data):
    """The accuracy of the model that three processes end with."""
    folder.mkdir()
    with Programs(folder) as programs:
        host, address = programs.coordinator(COORDINATOR, 'fashion', '--job', 'fashion-mnist', '--target-batch', TARGET)
        peers = [programs.start(name, [TOGETHER, data, STEPS, MICROBATCH, 'fashion', address, folder / name / 'home'])
                 for name in 'abc']
        watched = watch(programs, peers)
        together = [accuracy(peer.finish(180)) for peer in peers]
        models = {(peer.place / 'parameters.pt').read_bytes() for peer in peers}
        assert len(models) == 1, f'{len(models)} different models'
        host.leave()
    shares = shares_of(watched)
    shown = ', '.join(f'{share:.1f}' for share in shares)
    print(f'together {together} %; {len(watched)} rounds looked at, with {shown} % of their samples', flush=True)
    assert len(shares) == 3 and min(shares) > 0, f'not all took part: {shares}'
    return together[0]


def learn_alone(folder, data):
    """The accuracies with each of the batches, two at a time."""
    folder.mkdir()
    found = []
    with Programs(folder) as programs:
        for at in range(0, len(BATCHES), 2):
            runs = [programs.start(f'{batch}', [ALONE, data, STEPS, batch]) for batch in BATCHES[at:at + 2]]
            found += [accuracy(run.finish(150)) for run in runs]
    print(f'alone {found} %, with batches of {BATCHES}', flush=True)
    return found


print(f'{changed_lines()} lines taken away or added')
if not DATA.is_dir():
    print(f'skipped: no {DATA}; install dataset-fashion-mnist')
    sys.exit(77)
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    data = unpack(folder / 'fashion')
    together = [learn_together(folder / f'together-{run}', data) for run in range(RUNS)]
    alone = learn_alone(folder / 'alone', data)
difference = sum(together) / len(together) - sum(alone) / len(alone)
print(f'{STEPS} steps: together {difference:+.2f} points')
assert min(*alone, *together) >= LEARNED
assert RUNS < 8 or abs(difference) <= APART
print('1 passed, 0 failed, 0 skipped')
