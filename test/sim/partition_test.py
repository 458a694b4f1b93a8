#!/usr/bin/env python3
"""What `collab-sim partition` tells of the reference plans, and of files that are wrong: partition_test.py COLLAB_SIM"""

import json
import pathlib
import subprocess
import sys
import tempfile

folder = tempfile.TemporaryDirectory()
FILE = pathlib.Path(folder.name) / 'lines.json'
MBIT = 1e6 / 8


def call(content, *arguments):
    if content is not None:
        FILE.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return subprocess.run([sys.argv[1], 'partition', *arguments], capture_output=True, text=True, check=False)


def answer(**case):
    done = call(case, FILE, '--json')
    assert done.returncode == 0, f'{case}: exit {done.returncode}\n{done.stderr}'
    return json.loads(done.stdout)


def near(found, expected, tolerance=1e-6):
    assert abs(found - expected) <= tolerance * abs(expected), f'{found} instead of {expected}'


def peers(up, down=None, role='node'):
    return [{'up': a, 'down': b, 'role': role} for a, b in zip(up, down or up)]


def plans_of_the_paper(codec):
    """Setups of DeDLOC (arXiv 2106.10207): the rate, and the gain over equal shares of who brings values."""
    fast = lambda count, role='node': peers([1000 * MBIT] * count, role=role)
    slow = lambda count, down: peers([100 * MBIT] * count, [down * MBIT] * count)
    plans = [(fast(8), 571.428571, 1), (peers([2500 * MBIT]) + slow(15, 100), 100, 1.875),
             (fast(8) + slow(16, 200), 100, 23 / 12), (fast(4, 'auxiliary') + slow(16, 100), 100, 1.875)]
    for swarm, rate, gain in plans:
        said = answer(values=4096 * 5000, part_codec=codec, result_codec=codec, peers=swarm)
        near(said['model_mbit_per_s'], rate)
        near(said['equal_split_seconds'] / said['seconds'], gain)
        near(said['gain'], gain)
        near(sum(said['shares']), 1)
        near(max(said['peer_seconds']), said['seconds'])
        assert sum(said['plan']['units']) == 5000 and said['plan_ms'] > 0, said


for name in ('float32', 'float16', 'linear8'):
    plans_of_the_paper(name)

V = 1_000_000
float32 = {'values': V, 'part_codec': 'float32', 'result_codec': 'float32'}
for swarm, expected, seconds_per_byte in ((peers([1, 2, 4, 8]), [0, 0, 1 / 6, 5 / 6], 1),
                                          (peers([10, 40, 40, 20], [100, 40, 80, 100]), [0, 0.5, 0.5, 0], 0.1)):
    said = answer(**float32, peers=swarm)
    near(said['seconds'], 4 * V * seconds_per_byte)
    for share, wanted in zip(said['shares'], expected):
        assert abs(share - wanted) <= 1e-6, said['shares']

# a block of 8-bit codes has a scale of 4 bytes, and the last block is short
said = answer(values=4097, part_codec='linear8', result_codec='linear8', peers=peers([100, 100]))
near(said['seconds'], (4097 + 2 * 4) / 100)
# unknown: the median of the known; no role: a node; the default codec is float16
unknown = answer(values=V, peers=[{}, {'up': 10, 'down': 10}, {'up': 0, 'down': 30}, {'up': 30}])
known = answer(values=V, part_codec='float16', result_codec='float16', peers=peers([20, 10, 20, 30], [20, 10, 30, 20]))
assert unknown['shares'] == known['shares'] and unknown['seconds'] == known['seconds']
# one line of three is a relay's; its limit holds each way
limited = answer(**float32, peers=peers([100] * 3), pairs=[{'a': 1, 'b': 0, 'bytes_per_s': 10}])
near(limited['seconds'], 4 * V / 55)
assert abs(limited['shares'][2] - 9 / 11) <= 1e-6 and limited['pairs_weighed'] is True, limited
# who alone brings values has nothing to wait for: no rate, and no division by it
alone = answer(**float32, peers=peers([5]) + peers([5], role='auxiliary'))
assert alone['seconds'] == 0 and alone['model_mbit_per_s'] is None and alone['shares'] == [1, 0], alone
# more than a group: shares, but no plan of a leader
many = answer(**float32, peers=peers([10] * 2000))
near(many['shares'][7], 1 / 2000)
assert many['plan'] is None

table = call({**float32, 'peers': peers([1, 2, 4, 8])}, FILE)
assert table.returncode == 0 and '0.833333' in table.stdout and '4e+06 s' in table.stdout, table.stdout
written = pathlib.Path(folder.name) / 'out.json'
assert call(None, FILE, '--quiet', '--json', written).stdout == ''
assert json.loads(written.read_text())['shares'][3] > 0.83
help_text = call(None, '--help').stdout
for word in ('"peers"', 'auxiliary', 'bytes_per_s', 'model_mbit_per_s', 'equal_split_seconds', '$ collab-sim partition'):
    assert word in help_text, f'--help does not tell of {word}'
example = help_text[help_text.index('{'):help_text.index(']}') + 2]
assert call(json.loads(example), FILE).returncode == 0, 'the example of --help is wrong'


def bad(told, content, *arguments):
    """Refused as wrong usage, with these words."""
    done = call(content, *(arguments or (FILE, '--json')))
    assert done.returncode == 2, f'{content!r:.200}: exit {done.returncode}\n{done.stdout:.500}{done.stderr:.500}'
    assert done.stdout == '' and len(done.stderr) < 1000, done.stderr[:2000]
    for word in told.split(' | '):
        assert word in done.stderr, f'{content!r:.200}: no "{word}" in\n{done.stderr}'


two = peers([5, 5])
good = {'values': 10, 'part_codec': 'float32', 'result_codec': 'float32', 'peers': two}


def changed(**fields):
    return {**good, **fields}


def peer(**fields):
    return changed(peers=[two[0], {**two[1], **fields}])


def pair(*entries):
    return changed(pairs=[dict(zip(('a', 'b', 'bytes_per_s'), entry)) for entry in entries])


bad('no FILE', None, '--json')
bad('/none/lines.json', None, '/none/lines.json')
bad(folder.name, None, folder.name)
bad('does not know "more"', None, FILE, 'more')
bad('not JSON | line 1', b'')
bad('not JSON | line 2, column 12', b'{"values": 1,\n "peers": [}')
bad('not JSON', b'\xff\xfe\x00[')
bad('not JSON', b'{"values": NaN, "peers": []}')
bad('not JSON', b'{"values": 1e999, "peers": []}')
bad('not JSON', json.dumps(good).encode() + b' {}')
bad('"values" twice', b'{"values": 1, "values": 2}')
bad('where a value belongs', b'[' * 5_000_000)
bad('where a value belongs', changed(values={'a': [1, {'b': []}]}))
for other in (b'[]', b'3', b'null', b'"x"'):
    bad('not an object', other)
bad('has no "values"', {'peers': two})
bad('has no "peers"', {'values': 10})
bad('unknown field "valeus" | did you mean values', changed(valeus=3))
for values in (0, -1, 2.5, 1e13, -1e300):
    bad('values is | whole number from 1', changed(values=values))
for values in ('10', None, True, [10]):
    bad('values is | not a number', changed(values=values))
bad('part_codec is "float64" | dynamic8', changed(part_codec='float64'))
bad('result_codec is 3, not a text', changed(result_codec=3))
for swarm in ([], two[:1]):
    bad(f'peers has {len(swarm)} entries | 2 to 1000000', changed(peers=swarm))
bad('peers has 1000001 entries', json.dumps(changed(peers=[])).replace('[]', '[' + '{},' * 1_000_000 + '{}]').encode())
bad('peers is {}, not a list', changed(peers={}))
bad('peers[1] is 7, not an object', changed(peers=[two[0], 7]))
bad('peers[1] has an unknown field "upp" | did you mean up', peer(upp=1))
bad('peers[1].up is -1', peer(up=-1))
bad('peers[1].down is "5" | not a number', peer(down='5'))
bad('peers[1].up is null', peer(up=None))
bad('peers[1].role is "boss" | auxiliary', peer(role='boss'))
bad('peers[1].role is 1, not a text', peer(role=1))
bad('u001b[31mxxx', peer(role='\x1b[31m' + 'x' * 100_000))
bad('?31m', peer(role='\x9b31m'))
bad('all clients', changed(peers=peers([5, 5], role='client')))
bad('all auxiliaries', changed(peers=peers([5, 5], role='auxiliary')))
bad('pairs[0].b is 2 | from 0 to 1', pair((0, 2, 5)))
bad('pairs[0].a is -1', pair((-1, 1, 5)))
bad('pairs[0].a is 0.5', pair((0.5, 1, 5)))
bad('pairs[0] is peer 1 with itself', pair((1, 1, 5)))
bad('pairs[1] names peers 1 and 0 again', pair((0, 1, 5), (1, 0, 5)))
bad('pairs[0].bytes_per_s is -5', pair((0, 1, -5)))
bad('pairs[0] has no "bytes_per_s"', pair((0, 1)))
bad('pairs among 65 peers | at most 64', changed(peers=peers([5] * 65), pairs=pair((0, 1, 5))['pairs']))
