#!/usr/bin/env python3
"""A loop of one's own in a run that is not as the loop believes: it ends, and says why.

Usage: loop_test.py COORDINATOR OWN_LOOP. The coordinator of such a run knows no tensors: only the state of those who
train can tell that a program has another model or another optimizer. The end of the run it knows, and tells.
"""
import sys, tempfile

from programs import Programs, wait

COORDINATOR, OWN_LOOP = sys.argv[1:]
FOREVER = 10**9
MISFIT = "the swarm's state does not fit the model or the optimizer here. Try: the program the run was begun with"


class Run:
    def __init__(self, programs, *more):
        self.programs = programs
        self.host, self.address = programs.coordinator(COORDINATOR, 'loop', '--job', 'mine', '--target-batch', 32, *more)

    def join(self, name, kind, width, epochs, *more):
        home = self.programs.folder / name / 'home'
        return self.programs.start(name, [OWN_LOOP, kind, width, epochs, 'loop', self.address, home, *more])

    def epoch(self):
        return max((e['epoch'] for e in self.host.events('status')), default=0)


def another_model_or_optimizer(programs):
    run = Run(programs)
    first = run.join('first', 'adamw', 4, FOREVER, 'slow')
    wait('somebody trains', 30, lambda: run.epoch() >= 3 or first.ended())
    assert not first.ended(), first.log()
    strangers = {5: run.join('other-optimizer', 'sgd', 4, FOREVER),
                 # nobody catches it: std::terminate says what() before it aborts, cause and remedy
                 -6: run.join('other-tensors', 'adamw', 5, FOREVER, 'uncaught')}
    for code, stranger in strangers.items():
        wait('it ends', 40, stranger.ended)
        assert stranger.process.returncode == code and stranger.log().count(MISFIT) == 1, stranger.log()
    reached = run.epoch()
    wait('the run goes on', 30, lambda: run.epoch() > reached or first.ended())
    run.join('fitting', 'adamw', 4, reached + 5).finish(60)
    assert not first.ended(), first.log()


def the_run_ends_before_the_loop(programs):
    run = Run(programs, '--epochs', 3)
    assert run.join('longer', 'adamw', 4, FOREVER).finish(60).splitlines() == ['the run is over: it has 3 epochs', 'epoch 3']
    assert run.join('late', 'adamw', 4, 2).finish(60) == 'epoch 2'  # a run that nobody holds any more begins again


def left_from_another_thread(programs):
    run = Run(programs)
    first = run.join('first', 'adamw', 4, FOREVER, 'slow')
    wait('somebody trains', 30, lambda: run.epoch() >= 3 or first.ended())
    leaver = run.join('leaver', 'adamw', 4, FOREVER, 'leave-aside')
    assert 'this peer has left the run' in leaver.finish(60), leaver.log()
    reached = run.epoch()
    wait('the run goes on', 30, lambda: run.epoch() > reached or first.ended())
    assert not first.ended(), first.log()


def what_no_loop_should_call(programs):
    run = Run(programs)
    for how, why in {'wait-first': 'wait() before the run was joined',
                     'twice': 'a Collaboration takes part with one Optimizer or Auxiliary'}.items():
        loop = run.join(how, 'adamw', 4, FOREVER, how)
        wait('it ends', 40, loop.ended)
        assert loop.process.returncode == 2 and why in loop.log(), loop.log()


TESTS = (another_model_or_optimizer, the_run_ends_before_the_loop, left_from_another_thread,
         what_no_loop_should_call)
for test in TESTS:
    with tempfile.TemporaryDirectory() as folder, Programs(folder) as programs:
        test(programs)
    print(test.__name__.replace('_', ' '))
print(f'{len(TESTS)} passed, 0 failed, 0 skipped')
