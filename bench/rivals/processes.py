"""Peers as processes that are told what to do in JSON lines, and what their trees of processes cost."""
import json, os, pathlib, select, signal, statistics, subprocess, sys, time

TICKS = os.sysconf('SC_CLK_TCK')
now = time.monotonic  # the same for all processes of a machine


def stat_of(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    except OSError:
        return None


def tree(root):
    """`root` and all that descend from it."""
    parents = {}
    for entry in pathlib.Path('/proc').iterdir():
        if entry.name.isdigit() and (stat := stat_of(entry.name)):
            parents[int(entry.name)] = int(stat[1])
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += [child for child, parent in parents.items() if parent == pid]
    return found


def cpu_seconds(pids):
    stats = [stat for stat in map(stat_of, pids) if stat]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / TICKS


class Peer:
    """A Python program of this folder, at the other end of a pipe."""

    def __init__(self, program, *arguments, **environment):
        folder = pathlib.Path(__file__).resolve().parent
        self.process = subprocess.Popen([sys.executable, str(folder / program), *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        env={**os.environ, 'PYTHONWARNINGS': 'ignore', 'OMP_NUM_THREADS': '1', **environment})
        self.received = b''

    def tell(self, **order):
        self.process.stdin.write((json.dumps(order) + '\n').encode())
        self.process.stdin.flush()

    def hear(self, seconds=300):
        end = now() + seconds
        while b'\n' not in self.received:
            if not select.select([self.process.stdout], [], [], max(0, end - now()))[0]:
                raise TimeoutError('a rival said nothing')
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise RuntimeError('a rival ended')
            self.received += more
        line, self.received = self.received.split(b'\n', 1)
        return json.loads(line)

    def end(self):
        for pid in reversed(tree(self.process.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.process.wait()


def orders():
    """What a peer is told, until the one who tells is gone. Whatever libraries print goes to stderr."""
    sys.stdout = sys.stderr
    for line in sys.__stdin__:
        yield json.loads(line)


def answer(**words):
    sys.__stdout__.write(json.dumps(words) + '\n')
    sys.__stdout__.flush()


def figures(system, peers, codec, floats, walls, cpus, equal):
    """`walls`, `cpus`: of the rounds that count, in seconds; of all peers together."""
    return dict(system=system, peers=peers, codec=codec, floats=floats, seconds_median=statistics.median(walls),
                seconds_min=min(walls), seconds_max=max(walls), equal_bytes=equal,
                cpu_seconds_per_peer_per_100MB=statistics.median(cpus) / peers / (floats * 4 / 1e8))
