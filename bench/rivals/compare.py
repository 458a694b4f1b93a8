"""collab beside hivemind and gloo: the same all-reduce, in turns, as ratios.

  compare.py                       2, 4 and 8 peers, float32, float16 and linear8
  compare.py --quick               4 peers, three rounds
  compare.py --peers 4 --codecs float32 --floats 16777216
  compare.py --plaintext           beside gloo alone, without encryption on either side

Prints a JSON line for each case, then the table. What has to be installed is in README.md beside this file.
"""
import argparse, json, pathlib, subprocess

import gloo_case

ROOT = pathlib.Path(__file__).resolve().parents[2]


def collab(program, peers, codec, floats, rounds, *more):
    command = [program, 'all-reduce', '--peers', str(peers), '--codec', codec, '--floats', str(floats), '--rounds', str(rounds),
               '--json', *more]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    kept = ('peers', 'codec', 'encrypted', 'floats', 'seconds_median', 'seconds_min', 'seconds_max', 'equal_bytes',
            'cpu_seconds_per_peer_per_100MB')
    return dict(system='collab', **{name: told[name] for name in kept})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--peers', type=int, nargs='*', default=[2, 4, 8])
    parser.add_argument('--codecs', nargs='*', default=['float32', 'float16', 'linear8'])
    parser.add_argument('--floats', type=int, default=18_000_000)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--plaintext', action='store_true')
    parser.add_argument('--program', default=str(ROOT / 'build/apps/bench/collab-bench'))
    options = parser.parse_args()
    if options.quick:
        options.peers, options.rounds = [4], 3
    if options.plaintext:
        options.codecs, how = ['float32'], ['--plaintext']
    else:
        import hivemind_case  # needs hivemind to be installed
        how = []
    rows = []
    for peers in options.peers:
        for codec in options.codecs:
            ours = collab(options.program, peers, codec, options.floats, options.rounds, *how)
            others = [] if options.plaintext else [hivemind_case.case(peers, codec, options.floats, options.rounds)]
            if codec == 'float32':
                others.append(gloo_case.case(peers, options.floats, options.rounds))
            for figures in [ours, *others]:
                print(json.dumps(figures), flush=True)
            rows += [(ours, other) for other in others]
    print(f'\n{"":24}{"collab":>10}{"other":>10}{"faster":>9}{"CPU, collab":>13}{"other":>8}   equal bytes')
    for ours, other in rows:
        name = f'{ours["peers"]} peers, {ours["codec"]}, {other["system"].split(",")[0]}'
        ratio = other['seconds_median'] / ours['seconds_median']
        print(f'{name:28}{ours["seconds_median"]:6.3f} s{other["seconds_median"]:8.3f} s{ratio:8.2f}x'
              f'{ours["cpu_seconds_per_peer_per_100MB"]:11.3f} s{other["cpu_seconds_per_peer_per_100MB"]:8.3f} s'
              f'   {ours["equal_bytes"]}, {other["equal_bytes"]}')


if __name__ == '__main__':
    main()
