"""A laboratory of network namespaces (test/lab) for one test, or why there can be none."""
import os, pathlib, shutil, subprocess, tempfile, time, traceback

import programs

LAB = pathlib.Path(__file__).resolve().parent.parent / 'lab'
TOOLS = {'ip': 'iproute2', 'nft': 'nftables', 'conntrack': 'conntrack', 'miniupnpd': 'miniupnpd-nftables', 'sysctl': 'procps',
         'ss': 'iproute2'}


def lab(script, *words, **how):
    done = subprocess.run([str(LAB / script), *map(str, words)], capture_output=True, text=True, timeout=60, **how)
    assert done.returncode == 0, f'{script} {words}: {done.stderr}'
    return done.stdout


def build(kinds):
    """Sites by letter, each behind a router of its kind. Returns why there can be none here; empty: it is up."""
    os.environ.update(LAB_PREFIX=f'lab{os.getpid() % 1000000}', LAB_SITES=' '.join(kinds),
                      PATH=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if os.geteuid() != 0:
        return 'network namespaces need root'
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool, path=os.environ['PATH'])})
    if missing:
        return f'not installed: {" ".join(missing)} (tools/setup --lab)'
    # whatever ends this test, when its end of the pipe is closed the rest goes as well
    global guard
    guard = subprocess.Popen(['sh', '-c', 'read gone; exec "$0" down', LAB / 'nat_lab.sh'], stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        lab('nat_lab.sh', 'up', *(f'{site}={kind}' for site, kind in kinds.items()))
    except AssertionError as problem:
        if 'not permitted' not in str(problem):
            raise
        return f'no network namespaces here: {problem}'
    return ''


def carry_out(cases, found, running):
    """Each case with what `found` makes of the running programs, once. Returns how many failed; without that all."""
    swarm, failed = None, 0
    for case in cases:
        began = time.monotonic()
        try:
            swarm = swarm or found(running)
            case(swarm)
            print(f'ok: {case.__name__} ({time.monotonic() - began:.1f} s)', flush=True)
        except (AssertionError, subprocess.SubprocessError, OSError, KeyError, ValueError) as problem:
            lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__)]
            print(f'FAILED: {case.__name__}: lines {lines}: {type(problem).__name__}: {problem}', flush=True)
            failed += 1
        if swarm is None:
            return len(cases)
    return failed


def run(kinds, cases, found):
    """A whole test: builds, carries out, tears down. Returns the exit status; 77: skipped, and why was said."""
    reason = build(kinds)
    if reason:
        print(f'skipped: {reason}\n0 passed, 0 failed, {len(cases)} skipped')
        return 77
    try:
        with tempfile.TemporaryDirectory() as place, programs.Programs(place) as running:
            failed = carry_out(cases, found, running)
    finally:
        lab('nat_lab.sh', 'down')
    print(f'{len(cases) - failed} passed, {failed} failed, 0 skipped')
    return int(failed > 0)
