#!/usr/bin/env python3
"""The exported folder as the Python package transformers sees it: no key missing, equal logits, equal token ids.

Usage: transformers_test.py PROBE. Runs itself again with the Python of the tests' own environment, which
tools/transformers_venv makes; without it, or without the packaged text, the test is skipped.
"""
import json, os, pathlib, subprocess, sys, tempfile

TOLERANCE = 1e-4
CACHE = pathlib.Path(os.environ.get('COLLAB_CACHE') or '~/.cache/collab').expanduser()
PYTHON, TEXT = CACHE / 'venv-transformers/bin/python', CACHE / 'text-bn'


def skip(reason):
    print(f'skipped: {reason}')
    sys.exit(77)


def compare(folder):
    import torch
    from transformers import AlbertForPreTraining, AlbertTokenizer
    ours = json.loads((folder / 'ours.json').read_text())
    model, info = AlbertForPreTraining.from_pretrained(folder / 'model', output_loading_info=True)
    model.eval()
    missing = [key for key in info['missing_keys'] if not key.startswith('predictions.decoder')]
    largest = 0.0
    for sample in ours['samples']:
        with torch.no_grad():
            theirs = model(input_ids=torch.tensor([sample['tokens']]))
        words = theirs.prediction_logits[0, sample['masked']].flatten()
        largest = max(largest, (words - torch.tensor(sample['words'])).abs().max().item(),
                      (theirs.sop_logits[0] - torch.tensor(sample['order'])).abs().max().item())
    tokenizer = AlbertTokenizer.from_pretrained(folder / 'model')
    unequal = [line for line in ours['lines'] if tokenizer(line['text'], add_special_tokens=False)['input_ids'] != line['ids']]
    checks = [(f'missing keys {missing}, unexpected {list(info["unexpected_keys"])}', not missing and not info['unexpected_keys']),
              (f'largest difference of a logit {largest:.1e} in {len(ours["samples"])} samples', largest <= TOLERANCE),
              (f'token ids differ in {len(unequal)} of {len(ours["lines"])} lines', not unequal)]
    for what, holds in checks:
        print(('ok: ' if holds else 'FAILED: ') + what)
    failed = sum(not holds for _, holds in checks)
    print(f'{len(checks) - failed} passed, {failed} failed, 0 skipped')
    return failed


if len(sys.argv) == 3 and sys.argv[1] == '--compare':
    sys.exit(compare(pathlib.Path(sys.argv[2])))
if not PYTHON.exists():
    skip('no environment with transformers; tools/transformers_venv makes it')
if not TEXT.exists():
    skip('no Bengali text; tools/setup fetches it')
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], str(TEXT), folder], check=True)
    environment = dict(os.environ, HF_HUB_OFFLINE='1', TRANSFORMERS_VERBOSITY='error')
    sys.exit(subprocess.run([str(PYTHON), __file__, '--compare', folder], env=environment).returncode)
