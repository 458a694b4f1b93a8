#!/usr/bin/env python3
"""The shares of `collab-sim partition` against an exact linear program: pair_limits.py COLLAB_SIM [CASES]

Written from the definition alone. With senders m, s = 1 for who sends, else 0, and p, r bytes per value of parts and
results, member i moves per value
  up p*s_i*(1-w_i) + r*w_i*(m-s_i),   down p*w_i*(m-s_i) + r*s_i*(1-w_i),   and to member j p*s_i*w_j + r*s_j*w_i
bytes; the largest of these over their rates is what the shares w keep small. In fractions, so nothing is rounded."""

import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
from fractions import Fraction

VALUES = 4096 * 1000
BYTES = {'float32': Fraction(4), 'float16': Fraction(2), 'linear8': 1 + Fraction(4, 4096)}
UNKNOWN = Fraction(12_500_000)


def believed(rate):
    """Claims outside this range do not decide who is slowest."""
    return min(max(Fraction(rate), Fraction(1)), Fraction(10**12))


def loads(case):
    """All that takes time: (constant, {member: coefficient of its share}), in seconds per value."""
    peers, p, r = case['peers'], BYTES[case['part_codec']], BYTES[case['result_codec']]
    sends = [int(peer['role'] != 'auxiliary') for peer in peers]
    senders = sum(sends)
    out = []
    for way, mine, others in (('up', p, r), ('down', r, p)):
        known = [Fraction(peer[way]) for peer in peers if peer[way] > 0]
        unknown = statistics.median(known) if known else UNKNOWN
        for i, peer in enumerate(peers):
            rate = believed(peer[way] if peer[way] > 0 else unknown)
            out.append((mine * sends[i] / rate, {i: (others * (senders - sends[i]) - mine * sends[i]) / rate}))
    for pair in case['pairs']:
        for i, j in ((pair['a'], pair['b']), (pair['b'], pair['a'])):
            rate = believed(pair['bytes_per_s'])
            if pair['bytes_per_s'] > 0:
                out.append((Fraction(0), {j: p * sends[i] / rate, i: r * sends[j] / rate}))
    return out


def slowest(case, shares):
    return max(constant + sum(part * shares[i] for i, part in parts.items()) for constant, parts in loads(case))


def least_time(case):
    """Of the dual: maximise b*y + v under A'y + v <= (0, ..., 0, 1), whose corner y = 0 is allowed; simplex by Bland."""
    owners = [i for i, peer in enumerate(case['peers']) if peer['role'] != 'client']
    place = {i: k for k, i in enumerate(owners)}
    height = len(owners) + 1
    columns, gains = [], []
    for constant, parts in loads(case):  # time - sum parts*w >= constant
        column = [Fraction(0)] * height
        for i, part in parts.items():
            if i in place:
                column[place[i]] -= part
        column[-1] = Fraction(1)
        columns.append(column)
        gains.append(constant)
    for sign in (1, -1):  # of the sum of shares, which is 1
        columns.append([Fraction(sign)] * len(owners) + [Fraction(0)])
        gains.append(Fraction(sign))
    for k in range(height):
        columns.append([Fraction(int(k == row)) for row in range(height)])
        gains.append(Fraction(0))
    rows = [[column[row] for column in columns] + [Fraction(int(row == height - 1))] for row in range(height)]
    basis = list(range(len(columns) - height, len(columns)))
    top = gains + [Fraction(0)]
    while True:
        entering = next((k for k in range(len(columns)) if top[k] > 0), None)
        if entering is None:
            return -top[-1]
        ratios = [(rows[k][-1] / rows[k][entering], basis[k], k) for k in range(height) if rows[k][entering] > 0]
        leaving = min(ratios)[2]
        pivot = rows[leaving][entering]
        rows[leaving] = [value / pivot for value in rows[leaving]]
        for row in [*rows[:leaving], *rows[leaving + 1:], top]:
            factor = row[entering]
            if factor:
                for k, value in enumerate(rows[leaving]):
                    if value:
                        row[k] -= factor * value
        basis[leaving] = entering


def random_case(rng):
    n = rng.randint(2, 5)
    odd = [0, 0, 0, 1e-300, 1e12, 1e300]
    rate = lambda: rng.choice(odd) if rng.random() < 0.06 else int(rng.lognormvariate(0, 1.5) * 1e6) + 1
    roles = ['node'] + [rng.choice(['node', 'node', 'node', 'client', 'auxiliary']) for _ in range(n - 1)]
    rng.shuffle(roles)
    pairs = [{'a': a, 'b': b, 'bytes_per_s': int(rng.lognormvariate(-2, 1.5) * 1e6)}
             for a in range(n) for b in range(n) if a < b and rng.random() < rng.choice([0, 0.3, 1])]
    codecs = rng.choice([('float32', 'float32'), ('float16', 'float32'), ('float32', 'float16'), ('linear8', 'float16')])
    return {'values': VALUES, 'part_codec': codecs[0], 'result_codec': codecs[1], 'pairs': pairs,
            'peers': [{'up': rate(), 'down': rate(), 'role': role} for role in roles]}


def check(case, program, file):
    file.write_text(json.dumps(case))
    done = subprocess.run([program, 'partition', file, '--json'], capture_output=True, text=True, check=False)
    where = json.dumps(case)
    assert done.returncode == 0, f'{where}\n{done.stderr}'
    said = json.loads(done.stdout)
    shares = [Fraction(share) for share in said['shares']]
    assert abs(sum(shares) - 1) < 1e-12 and min(shares) >= 0, f'{where}: shares {said["shares"]}'
    for share, peer in zip(shares, case['peers']):
        assert share == 0 or peer['role'] != 'client', f'{where}: a client owns {share}'
    least = float(least_time(case)) * VALUES
    near = lambda a, b: abs(a - b) <= 1e-8 * abs(b) + 1e-15
    assert near(said['seconds'], least), f'{where}: {said["seconds"]} s, the linear program has {least} s'
    takes = float(slowest(case, shares)) * VALUES
    assert near(takes, said['seconds']), f'{where}: told {said["seconds"]} s, these shares take {takes} s'
    assert sum(said['plan']['units']) == VALUES // 4096 and said['plan']['seconds'] >= least * (1 - 1e-9), where
    without = float(least_time({**case, 'pairs': []})) * VALUES
    return least > without * (1 + 1e-9)


rng = random.Random(20211)
cases = int(sys.argv[2]) if len(sys.argv) > 2 else 200
with tempfile.TemporaryDirectory() as folder:
    limited = sum(check(random_case(rng), sys.argv[1], pathlib.Path(folder) / 'case.json') for _ in range(cases))
if limited < cases / 5:
    sys.exit(f'limits of pairs decide in {limited} of {cases} cases only')
print(f'{cases} cases, in {limited} of them limits of pairs decide')
