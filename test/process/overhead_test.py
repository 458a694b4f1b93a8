#!/usr/bin/env python3
"""collab-bench overhead with real peers: the line is whole, every step is taken, and nothing is left behind.

Usage: overhead_test.py COLLAB_BENCH [TRAINER COORDINATOR]; without the two the build has no libtorch. No time is judged.
"""
import json, os, pathlib, shutil, signal, subprocess, sys, tempfile, time

from programs import write_text

program, trainer = pathlib.Path(sys.argv[1]), sys.argv[2:3]
FIELDS = {'bench', 'preset', 'target_batch', 'threads', 'casts', 'slices', 'peers', 'steps_per_slice', 'steps', 'samples', 'steps_expected',
          'handing_over_s', 'averaging_s', 'stepping_s', 'processors', 'load_before', 'load_after',
          'bare_samples_per_s', 'wrapped_samples_per_s', 'bare_loops_samples_per_s', 'peers_samples_per_s',
          *(f'{side}_ratio_{what}' for side in ('wrapped', 'peers') for what in ('min', 'median', 'max')),
          'wrapped_cpu_ratio_median', 'peers_cpu_ratio_median'}


def children_of(pid):
    return [int(child) for child in pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]


def without_a_trainer_it_says_so(folder):
    alone = folder / 'collab-bench'
    shutil.copy(program, alone)
    done = subprocess.run([alone, 'overhead', '--json'], capture_output=True, text=True, timeout=10)
    assert done.returncode == 2 and done.stdout == '' and 'libtorch' in done.stderr, done
    assert '-Dtorch=disabled' in done.stderr, done.stderr


def every_step_is_taken(command, environment):
    done = subprocess.run([*command, '--casts', '2', '--slices', '1', '--steps', '2', '--json'], capture_output=True, text=True, timeout=90,
                          env=environment)
    assert done.returncode == 0, (done.returncode, done.stderr)
    figures = json.loads(done.stdout)
    assert set(figures) == FIELDS, set(figures) ^ FIELDS
    assert figures['steps'] == figures['steps_expected'] == 2 * 3 * 2, figures
    # what was being computed when the batch was full comes on top: a microbatch of each peer, or more where the word of
    # the full batch takes longer than a microbatch, as it does on a machine with other work
    assert 2 * 3 * 2 * 128 <= figures['samples'], figures
    for field in FIELDS - {'bench', 'preset'}:
        assert figures[field] >= 0, field
    for field in FIELDS:
        if 'per_s' in field or 'ratio' in field:
            assert figures[field] > 0, field
    for side in ('wrapped', 'peers'):
        assert figures[f'{side}_ratio_min'] <= figures[f'{side}_ratio_median'] <= figures[f'{side}_ratio_max'], figures


def without_text_it_says_so(command, environment):
    done = subprocess.run([*command, '--data', '/nowhere/at/all'], capture_output=True, text=True, timeout=20, env=environment)
    assert done.returncode == 8 and done.stdout == '' and '/nowhere/at/all' in done.stderr, done


def ctrl_c_ends_all(command, environment):
    with subprocess.Popen([*command, '--slices', '1000'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment) as bench:
        try:
            deadline = time.monotonic() + 30
            while len(children_of(bench.pid)) < 3 and time.monotonic() < deadline:
                time.sleep(0.02)
            children = children_of(bench.pid)
            assert len(children) == 3, children
            time.sleep(0.5)
            bench.send_signal(signal.SIGINT)
            out, err = bench.communicate(timeout=15)
        finally:
            bench.kill()
    assert bench.returncode == 130 and out == '' and 'stopped' in err, (bench.returncode, out, err)
    assert not [child for child in children if pathlib.Path(f'/proc/{child}').exists()], 'processes are left'


with tempfile.TemporaryDirectory() as name:
    home = pathlib.Path(name)
    without_a_trainer_it_says_so(home)
    if trainer:
        write_text(home / 'text')
        (home / 'tmp').mkdir()
        environment = dict(os.environ, TMPDIR=str(home / 'tmp'))
        command = [program, 'overhead', '--target-batch', '128', '--data', str(home / 'text')]
        every_step_is_taken(command, environment)
        without_text_it_says_so(command, environment)
        ctrl_c_ends_all(command, environment)
        assert not list((home / 'tmp').iterdir()), 'files are left'
