#!/usr/bin/env python3
"""Writes a C++ source with the given files in it: embed_web.py OUTPUT FILE... Each is served under its own name."""
import hashlib, pathlib, sys

TYPES = {'.html': 'text/html; charset=utf-8', '.css': 'text/css; charset=utf-8',
         '.js': 'text/javascript; charset=utf-8', '.svg': 'image/svg+xml'}


def literal(data):
    """One literal a line of the file. Octal escapes end after three digits, whatever follows."""
    plain = set(range(32, 127)) - set(b'"\\?')
    lines = data.splitlines(keepends=True) or [b'']
    return '\n'.join('      "' + ''.join(chr(b) if b in plain else f'\\{b:03o}' for b in line) + '"' for line in lines)


output, *names = sys.argv[1:]
rows = []
for file in map(pathlib.Path, names):
    path = '/' if file.name == 'index.html' else f'/{file.name}'
    data = file.read_bytes()
    tag = hashlib.sha256(data).hexdigest()[:16]
    rows.append(f'    {{"{path}", "{TYPES[file.suffix]}", "\\"{tag}\\"",\n     std::string_view(\n{literal(data)},\n'
                f'      {len(data)})}},\n')
pathlib.Path(output).write_text(f'''// Made by embed_web.py.
#include "monitor/web_files.hpp"

#include <array>

namespace collab::monitor {{
namespace {{

constexpr std::array<WebFile, {len(rows)}> kFiles = {{{{
{''.join(rows)}}}}};

}}  // namespace

std::span<const WebFile> web_files() {{
  return kFiles;
}}

}}  // namespace collab::monitor
''')
