#!/usr/bin/env python3
"""Makes the files that Meson writes for -Dunity=on the same in every checkout: they name their sources by whole paths, so
ccache would find nothing that another folder has compiled.

Usage: relative_unity.py BUILD. Where Meson has written such a file anew and it says the same, its old date is kept too, so
that nothing is compiled again.
"""
import os, pathlib, re, shutil, sys

for file in pathlib.Path(sys.argv[1]).resolve().rglob('*-unity*.cpp'):
    text = file.read_text()
    relative = re.sub('^#include<(/.*)>$', lambda m: f'#include "{os.path.relpath(m[1], file.parent)}"', text, flags=re.M)
    if relative == text:
        continue
    kept = file.with_suffix('.kept')
    if not kept.exists() or kept.read_text() != relative:
        kept.write_text(relative)
    shutil.copy2(kept, file)
