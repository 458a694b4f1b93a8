#!/usr/bin/env python3
"""A training loop, alone and together: how few lines change, and that nothing else does.

Usage: embed_test.py COORDINATOR ALONE TOGETHER SOURCES. Three processes of TOGETHER learn Fashion-MNIST and end with equal
parameters; ALONE, with their target batch as its batch and as many steps, ends as good.
"""
import difflib, gzip, pathlib, re, sys, tempfile

from programs import Programs

COORDINATOR, ALONE, TOGETHER, SOURCES = sys.argv[1:]
DATA = pathlib.Path('/usr/share/datasets/fashion-mnist')
STEPS, TARGET, MICROBATCH = 60, 512, 32
POINTS = 0.5  # of accuracy, in per cent


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


print(f'{changed_lines()} lines taken away or added')
if not DATA.is_dir():
    print(f'skipped: no {DATA}; install dataset-fashion-mnist')
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder, Programs(folder) as programs:
    data = unpack(programs.folder / 'fashion')
    host, address = programs.coordinator(COORDINATOR, 'fashion', '--job', 'fashion-mnist', '--target-batch', TARGET)
    peers = [programs.start(name, [TOGETHER, data, STEPS, MICROBATCH, 'fashion', address, programs.folder / name / 'home'])
             for name in 'abc']
    together = [accuracy(peer.finish(180)) for peer in peers]
    models = {(peer.place / 'parameters.pt').read_bytes() for peer in peers}
    assert len(models) == 1, f'{len(models)} different models'
    host.leave()
    one = programs.start('alone', [ALONE, data, STEPS, TARGET])
    alone = accuracy(one.finish(180))
    print(f'{STEPS} steps of {TARGET} samples: alone {alone:.2f} %, together {together} %')
    assert max(abs(each - alone) for each in together) <= POINTS
print('1 passed, 0 failed, 0 skipped')
