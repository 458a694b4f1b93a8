#!/usr/bin/env python3
"""Each planted bug is found by the invariant that is there for it, within a thousand seeds, and by the program itself.

The swarms are small and the faults are drawn, as in a search for a bug that nobody knows. Only a cut so long that a peer
takes itself for the whole swarm is in no mixture.
"""
import json, pathlib, subprocess, sys

HERE = pathlib.Path(__file__).parent
SEEDS = 1000
SMALL = ['--peers', '4', '--target-batch', '128', '--values', '4096']
CHURN = ['--peers', '6', '--minutes', '2', '--faults', 'churn']
BUGS = {  # what finds it, and where it shows
    'begin_early': ('begin', ['--epochs', '4']),
    'arrival_order': ('mean', ['--epochs', '4', '--codec', 'float32']),
    'keep_partial': ('atomic', CHURN),
    'sum_twice': ('ledger', CHURN),
    'no_quorum': ('agree', ['--peers', '3', '--minutes', '1', '--faults', str(HERE / 'schedules/long_cut.toml')]),
    'skip_ledger': ('units', CHURN + ['--units', '1000']),
}


def runs_of(program, options):
    """Exit code, and what each seed came to."""
    done = subprocess.run([program, '--json', '-', *SMALL, *options], capture_output=True, text=True, timeout=250)
    if done.returncode not in (0, 1):
        sys.exit(f'{program} {options}: exit {done.returncode}\n{done.stderr}')
    out = json.loads(done.stdout)
    return done.returncode, out if isinstance(out, list) else [out]


def main(program, bugs):
    problems = []
    for bug in bugs:
        invariant, options = BUGS[bug]
        code, runs = runs_of(program, ['--plant', bug, '--seeds', str(SEEDS), *options])
        found = [one['invariant'] for one in runs[-1]['violations']]
        print(f"{bug}: {found[:1]} in seed {runs[-1]['seed']}, {len(runs)} seeds", flush=True)
        if code != 1 or found[:1] != [invariant]:
            problems.append(f'{bug} should break {invariant}, not {found}')
        if any(one['violations'] for one in runs[:-1]):
            problems.append(f'{bug}: the search went on after it was found')
        code, runs = runs_of(program, ['--seed', str(runs[-1]['seed']), *options])
        if code != 0:
            problems.append(f"without {bug} the same seed breaks {runs[0]['violations']}")
    print('\n'.join(problems))
    return bool(problems)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], sys.argv[2:] or sorted(BUGS)))
