#!/usr/bin/env python3
"""Installs collab into a folder and builds programs against it outside of this tree, by pkg-config and by CMake.

Usage: install_test.py MESON BUILD TOGETHER.CPP COORDINATOR. What was built takes three steps in a run of its own.
"""
import os, pathlib, re, shutil, subprocess, sys, tempfile

from programs import Programs

MESON, BUILD, SOURCE, COORDINATOR = sys.argv[1:]
CMAKE = '''cmake_minimum_required(VERSION 3.25)
project(mine CXX)
find_package(collab 0.1 REQUIRED)
add_executable(mine together.cpp)
target_link_libraries(mine collab::collab)
'''


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, **more)
    assert done.returncode == 0, f'{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}'
    return done.stdout


def idx_file(path, shape, byte):
    """A data set so small that nothing needs to be installed: what it shows does not matter here."""
    header = bytes([0, 0, 8, len(shape)]) + b''.join(n.to_bytes(4, 'big') for n in shape)
    size = 1
    for n in shape:
        size *= n
    path.write_bytes(header + bytes(byte(i) for i in range(size)))


def small_data(folder):
    folder.mkdir()
    for part, images in ('train', 60000), ('t10k', 10000):  # libtorch insists on these numbers
        idx_file(folder / f'{part}-labels-idx1-ubyte', [images], lambda i: i % 10)
        header = bytes([0, 0, 8, 3]) + b''.join(n.to_bytes(4, 'big') for n in (images, 28, 28))
        (folder / f'{part}-images-idx3-ubyte').write_bytes(header + os.urandom(784) * images)
    return folder


def takes_steps(programs, name, binary, libraries, address, data):
    peer = programs.start(name, ['/usr/bin/env', f'LD_LIBRARY_PATH={libraries}', binary, data, 3, 32, 'installed', address,
                                 programs.folder / name / 'home'])
    assert 'accuracy' in peer.finish(120)


with tempfile.TemporaryDirectory() as folder, Programs(folder) as programs:
    root = programs.folder / 'root'
    run(MESON, 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', root)
    [description] = root.rglob('collab.pc')
    prefix = root / re.search(r'^prefix=/(.*)$', description.read_text(), re.M)[1]
    libraries = description.parent.parent
    headers = prefix / 'include/collab'
    run(prefix / 'bin/collab-peer', '--help')
    run(prefix / 'bin/collab-coordinator', '--help')
    print(f'{len(list(headers.rglob("*.hpp")))} headers, libcollab.so of '
          f'{(libraries / "libcollab.so").stat().st_size / 1e6:.0f} MB')

    shown = run('nm', '-DC', '--defined-only', libraries / 'libcollab.so')
    assert ' collab::optim::Optimizer::step(' in shown
    foreign = [line for line in shown.splitlines() if re.search(r'boost::asio|fmt::v|spdlog::', line)]
    assert not foreign, foreign[:5]

    outside = programs.folder / 'outside'
    outside.mkdir()
    shutil.copy(SOURCE, outside / 'together.cpp')
    environment = dict(os.environ, PKG_CONFIG_PATH=str(description.parent))
    flags = run('pkg-config', f'--define-variable=prefix={prefix}', '--cflags', '--libs', 'collab', env=environment).split()
    run('c++', '-Wall', '-Wextra', '-Werror', 'together.cpp', '-o', 'by-pkg-config', *flags, cwd=outside)
    every = outside / 'every.cpp'
    every.write_text(''.join(f'#include "{h.relative_to(headers)}"\n' for h in sorted(headers.rglob('*.hpp'))))
    seen = run('c++', '-M', every, *[f for f in flags if not f.startswith(('-l', '-L', '-W'))], cwd=outside)
    assert 'boost/asio' not in seen and 'msgpack' not in seen and '/src/' not in seen

    host, address = programs.coordinator(COORDINATOR, 'installed', '--job', 'mine', '--target-batch', 32)
    data = small_data(programs.folder / 'data')
    takes_steps(programs, 'a', outside / 'by-pkg-config', libraries, address, data)
    if shutil.which('cmake') is None:
        print('skipped: no cmake here')
    else:
        (outside / 'CMakeLists.txt').write_text(CMAKE)
        run('cmake', '-S', outside, '-B', outside / 'build', f'-DCMAKE_PREFIX_PATH={prefix}')
        run('cmake', '--build', outside / 'build')
        takes_steps(programs, 'b', outside / 'build/mine', '', address, data)
    host.leave()
print('1 passed, 0 failed, 0 skipped')
