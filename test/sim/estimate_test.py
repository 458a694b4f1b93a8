#!/usr/bin/env python3
"""What `collab-sim estimate` promises against runs: estimate_test.py COLLAB_SIM"""

import json
import subprocess
import sys


def run(*arguments, code=0):
    done = subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f'{arguments}: exit {done.returncode} instead of {code}\n{done.stdout}{done.stderr}')
    return done.stdout


SWARM = ['--peers', '8', '--spread', '0', '--values', '8192', '--target-batch', '1280', '--links', 'dsl']
promised = json.loads(run('estimate', *SWARM, '--json'))
run_of_it = json.loads(run('training', *SWARM, '--epochs', '12', '--json'))
seconds = [after['committed_s'] - before['committed_s']
           for before, after in zip(run_of_it['rounds'][2:], run_of_it['rounds'][3:])]
epoch_s = sum(seconds) / len(seconds)
if abs(epoch_s / promised['epoch_s'] - 1) > 0.1:
    sys.exit(f'an epoch takes {epoch_s:.2f} s, {promised["epoch_s"]:.2f} s were promised')

# a third of the peers of a table, in its order, have its first line
lines = json.loads(run('estimate', '--peers', '24', '--links', '1x1000/1000,2x100/200', '--json'))
hybrid = json.loads(run('estimate', '--peers', '24', '--links', 'hybrid', '--json'))
for figure in ('rounds_s', 'up_bytes_per_epoch_mean', 'join_s'):
    if lines[figure] != hybrid[figure]:
        sys.exit(f'{figure} of hybrid is not that of its table')

for bad in ('', 'fast', '1x20', '1x20/100,', '0x20/100', '1x20/100/3', '1x-20/100'):
    run('estimate', '--links=' + bad if bad else '--links=,', code=2)
run('--peers', '3', '--epochs', '1', '--model-bytes', '1000', code=2)  # less than the values have
