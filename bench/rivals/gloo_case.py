"""torch.distributed's all_reduce by gloo, in the clear."""
import hashlib, socket, sys

from processes import Peer, answer, cpu_seconds, figures, now, orders, tree


def rank_main():
    told = orders()
    setup = next(told)
    import torch, torch.distributed
    torch.set_num_threads(1)
    torch.distributed.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{setup["port"]}', rank=setup['rank'],
                                         world_size=setup['peers'])
    values = torch.empty(setup['floats'])
    answer(ready=True)
    for order in told:
        if order['what'] == 'go':
            values.copy_(torch.randn(values.shape, generator=torch.Generator().manual_seed(7))).mul_(setup['rank'] + 1)
            torch.distributed.barrier()
            start = now()
            torch.distributed.all_reduce(values)
            answer(start=start, end=now())
        elif order['what'] == 'often':  # one after the other, for processor time alone
            torch.distributed.barrier()
            for _ in range(order['times']):
                torch.distributed.all_reduce(values)
            answer(done=True)
        else:
            answer(digest=hashlib.sha256(values.numpy().tobytes()).hexdigest())


def ask(peers, **order):
    for peer in peers:
        peer.tell(**order)
    return [peer.hear() for peer in peers]


def case(count, floats, rounds):
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    peers = [Peer('gloo_case.py', 'rank', GLOO_SOCKET_IFNAME='lo') for _ in range(count)]
    try:
        for rank, peer in enumerate(peers):
            peer.tell(rank=rank, peers=count, floats=floats, port=port)
        for peer in peers:
            peer.hear()
        walls, equal = [], True
        for _ in range(rounds + 1):
            done = ask(peers, what='go')
            walls.append(max(one['end'] for one in done) - max(one['start'] for one in done))
            equal &= len({one['digest'] for one in ask(peers, what='digest')}) == 1
        pids = [pid for peer in peers for pid in tree(peer.process.pid)]
        cpu = cpu_seconds(pids)
        ask(peers, what='often', times=rounds)
        return figures('gloo, in the clear', count, 'float32', floats, walls[1:], [(cpu_seconds(pids) - cpu) / rounds], equal)
    finally:
        for peer in peers:
            peer.end()


if __name__ == '__main__' and sys.argv[1:] == ['rank']:
    rank_main()
