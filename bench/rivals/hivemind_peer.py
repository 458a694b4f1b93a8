"""One hivemind peer: a DHT and an averager of one tensor."""
import hashlib, time

from processes import answer, now, orders

told = orders()
first = next(told)

import hivemind, torch
from hivemind.averaging.control import AveragingStage
from hivemind.compression import Float16Compression, NoCompression, Uniform8BitQuantization

CODECS = {'float32': NoCompression, 'float16': Float16Compression, 'linear8': Uniform8BitQuantization}
torch.set_num_threads(1)


def fill(tensor, rank):
    tensor.copy_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(7))).mul_(rank + 1)


dht = hivemind.DHT(initial_peers=first['others'], start=True)
answer(addresses=[str(address) for address in dht.get_visible_maddrs()])
setup = next(told)
averager = hivemind.DecentralizedAverager([torch.empty(setup['floats'])], dht, start=True, prefix='bench',
                                          target_group_size=setup['peers'], compression=CODECS[setup['codec']]())
answer(ready=True)
for order in told:
    if order['what'] == 'gather':  # a group, and no round yet
        with averager.get_tensors() as tensors:
            fill(tensors[0], setup['rank'])
        step = averager.step(wait=False, require_trigger=True, timeout=60, allow_retries=False)
        while step.stage != AveragingStage.AWAITING_TRIGGER and not step.done():
            time.sleep(0.002)
        answer(gathered=not step.done())
    elif order['what'] == 'go':
        step.allow_allreduce()
        try:
            members = len(step.result())
        except BaseException:
            members = 0
        answer(members=members, at=now())
    else:
        with averager.get_tensors() as tensors:
            answer(digest=hashlib.sha256(tensors[0].numpy().tobytes()).hexdigest())
