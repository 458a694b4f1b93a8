#!/usr/bin/env python3
"""Installs collab into a folder and builds the examples against it outside of this tree.

Usage: install_test.py pkg-config|cmake MESON BUILD EXAMPLES COORDINATOR. CMake builds the loop, as on a machine whose libtorch
lies at another place than where the library was built; it takes three steps in a run of its own. pkg-config builds the job,
linked as here and as there; it says how it is used.
"""
import os, pathlib, re, shutil, subprocess, sys, tempfile

from programs import Programs

HOW, MESON, BUILD, EXAMPLES, COORDINATOR = sys.argv[1:]
CMAKE = '''cmake_minimum_required(VERSION 3.25)
project(mine CXX)
find_package(collab 0.1 REQUIRED)
add_executable(together together.cpp)
target_link_libraries(together collab::collab)
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


def installed(root):
    """The prefix, and the folder of libraries."""
    run(MESON, 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', root)
    [description] = root.rglob('collab.pc')
    prefix = root / re.search(r'^prefix=/(.*)$', description.read_text(), re.M)[1]
    run(prefix / 'bin/collab-peer', '--help')
    run(prefix / 'bin/collab-coordinator', '--help')
    return prefix, description.parent.parent


def library_shows_what_it_should(libraries):
    shown = run('nm', '-DC', '--defined-only', libraries / 'libcollab.so')
    assert ' collab::optim::Optimizer::step(' in shown
    foreign = [line for line in shown.splitlines() if re.search(r'boost::asio|fmt::v|spdlog::', line)]
    assert not foreign, foreign[:5]
    assert 'soname: [libcollab.so.0.1]' in run('readelf', '-dW', libraries / 'libcollab.so')


def elsewhere(prefix, libraries):
    """From now on what is installed looks for libtorch where there is none, as on a machine that has it at another place.
    Returns the place that it has."""
    place = re.search(r'^libtorch=(.*)$', (libraries / 'pkgconfig/collab.pc').read_text(), re.M)[1]
    nowhere = '/nowhere'.ljust(len(place), '-')[:len(place)]  # so that it fits into the programs too
    [trainer] = prefix.rglob('collab-trainer')
    files = [trainer, libraries / 'libcollab.so', libraries / 'pkgconfig/collab.pc',
             libraries / 'cmake/collab/collabConfig.cmake']
    for file in files:
        there = file.read_bytes()
        assert place.encode() in there, f'{file} does not say where libtorch is'
        file.write_bytes(there.replace(place.encode(), nowhere.encode()))
    run(prefix / 'bin/collab-peer', '--help')  # needs none
    started = subprocess.run([prefix / 'bin/collab-peer', '--run-id', 'none'], text=True, capture_output=True)
    assert started.returncode != 0 and 'libtorch_cpu.so' in started.stderr, started
    run(trainer, '--help', env=dict(os.environ, LD_LIBRARY_PATH=f'{place}/lib'))
    return place


def build_by_pkg_config(prefix, libraries, outside):
    environment = dict(os.environ, PKG_CONFIG_PATH=str(libraries / 'pkgconfig'))

    def flags_for(*more):
        return run('pkg-config', f'--define-variable=prefix={prefix}', *more, '--cflags', '--libs', 'collab',
                   env=environment).split()

    def compiler(*words):
        return run('c++', *words, cwd=outside)

    flags = flags_for()
    compiler('-Wall', '-Wextra', '-Werror', '-c', 'your_job.cpp', *flags)
    compiler('your_job.o', '-o', 'here', *flags)
    assert 'collab-peer' in run(outside / 'here', '--help')
    torch = elsewhere(prefix, libraries)
    assert not any(torch in flag for flag in flags_for())
    at_its_place = flags_for(f'--define-variable=libtorch={torch}')
    assert at_its_place == flags, (at_its_place, flags)
    compiler('your_job.o', '-o', 'there', *at_its_place)
    assert 'collab-peer' in run(outside / 'there', '--help')
    headers = prefix / 'include/collab'
    every = outside / 'every.cpp'
    every.write_text(''.join(f'#include "{h.relative_to(headers)}"\n' for h in sorted(headers.rglob('*.hpp'))))
    seen = compiler('-M', every, *[f for f in flags if not f.startswith(('-l', '-L', '-W'))])
    assert 'boost/asio' not in seen and 'msgpack' not in seen and '/src/' not in seen


def build_by_cmake(prefix, libraries, outside):
    (outside / 'CMakeLists.txt').write_text(CMAKE)
    torch = elsewhere(prefix, libraries)
    configure = ['cmake', '-G', 'Ninja', '-S', outside, '-B', outside / 'build', f'-DCMAKE_PREFIX_PATH={prefix}']
    refused = subprocess.run(configure, text=True, capture_output=True)
    assert refused.returncode != 0 and 'give -DCOLLAB_LIBTORCH=PATH' in ' '.join(refused.stderr.split()), refused
    run(*configure, f'-DCOLLAB_LIBTORCH={torch}')
    run('cmake', '--build', outside / 'build')


def take_three_steps(programs, together):
    host, address = programs.coordinator(COORDINATOR, 'installed', '--job', 'mine', '--target-batch', 32)
    peer = programs.start('peer', [together, small_data(programs.folder / 'data'), 3, 32, 'installed', address,
                                   programs.folder / 'peer/home'])
    assert 'accuracy' in peer.finish(120)
    host.leave()


if HOW == 'cmake' and shutil.which('cmake') is None:
    print('0 passed, 0 failed, 1 skipped: no cmake here')
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder, Programs(folder) as programs:
    prefix, libraries = installed(programs.folder / 'root')
    outside = programs.folder / 'outside'
    outside.mkdir()
    shutil.copy(pathlib.Path(EXAMPLES) / 'embed/together.cpp', outside)
    shutil.copy(pathlib.Path(EXAMPLES) / 'your_job/main.cpp', outside / 'your_job.cpp')
    if HOW == 'cmake':
        build_by_cmake(prefix, libraries, outside)
        take_three_steps(programs, outside / 'build/together')
    else:
        library_shows_what_it_should(libraries)
        build_by_pkg_config(prefix, libraries, outside)
    print(f'libcollab.so of {(libraries / "libcollab.so").stat().st_size / 1e6:.0f} MB; built by {HOW}')
print('1 passed, 0 failed, 0 skipped')
