"""A laboratory of network namespaces (test/lab) for one test, or why there can be none."""
import os, pathlib, shutil, subprocess

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
    try:
        lab('nat_lab.sh', 'up', *(f'{site}={kind}' for site, kind in kinds.items()))
    except AssertionError as problem:
        if 'not permitted' not in str(problem):
            raise
        return f'no network namespaces here: {problem}'
    return ''
