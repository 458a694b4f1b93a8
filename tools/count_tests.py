#!/usr/bin/env python3
"""Adds up the test cases behind runs of `meson test` and prints the one line that counts.

Told the folder and their names: NAME.json is the log of one, and NAME.status how it ended.

A program that says how many cases it ran (doctest, or our own process tests) counts with those; any other counts as
one. A program that died in mid-run counts as one failure more. Exits non-zero when anything failed or nothing ran.
"""
import json, pathlib, re, sys

DOCTEST = re.compile(r'test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed\s*\|(?:\s*(\d+) skipped)?')
OURS = re.compile(r'^(\d+) passed, (\d+) failed, (\d+) skipped$', re.M)
SKIP_REASON = re.compile(r'^skipped: .*$', re.M)

passed = failed = skipped = 0
reasons = []
tests = []
ended_badly = []
for name in sys.argv[2:]:
    log, ended = (pathlib.Path(sys.argv[1], name + end) for end in ('.json', '.status'))
    lines = log.read_text().splitlines() if log.exists() else []
    tests += map(json.loads, lines)
    status = ended.read_text().strip() if ended.exists() else 'no status'
    if status != '0' or not lines:
        ended_badly.append(f'{name}: {len(lines)} tests, {status}')
for test in tests:
    output = test.get('stdout') or ''
    counts = DOCTEST.search(re.sub(r'\x1b\[[0-9;]*m', '', output))
    counts = [int(n or 0) for n in counts.groups()[1:]] if counts else None
    if counts is None and (ours := OURS.search(output)):
        counts = [int(n) for n in ours.groups()]
    ok, skip = test['result'] in ('OK', 'EXPECTEDFAIL'), test['result'] == 'SKIP'
    if counts is None:
        counts = [int(ok), int(not ok and not skip), int(skip)]
    elif not ok and not skip and counts[1] == 0:
        counts[1] = 1
    passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
    reasons += [f'{test["name"]}: {reason}' for reason in SKIP_REASON.findall(output)]

for reason in reasons + ended_badly:
    print(reason)
print(f'{passed} passed, {failed} failed, {skipped} skipped')
sys.exit(failed > 0 or passed == 0 or len(ended_badly) > 0)
