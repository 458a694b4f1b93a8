"""hivemind's averager: rounds of a group that has already formed."""
from processes import Peer, cpu_seconds, figures, now, tree


def ask(peers, **order):
    for peer in peers:
        peer.tell(**order)
    return [peer.hear() for peer in peers]


def case(count, codec, floats, rounds):
    peers = [Peer('hivemind_peer.py') for _ in range(count)]
    try:
        peers[0].tell(others=None)
        addresses = peers[0].hear()['addresses']
        for peer in peers[1:]:
            peer.tell(others=addresses)
        for peer in peers[1:]:
            peer.hear()
        for rank, peer in enumerate(peers):
            peer.tell(rank=rank, peers=count, codec=codec, floats=floats)
        for peer in peers:
            peer.hear()
        walls, cpus, equal, tries = [], [], 0, 0
        while len(walls) < rounds + 1 and (tries := tries + 1) <= rounds + 6:
            gathered = all(one['gathered'] for one in ask(peers, what='gather'))
            pids = [pid for peer in peers for pid in tree(peer.process.pid)]
            cpu, start = cpu_seconds(pids), now()
            done = ask(peers, what='go')
            if not gathered or any(one['members'] != count for one in done):
                continue  # a group that did not form, or a round that failed: not timed
            walls.append(max(one['at'] for one in done) - start)
            cpus.append(cpu_seconds(pids) - cpu)
            equal += len({one['digest'] for one in ask(peers, what='digest')}) == 1
        if len(walls) < 2:
            raise RuntimeError('hivemind averaged too seldom')
        return figures('hivemind', count, codec, floats, walls[1:], cpus[1:], equal == len(walls))
    finally:
        for peer in peers:
            peer.end()
