#!/usr/bin/env python3
"""Whether one round can end with two results: the commit of src/averaging as a model, apart from its code.

A peer's machine is written down a second time here, from the protocol's rules: views with promises, signed Holds, the
plan of a new view, segments that are reduced in two chunks, one voice for each previous group and the Fetch of a
stand-in, units of work that count once. Peers talk over ordered channels with random delays, while some die in the
middle of a broadcast, are taken for dead, are cut off, or come back without memory; one may lie about a commit. Values
are symbols: two results are equal when the same senders are in the same chunks of the same view.

What it proves is the protocol. That the code follows it is for test/unit/averaging/commit_model_test.cpp, which drives
averaging::Commit itself in such a world.

    commit_model.py                                some of each fault, and each rule left out once: seconds
    commit_model.py --runs 24000                   the figure that we state
    commit_model.py --faults partition --seed 17   one run, as a failure prints it
    commit_model.py --without quorum --runs 6000   what that rule is for
"""
import argparse, collections, heapq, math, random, sys

FAULTS = ('crash', 'suspicion', 'partition', 'restart')
# Each can be left out, and then something of the second kind must be found under the first.
RULES = {
    'quorum': ('partition', 'two results'),          # more than half of the voters for a commit and for a new plan
    'electorate': ('partition', 'two groups'),       # or of all current peers, where some of them are not in the group
    'undecided': ('partition', 'two groups'),        # who signed a Hold and knows no outcome is in no other group
    'seals': ('crash', 'two results'),               # a Commit counts only with the signed Holds of a quorum
    'incarnations': ('restart', 'two groups'),       # who lost its memory is out of the rounds of its former life
    'one_voice': ('suspicion', 'a voice twice'),     # of a previous group one member counts in a chunk
    'unique_units': ('crash', 'a unit twice'),       # of two senders that name one unit one is left out
    'stand_ins': ('crash', 'a group left out'),      # an owner that suspects a voice asks the next of its group
}
CHUNKS = 2
VIEWS_MAX = 400
END = 60.0  # seconds; a round has long been decided


def ranks_of(mask):
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def first(mask):
    return (mask & -mask).bit_length() - 1


class World:
    """One round: who takes part, the channels, the faults, the time."""

    def __init__(self, seed, faults, rules):
        self.random = random.Random(f'{faults} {seed}')  # by text: the same on every machine
        self.rules, self.now, self.events, self.order = rules, 0.0, [], 0
        self.last, self.dead, self.cuts, self.partition, self.signed = {}, 0, {}, None, set()
        self.draw_members()
        self.members = [Member(self, rank) for rank in range(self.size)]
        self.lives = [1] * self.size
        self.draw_faults(faults)
        for rank in range(self.size):
            self.at(self.uniform(0, .1), self.start, rank)

    def uniform(self, low, high):
        return low + (high - low) * self.random.random()

    def below(self, bound):
        return int(self.random.random() * bound)

    def sample(self, bound, count):
        ranks = list(range(bound))
        for i in range(count):
            j = i + self.below(bound - i)
            ranks[i], ranks[j] = ranks[j], ranks[i]
        return ranks[:count]

    def draw_members(self):
        n = self.size = (2, 3, 4, 5, 6, 8)[self.below(6)]
        self.all = (1 << n) - 1
        least = max(1, n // 2)
        self.reachable = sum(1 << rank for rank in self.sample(n, least + self.below(n - least + 1)))
        auxiliary = sum(1 << rank for rank in ranks_of(self.reachable) if n > 2 and self.random.random() < .15)
        if auxiliary.bit_count() > n - 2:
            auxiliary = 0
        self.voters = self.all & ~auxiliary
        voters = self.voters.bit_count()
        # current peers that the group lacks; the group began because its own are more than half of all
        self.elsewhere = self.below(voters) if self.random.random() < .5 else 0
        self.segments = list(ranks_of(self.reachable))  # owned by these in view 0
        self.first_round = self.random.random() < .5
        self.previous = [1 << rank for rank in range(n)]
        self.work = [0] * n  # units as bits: a few of each sender's are also another one's
        if not self.first_round:
            groups = collections.defaultdict(int)
            for rank in ranks_of(self.voters):
                groups[self.below(max(2, n // 2))] |= 1 << rank
            for group in groups.values():
                for rank in ranks_of(group):
                    self.previous[rank] = group
        for rank in ranks_of(self.voters):
            leader = first(self.previous[rank])  # who committed together names the same
            if leader == rank:
                self.work[rank] = 0b11 << (2 * rank) if self.random.random() < .8 else 0b111 << (2 * rank)
            else:
                self.work[rank] = self.work[leader]
        self.weight = [1 + self.below(5) if self.first_round else self.work[rank].bit_count() for rank in range(n)]

    def draw_faults(self, faults):
        if faults in ('crash', 'restart'):
            for victim in self.sample(self.size, min(self.size - 1, self.below(4))):
                when = self.uniform(0, 1.6)
                self.at(when, self.die, victim)
                if faults == 'restart':
                    self.at(when + self.uniform(.05, .8), self.live_again, victim)
        if faults in ('suspicion', 'restart'):
            for _ in range(1 + self.below(8)):
                who, whom = self.sample(self.size, 2)
                when = self.uniform(0, 1.5)
                self.at(when, self.suspect, who, whom)
                self.at(when + self.uniform(.05, 2), self.trust, who, whom)
        if faults == 'partition' or (faults == 'restart' and self.random.random() < .5):
            side = sum(1 << rank for rank in self.sample(self.size, 1 + self.below(self.size - 1)))
            begin = self.uniform(0, 1.2)
            end = begin + self.uniform(.2, 3)
            self.partition = (begin, end, side)
            for a in range(self.size):
                for b in range(self.size):
                    if (side >> a & 1) != (side >> b & 1):
                        self.at(begin + self.uniform(.1, .5), self.suspect, a, b)
                        self.at(end + self.uniform(0, .2), self.trust, a, b)
        if self.random.random() < .2:
            self.at(self.uniform(0, 1), self.lie, self.below(self.size))

    # time and channels

    def at(self, when, what, *arguments):
        self.order += 1
        heapq.heappush(self.events, (when, self.order, what, arguments))

    def run(self):
        while self.events and self.now <= END:
            self.now, _, what, arguments = heapq.heappop(self.events)
            what(*arguments)

    def linked(self, rank):
        """Between two clients nobody can dial."""
        return (self.all if self.reachable >> rank & 1 else self.reachable) & ~(1 << rank)

    def send(self, sender, to, message):
        if self.dead >> sender & 1:
            return
        life = self.lives[sender]
        if sender == to:
            return self.at(self.now, self.deliver, sender, life, to, message)
        assert self.linked(sender) >> to & 1
        when = self.now + .005 - math.log(1 - self.random.random()) / 20
        if self.partition:
            begin, end, side = self.partition
            if begin <= self.now < end and (side >> sender & 1) != (side >> to & 1):
                when = end + self.uniform(0, .2)
        channel = (sender, to, message[0] in ('part', 'result'))  # bulk and control are each in order
        when = self.last[channel] = max(when, self.last.get(channel, 0) + 1e-6)
        self.at(when, self.deliver, sender, life, to, message)

    def deliver(self, sender, life, to, message):
        if self.dead >> to & 1 or self.now > self.cuts.get((sender, life, to), END):
            return
        self.members[to].receive(sender, message)

    # faults

    def start(self, rank):
        if not self.dead >> rank & 1 and not self.members[rank].out:
            self.members[rank].start()

    def die(self, rank):
        self.dead |= 1 << rank
        for other in range(self.size):
            until = self.now if self.random.random() < .5 else self.now - math.log(1 - self.random.random()) / 30
            self.cuts[rank, self.lives[rank], other] = until  # each channel keeps a prefix of what was sent
            if other != rank:
                self.at(self.now + self.uniform(.01, .6), self.suspect, other, rank)

    def live_again(self, rank):
        """The same key, with nothing in memory."""
        self.dead &= ~(1 << rank)
        self.lives[rank] += 1
        self.members[rank] = Member(self, rank)
        if 'incarnations' in self.rules:
            self.members[rank].out = True
        else:
            self.at(self.now, self.start, rank)
        for other in range(self.size):
            if other != rank:
                self.at(self.now + self.uniform(.6, 1), self.trust, other, rank)

    def suspect(self, who, whom):
        if not self.dead >> who & 1:
            self.members[who].set_suspected(self.members[who].doubted | 1 << whom)

    def trust(self, who, whom):
        """The line is back; its hello says whether the same life is behind it."""
        if self.dead >> who & 1 or self.dead >> whom & 1:
            return
        if self.members[whom].out:
            self.members[who].departed |= 1 << whom
        self.members[who].set_suspected(self.members[who].doubted & ~(1 << whom))

    def lie(self, liar):
        """Says that a round of its own invention was committed; it can sign for itself only."""
        manifest = tuple((0, segment, (self.voters,) * CHUNKS) for segment in self.segments)
        holds = tuple((rank, (rank == liar, rank, 1, manifest)) for rank in ranks_of(self.voters))
        for to in ranks_of(self.linked(liar)):
            if self.random.random() < .5:
                self.send(liar, to, ('commit', 1, (1, manifest, holds)))

    # what every member knows

    def coordinator(self, view):
        return self.segments[view % len(self.segments)]

    def is_quorum(self, mask):
        mask &= self.voters
        if 'quorum' not in self.rules:
            return mask != 0
        electorate = self.voters.bit_count() + (self.elsewhere if 'electorate' in self.rules else 0)
        return 2 * mask.bit_count() > electorate

    def sign(self, rank, view, manifest):
        seal = (True, rank, view, manifest)
        self.signed.add(seal)
        return seal

    def proves(self, proof):
        view, manifest, holds = proof
        if 'seals' not in self.rules:
            return True
        proven = 0
        for rank, seal in holds:
            if seal == (True, rank, view, manifest) and seal in self.signed:
                proven |= 1 << rank
        return self.is_quorum(proven)


class Reduction:
    """One owner's segment in one view: whose parts are in which chunk. A chunk is closed once and for good."""

    def __init__(self, world, owner):
        self.world, self.owner = world, owner
        self.here, self.chosen = [0] * CHUNKS, [None] * CHUNKS
        self.counted = self.left_out = 0

    def voices(self, chunk, suspected):
        """At most one of each previous group; our own only when those before us cannot send theirs."""
        world, own = self.world, 1 << self.owner
        usable = self.here[chunk]
        before_us = world.previous[self.owner] & (own - 1)
        if world.voters & own and not before_us & ~suspected & ~self.left_out:
            usable |= own
        usable &= ~self.left_out
        if 'one_voice' not in world.rules:
            return usable
        chosen = 0
        for rank in ranks_of(usable):
            if not chosen & world.previous[rank]:
                chosen |= 1 << rank
        return chosen

    def awaited(self, suspected):
        """Of the previous groups without a part, the members that are to send, for the first open chunk."""
        for chunk in range(CHUNKS):
            if self.chosen[chunk] is not None:
                continue
            voices, awaited, rest = self.voices(chunk, suspected), 0, self.world.voters
            while rest:
                group = self.world.previous[first(rest)]
                rest &= ~group
                able = group & ~suspected & ~self.left_out
                if not voices & group and able:
                    awaited |= 1 << first(able)
            return awaited
        return 0

    def leave_out_overlapping(self, voices):
        """Of two that name one unit who is counted already goes first, then in a first round the heavier."""
        if 'unique_units' not in self.world.rules:
            return False
        world, accepted, any_left_out = self.world, self.counted, False
        fresh = list(ranks_of(voices & ~self.counted))
        if world.first_round:
            fresh.sort(key=lambda rank: -world.weight[rank])
        for rank in fresh:
            others = accepted & ~world.previous[rank]
            if any(world.work[rank] & world.work[other] for other in ranks_of(others)):
                self.left_out |= world.previous[rank]
                any_left_out = True
            else:
                accepted |= 1 << rank
        return any_left_out

    def close(self, suspected):
        """True when the last chunk is closed."""
        for chunk in range(CHUNKS):
            while self.chosen[chunk] is None:
                voices, rest, ready = self.voices(chunk, suspected), self.world.voters, True
                while rest:
                    group = self.world.previous[first(rest)]
                    rest &= ~group
                    if not voices & group and group & ~suspected & ~self.left_out:
                        ready = False
                if not ready or not (voices or self.left_out & ~suspected):
                    return False
                if not self.leave_out_overlapping(voices):
                    self.chosen[chunk] = voices
                    self.counted |= voices
        return True


class Member:
    """One peer's half of the round."""

    def __init__(self, world, rank):
        self.world, self.rank, self.bit = world, rank, 1 << rank
        self.out = self.started = False
        self.doubted = self.departed = self.suspected = 0
        self.outcome, self.proof = 'running', None
        self.view, self.acting, self.plan_view = 0, True, 0  # promised; has its plan; of that plan
        self.plan = [(owner, None) for owner in world.segments]
        self.sources = list(world.segments)
        self.scattered = -1
        self.held = [[] for _ in world.segments]
        self.accepted = None  # (view, manifest)
        self.parts = collections.defaultdict(lambda: [0] * CHUNKS)  # (view, index): they may come before the view
        self.reductions, self.asked, self.stand_ins = {}, collections.defaultdict(int), []
        self.fetched, self.waiting = set(), []
        self.holds, self.tells, self.asking = {}, {}, False
        self.asked_without_voters = self.repeated = False

    def start(self):
        self.started = True
        self.settle()

    def set_suspected(self, doubted):
        self.doubted = doubted
        self.suspected = (doubted | self.departed) & ~self.bit
        self.settle()

    def send(self, mask, message):
        for to in self.world.sample(self.world.size, self.world.size):
            if mask >> to & 1 and self.world.linked(self.rank) >> to & 1:
                self.world.send(self.rank, to, message)

    def receive(self, sender, message):
        if self.out:
            return self.world.send(self.rank, sender, ('gone',)) if message[0] != 'gone' else None
        getattr(self, 'on_' + message[0])(sender, *message[1:])
        self.settle()

    def settle(self):
        if not self.started or self.out:
            return
        while self.exchange() or self.act():
            pass

    # the data

    def votes(self, rank=None):
        return self.world.voters >> (self.rank if rank is None else rank) & 1

    def exchange(self):
        if self.outcome != 'running' or not self.acting:
            return False
        if self.scattered != self.plan_view:
            self.scatter()
        for index, (owner, adopted) in enumerate(self.plan):
            if owner == self.rank and adopted is None and self.reduce(index):
                return True
        return False

    def scatter(self):
        """As a new view begins: parts by the first of each previous group, fetches of what was adopted."""
        view = self.scattered = self.plan_view
        for index, (owner, adopted) in enumerate(self.plan):
            if adopted is None:
                if self.votes() and first(self.world.previous[self.rank]) == self.rank and owner != self.rank:
                    self.send_part(owner, view, index)
            elif adopted not in self.held[index] and (self.votes() or owner == self.rank):
                self.send(1 << self.sources[index], ('fetch', adopted))
        early, self.stand_ins = self.stand_ins, []
        for asker, asked_view, index in early:
            self.on_stand_in(asker, asked_view, index)

    def send_part(self, owner, view, index):
        for chunk in range(CHUNKS):
            self.send(1 << owner, ('part', view, index, chunk))

    def reduce(self, index):
        """True when the segment became whole just now."""
        view = self.plan_view
        if (view, index) not in self.reductions:
            self.reductions[view, index] = Reduction(self.world, self.rank)
        reduction = self.reductions[view, index]
        if reduction.chosen[-1] is not None:
            return False
        reduction.here = self.parts[view, index]
        if not reduction.close(self.suspected):
            self.ask_stand_ins(reduction, view, index)
            return False
        result = (view, self.world.segments[index], tuple(reduction.chosen))
        self.send(self.world.voters, ('result', result))
        self.have(result)
        return True

    def ask_stand_ins(self, reduction, view, index):
        for rank in ranks_of(reduction.awaited(self.suspected) & ~self.bit & ~self.asked[view, index]):
            if first(self.world.previous[rank]) != rank:  # else it sends unasked
                self.asked[view, index] |= 1 << rank
                if 'stand_ins' in self.world.rules:
                    self.send(1 << rank, ('stand_in', view, index))
                else:  # as an owner would that knows of voices only
                    reduction.left_out |= 1 << rank
                    self.world.at(self.world.now, self.settle)

    def have(self, result):
        index = self.world.segments.index(result[1])
        if result in self.held[index]:
            return
        self.held[index].append(result)
        for asker in [asker for asker, wanted in self.waiting if wanted == result]:
            self.world.send(self.rank, asker, ('result', result))

    def on_part(self, sender, view, index, chunk):
        self.parts[view, index][chunk] |= 1 << sender

    def on_result(self, sender, result):
        self.have(result)

    def on_fetch(self, sender, result):
        if result in self.held[self.world.segments.index(result[1])]:
            self.world.send(self.rank, sender, ('result', result))
        else:
            self.waiting.append((sender, result))

    def on_stand_in(self, sender, view, index):
        if view > self.plan_view or not self.acting:
            self.stand_ins.append((sender, view, index))
        elif self.outcome == 'running' and view == self.plan_view and self.plan[index] == (sender, None):
            self.send_part(sender, view, index)

    def on_gone(self, sender):
        self.departed |= 1 << sender
        self.set_suspected(self.doubted)

    # the commit

    def act(self):
        coordinator = self.world.coordinator(self.view)
        if self.outcome == 'failed':
            return False
        if self.outcome == 'committed':
            if self.suspected >> coordinator & 1 and not self.repeated:
                self.repeated = True
                self.send(self.world.all, ('commit', self.view, self.proof))
            return False
        if self.acting and self.try_hold():
            return True
        if coordinator == self.rank:
            return self.coordinate()
        if not self.suspected >> coordinator & 1:
            return False
        successors = self.world.reachable & ~self.suspected
        if not successors:
            self.outcome = 'failed'
            return False
        return first(successors) == self.rank and self.open_view()

    def whole(self):
        manifest = []
        for index, (_, adopted) in enumerate(self.plan):
            fits = [r for r in self.held[index] if (r == adopted if adopted else r[0] == self.plan_view)]
            if not fits:
                return None
            manifest.append(fits[0])
        return tuple(manifest)

    def try_hold(self):
        if not self.votes() or (self.accepted and self.accepted[0] >= self.view):
            return False
        manifest = self.whole()
        if manifest is None:
            return False
        self.accepted = (self.view, manifest)
        hold = ('hold', self.view, manifest, self.world.sign(self.rank, self.view, manifest))
        coordinator = self.world.coordinator(self.view)
        if coordinator == self.rank:
            self.holds[self.rank] = hold[2:]
        else:
            self.send(1 << coordinator, hold)
        return True

    def coordinate(self):
        world = self.world
        if not self.acting:
            if not self.asking:
                return self.open_view()
            told = sum(1 << rank for rank in self.tells)
            return not world.all & ~told & ~self.suspected and self.decide()
        live_voters = world.voters & ~self.suspected
        held = sum(1 << rank for rank in self.holds)
        if held and not live_voters & ~held:
            if not world.is_quorum(held):
                return self.open_view()
            return self.commit_holds()
        doubtful = [owner for owner, _ in self.plan] + self.sources
        if any(self.suspected >> rank & 1 for rank in doubtful):
            return self.open_view()
        if not live_voters and not self.asked_without_voters:
            self.asked_without_voters = True
            return self.open_view()
        return False

    def commit_holds(self):
        manifests = {manifest for manifest, _ in self.holds.values()}
        assert len(manifests) == 1, 'owners are honest here'
        manifest = manifests.pop()
        if not all(all(chunks) for _, _, chunks in manifest):  # values of nobody
            self.outcome = 'failed'
            self.send(self.world.all, ('give_up', self.view, 'no weight'))
            return False
        holds = tuple((rank, self.holds[rank][1]) for rank in sorted(self.holds))
        self.finish(self.view, (self.view, manifest, holds))
        self.send(self.world.all, ('commit', self.view, self.proof))
        return True

    def open_view(self):
        view = self.view + 1
        while self.world.coordinator(view) != self.rank:
            view += 1
        if view > VIEWS_MAX:
            self.outcome = 'failed'
            return False
        self.promise(view)
        self.asking = True
        self.tells[self.rank] = self.tell()
        self.send(self.world.all, ('ask', view))
        return True

    def promise(self, view):
        if view > self.view:
            self.view, self.acting, self.asking = view, False, False
            self.tells, self.holds = {}, {}

    def tell(self):
        newest = [max(held, key=lambda result: result[0]) if held else None for held in self.held]
        return (self.accepted, newest, self.proof)

    def adopt(self, view, plan, sources):
        self.promise(view)
        self.acting, self.asking, self.plan_view = True, False, view
        self.plan, self.sources = plan, sources

    def finish(self, view, proof):
        self.outcome, self.proof = 'committed', proof
        self.promise(view)

    def is_free(self):
        """To go on with another group of the epoch: not if others may have committed by its word, unknown to it."""
        return self.outcome == 'failed' and not (self.accepted and 'undecided' in self.world.rules)

    def decide(self):
        world = self.world
        self.asking = False
        for rank in sorted(self.tells):
            proof = self.tells[rank][2]
            if proof and world.proves(proof):
                self.finish(self.view, proof)
                self.send(world.all, ('commit', self.view, proof))
                return True
        # whoever cannot serve what it told lends its promise to no quorum either
        tellers = sum(1 << rank for rank in self.tells) & ~self.suspected
        if not world.is_quorum(tellers):
            self.outcome = 'failed'
            self.send(world.all, ('give_up', self.view, 'no quorum'))
            return False
        plan = self.choose(tellers)
        sources = [owner for owner, _ in plan]
        plan = [(owner if world.reachable >> owner & 1 else self.rank, adopted) for owner, adopted in plan]
        self.send(world.all, ('view', self.view, plan))
        self.adopt(self.view, plan, sources)
        return True

    def choose(self, tellers):
        """What may have been committed is kept; else what somebody holds; else a new owner."""
        world = self.world
        servers = list(ranks_of(tellers & world.reachable)) + list(ranks_of(tellers & ~world.reachable))
        accepting = [rank for rank in servers if self.tells[rank][0]]
        if accepting:
            holder = max(accepting, key=lambda rank: self.tells[rank][0][0])
            return [(holder, result) for result in self.tells[holder][0][1]]
        owners, plan = list(ranks_of(world.reachable & ~self.suspected)), []
        for index in range(len(world.segments)):
            held = [(-self.tells[rank][1][index][0], self.tells[rank][1][index], order, rank)
                    for order, rank in enumerate(servers) if self.tells[rank][1][index]]
            if held:
                _, result, _, rank = min(held)
                plan.append((rank, result))
            else:
                plan.append((owners[(index + self.view) % len(owners)], None))
        return plan

    def on_hold(self, sender, view, manifest, seal):
        if view == self.view and self.outcome == 'running' and seal in self.world.signed:
            self.holds.setdefault(sender, (manifest, seal))

    def on_ask(self, sender, view):
        if view < self.view:
            self.send(1 << sender, ('refuse', self.view))
        elif view > self.view or not self.acting:
            self.promise(view)
            self.send(1 << sender, ('tell', view, self.tell()))

    def on_refuse(self, sender, view):
        if self.asking:
            self.promise(view)

    def on_tell(self, sender, view, tell):
        if self.asking and view == self.view:
            self.tells.setdefault(sender, tell)

    def on_view(self, sender, view, plan):
        if self.outcome == 'running' and view >= self.view and not (view == self.plan_view and self.acting):
            self.adopt(view, plan, [owner for owner, _ in plan])

    def on_commit(self, sender, view, proof):
        if self.outcome == 'running' and view >= self.view and self.world.proves(proof):
            self.finish(view, proof)

    def on_give_up(self, sender, view, why):
        if self.outcome != 'running' or view < self.view:
            return
        self.promise(view)
        if why == 'no quorum' and self.world.is_quorum(self.world.all & ~self.suspected & ~(1 << sender)):
            self.departed |= 1 << sender  # it hears too few of us, but we hear enough of each other
            self.set_suspected(self.doubted)
        else:
            self.outcome = 'failed'


def violations(world, faults):
    """What must not be, of a round that is over."""
    results = {member.proof[1] for member in world.members if member.outcome == 'committed'}
    # a second life is no member of the round, unless the rule is left out
    alive = [m for m in world.members if not world.dead >> m.rank & 1 and not m.out and m.votes()]
    found = []
    if len(results) > 1:
        found.append('two results')
    free = sum(member.bit for member in alive if member.is_free())
    if results and 2 * (free.bit_count() + world.elsewhere) > world.voters.bit_count() + world.elsewhere:
        found.append('two groups')
    for manifest in results:
        for _, _, chunks in manifest:
            for senders in chunks:
                spoken_for = counted = 0
                for rank in ranks_of(senders):
                    if spoken_for & world.previous[rank]:
                        found.append('a voice twice')
                    elif counted & world.work[rank]:
                        found.append('a unit twice')
                    spoken_for |= world.previous[rank]
                    counted |= world.work[rank]
    if faults == 'crash':
        living = sum(member.bit for member in alive)
        if world.is_quorum(living) and world.reachable & ~world.dead and any(m.outcome != 'committed' for m in alive):
            of_nobody = any(m.outcome == 'failed' and m.accepted and not all(all(r[2]) for r in m.accepted[1])
                            for m in world.members)
            if not of_nobody:
                found.append('a live quorum did not commit')
        for manifest in results:
            for group in {world.previous[rank] for rank in ranks_of(living)}:
                if not overlaps_another(world, group) and any(not s & group for _, _, c in manifest for s in c):
                    found.append('a group left out')
    return found


def overlaps_another(world, group):
    mine = world.work[first(group)]
    return any(mine & world.work[rank] for rank in ranks_of(world.voters & ~group))


def play(faults, seed, rules):
    world = World(seed, faults, rules)
    world.run()
    return world, violations(world, faults)


def play_many(faults, runs, rules):
    tally, failed = collections.Counter(), []
    for seed in range(1, runs + 1):
        world, found = play(faults, seed, rules)
        tally['runs'] += 1
        tally['committed'] += any(member.outcome == 'committed' for member in world.members)
        tally['views'] += max(member.view for member in world.members)
        tally.update(set(found))
        failed += [(seed, what) for what in sorted(set(found))]
    return tally, failed


def check_rules(runs):
    """With every rule nothing is found, and most rounds commit."""
    failures = 0
    for faults in FAULTS:
        tally, failed = play_many(faults, runs, set(RULES))
        print(f'{faults}: {dict(tally)}', flush=True)
        for seed, what in failed[:10]:
            print(f'FAILED: {what}: commit_model.py --faults {faults} --seed {seed}')
        failures += len(failed)
        if tally['committed'] < tally['runs'] / 2:
            print(f'FAILED: {faults}: most rounds failed, so this is a test of failing')
            failures += 1
    return failures


def check_without(rule, runs):
    """Without one rule something is found: else the model could not see what that rule prevents."""
    faults, expected = RULES[rule]
    tally, _ = play_many(faults, runs, set(RULES) - {rule})
    print(f'without {rule}, {faults}: {dict(tally)}', flush=True)
    if tally[expected] > 0:
        return 0
    print(f'FAILED: without {rule} nobody found "{expected}"')
    return 1


def main():
    parser = argparse.ArgumentParser(description='A model of the commit; see the head of this file.')
    parser.add_argument('--runs', type=int, default=0, help='in all, a quarter for each fault')
    parser.add_argument('--faults', choices=FAULTS)
    parser.add_argument('--seed', type=int)
    parser.add_argument('--without', choices=RULES)
    wanted = parser.parse_args()
    rules = set(RULES) - {wanted.without}
    if wanted.seed is not None:
        world, found = play(wanted.faults or 'crash', wanted.seed, rules)
        for member in world.members:
            print(member.rank, member.outcome, 'view', member.view, member.proof and member.proof[1])
        print(found or 'nothing is wrong')
        return 1 if found else 0
    if wanted.without:
        return check_without(wanted.without, wanted.runs or 6000)
    if wanted.runs:
        return 1 if check_rules(wanted.runs // len(FAULTS)) else 0
    return 1 if check_rules(600) + sum(check_without(rule, 600) for rule in RULES) else 0


if __name__ == '__main__':
    sys.exit(main())
