#!/usr/bin/env python3
"""Cryptography that protects nothing is in the first program, the simulator, and in none of the others."""
import pathlib, sys

MARK = b'collab fake exporter'  # the name under which it hashes, so no program that has it is without

holders = [path for path in sys.argv[1:] if MARK in pathlib.Path(path).read_bytes()]
problems = [f'{path} holds fake cryptography' for path in holders if path != sys.argv[1]]
if sys.argv[1] not in holders:
    problems.append(f'{sys.argv[1]} should hold fake cryptography: this check does not see it')
print('\n'.join(problems) or f'{len(sys.argv) - 2} programs without fake cryptography')
sys.exit(bool(problems))
