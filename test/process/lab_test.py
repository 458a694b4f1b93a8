#!/usr/bin/env python3
"""How a peer is reached from behind a home router, and gets out of a network that lets only the web out: real programs,
real routers and proxies in network namespaces.

Usage: lab_test.py PROBE COORDINATOR [PEER]; CASE=NAME… in the environment chooses. Prints a line per case and a last line
that counts. Where no network namespaces can be made all is skipped, with the reason.

Each case has a site of its own, so they run side by side. Public are the coordinator, 11.99.0.1:4600, and one peer beside
it: fewer than three can judge, so verdicts are weak. The run `six` has a coordinator that is reached by IPv6 only. When these cases are over, the run `far` begins: its coordinator at
11.99.0.2 and one trainer at a site that is open to all, both with WebSockets on port 443.
"""
import concurrent.futures, json, os, subprocess, sys, tempfile, time, traceback

import laboratory, programs
from laboratory import LAB, lab
from programs import wait

PROBE, COORDINATOR, *PEER = [os.path.abspath(program) for program in sys.argv[1:]]
RUN, HOST = 'lab', '11.99.0.1:4600'
SIX, SIX_HOST = 'six', '[2a10:99::1]:4800'
FAR, FAR_HOST, FAR_WEB, OPEN_SITE = 'far', '11.99.0.2:4700', 'wss://host.far:443/collab/v1', 'h'
NUMERIC_WEB = 'wss://11.99.0.2:443/collab/v1'


class Place:
    """A site behind its own router, and what runs there."""

    def __init__(self, site, running):
        self.site, self.running, self.started = site, running, []
        self.outside = f'11.99.0.{11 + SITES.index(site)}'
        self.gateway = f'10.77.{1 + SITES.index(site)}.1'

    def start(self, name, where, command):
        program = self.running.start(f'{self.site}-{name}', [LAB / 'nat_lab.sh', 'exec', where, *command], subprocess.PIPE)
        self.started.append(program)
        return program

    def clear(self):
        """As new for the next case."""
        for program in self.started:
            program.process.kill()
            program.process.wait()
        lab('port_map_gateway.sh', 'off', self.site)
        lab('nat_lab.sh', 'upstream', self.site, 'open')
        lab('nat_lab.sh', 'egress', self.site, 'all')

    def probe(self, *words, where=None, home='home', listen='[::]:4600', run=f'{RUN}@{HOST}'):
        """A peer that listens at 4600, as most do."""
        folder = self.running.folder / f'{self.site}-{home}'
        folder.mkdir(exist_ok=True, mode=0o700)
        began = time.monotonic()
        peer = self.start('peer', where or self.site, [PROBE, run, listen, folder, *words])
        return Probe(peer, folder, began)

    def trainer(self, name, *words, environment=()):
        """A peer that trains in the run `far`."""
        return self.start(name, self.site, [
            'env', *environment, *PEER, '--run-id', FAR, '--home', self.home(name), '--no-lan', '--no-port-map',
            *programs.LIGHT, '--json', *words])

    def home(self, name):
        return self.running.folder / f'{self.site}-{name}-home'

    def proxy(self, *words):
        """The only way out of this site; returns what runs, and where."""
        lab('nat_lab.sh', 'egress', self.site, 'none')
        at = f'{self.gateway}:3128'
        names = ['--name', f'host.far={FAR_HOST.split(":")[0]}']
        return self.start('proxy', f'router-{self.site}', [LAB / 'http_proxy.py', at, *names, *words]).wait_for('ready'), at

    def router(self, *words):
        return lab('port_map_gateway.sh', words[0], self.site, *words[1:])

    def scripted(self, *words):
        protocol, mode = words
        gateway = self.start('gateway', f'router-{self.site}', [sys.executable, LAB / 'scripted_gateway.py', protocol,
                                                                self.gateway, mode])
        return gateway.wait_for('ready')

    def mapped(self):
        """What the router forwards: the rules of miniupnpd."""
        rules = lab('nat_lab.sh', 'exec', f'router-{self.site}', 'nft', 'list', 'chain', 'inet', 'fw', 'prerouting_miniupnpd')
        return [line.strip() for line in rules.splitlines() if 'dnat' in line]


class Probe:
    def __init__(self, program, home, began):
        self.program, self.home, self.began = program, home, began
        self.id = program.wait_for('joined', 15).events('joined')[0]['id']

    def now(self):
        seen = self.program.events('reach')
        return seen[-1] if seen else {}

    def until(self, what, seconds, condition):
        wait(f'{what}; last {self.now()}, {self.program.log()}', seconds, lambda: condition(self.now()) or self.program.ended())
        assert not self.program.ended(), self.program.log()
        return self.now()

    def becomes(self, state, seconds=12):
        try:
            return self.until(f'state {state}', seconds, lambda now: now.get('state') == state)
        except AssertionError:
            raise AssertionError(f'{state}, wanted, is {self.now()}: {self.program.log()}') from None

    def say(self, words):
        self.program.process.stdin.write(words + '\n')
        self.program.process.stdin.flush()

    def call(self, peer):
        """A question to another peer, by its id: how it went."""
        before = self.program.count('called')
        self.say(f'call {peer.id}')
        wait(f'an answer of {peer.id}: {self.program.log()}', 15, lambda: self.program.count('called') > before)
        return self.program.events('called')[-1]

    def dial(self, at):
        self.say(f'dial {at}')
        met = lambda: [event['peer'] for event in self.program.events('dialled') if event['at'] == at]
        wait(f'an answer from {at}', 10, met)
        return met()[-1]

    def leave(self):
        """As planned; a mapping goes within its second, a dial-back that others wait for may take five."""
        self.say('leave')
        assert self.program.process.wait(10) == 0, self.program.log()
        self.program.reader.join()
        return self.program.events('left')[-1]


def others_dial(peer, at):
    """The address is in the directory, and who dials it meets this peer."""
    wait('the mapped address is published', 10, lambda: PUBLIC.now()['published'].get(peer.id) == [at])
    met = PUBLIC.dial(at)
    assert met == peer.id, met


def maps(place, protocols, by):
    """Maps at once, is believed after a dial-back, renewed, and removed at the end."""
    place.router('on', protocols)
    peer = place.probe('--lease', '10')
    now = peer.becomes('mapped')
    assert now['by'] in by and now['outside'] == f'{place.outside}:4600', now
    assert now['addresses'] == [f'{place.outside}:4600'], now
    others_dial(peer, now['outside'])
    assert place.mapped()
    return peer


def natpmp(place):
    peer = maps(place, 'natpmp', ['NAT-PMP'])
    time.sleep(13)  # longer than the lease
    assert peer.now()['state'] == 'mapped' and place.mapped(), peer.program.log()
    peer.leave()
    assert not place.mapped(), place.mapped()


def upnp(place):
    peer = maps(place, 'upnp', ['UPnP'])
    time.sleep(13)
    assert peer.now()['state'] == 'mapped' and place.mapped(), peer.program.log()
    peer.leave()
    assert not place.mapped(), place.mapped()


def web_too(place):
    """The port for WebSockets is mapped beside the other one, believed after a dial-back of its own, and removed with it."""
    place.router('on', 'both')
    peer = place.probe('--wss', '4443')
    web = f'wss://{place.outside}:4443/collab/v1'
    peer.until('both are dialled', 25, lambda now: now.get('addresses') == [f'{place.outside}:4600', web])
    assert peer.now()['state'] == 'mapped', peer.now()
    assert len(place.mapped()) == 2, place.mapped()
    assert PUBLIC.dial(web) == peer.id
    peer.leave()
    assert not place.mapped(), place.mapped()


def restart(place):
    """A router that restarts has forgotten everything; one that comes back with another protocol is asked by that."""
    place.router('on', 'natpmp')
    peer = place.probe('--look', '1')
    peer.becomes('mapped')
    time.sleep(5)  # longer than the slack in a router's clock
    place.router('on', 'natpmp')
    assert not place.mapped()
    wait(f'mapped again: {peer.program.log()}', 6, place.mapped)
    place.router('on', 'upnp')
    peer.until('mapped by UPnP', 20, lambda now: now.get('by') == 'UPnP' and now['state'] == 'mapped')
    assert place.mapped()
    peer.leave()
    assert not place.mapped()


def both_and_taken(place):
    """A second machine of the same network, with the same port: it gets another one, by either protocol."""
    first = maps(place, 'both', ['NAT-PMP', 'UPnP'])
    second = place.probe('--lease', '60', where=f'{place.site}2', home='home2')
    now = second.becomes('mapped')
    assert now['outside'].startswith(f'{place.outside}:') and now['outside'] != first.now()['outside'], now
    others_dial(second, now['outside'])
    second.leave()
    place.router('on', 'upnp')
    other = place.probe('--lease', '60', where=f'{place.site}2', home='home3')
    assert other.becomes('mapped')['by'] == 'UPnP'
    other.leave()
    first.leave()


def taken_by_upnp(place):
    place.router('on', 'upnp')
    first = place.probe('--lease', '60')
    first.becomes('mapped')
    second = place.probe('--lease', '60', where=f'{place.site}2', home='home2')
    now = second.becomes('mapped')
    assert now['outside'] != first.now()['outside'] and int(now['outside'].split(':')[1]) >= 1024, now
    others_dial(second, now['outside'])
    second.leave()
    assert len(place.mapped()) == 1, place.mapped()
    first.leave()
    assert not place.mapped(), place.mapped()


def silent(place):
    """Nobody waits for a router that swallows questions, and no turn of the loop does."""
    place.router('silent')
    peer = place.probe()
    joined = peer.program.events('joined')[0]['ms']
    assert joined < 2000, joined
    now = peer.until('the router is given up', 11, lambda now: now.get('phase') == 'refused')
    assert 'NAT-PMP is not answered' in now['trials'] and 'UPnP' in now['trials'], now
    now = peer.becomes('relayed')
    assert 'switch on UPnP or NAT-PMP in the router, or forward TCP port 4600' in now['remedy'], now
    left = peer.leave()
    assert left['blocked_ms'] < 500, left


def no_protocol(place):
    peer = place.probe()
    now = peer.until('no protocol', 6, lambda now: now.get('phase') == 'refused')
    assert now['trials'] == 'NAT-PMP is not spoken by the router, and UPnP is spoken by nobody in this network', now
    peer.leave()


def stops_in_time(place):
    """While discovery blocks a thread of the library's, leaving does not wait for it."""
    place.router('silent')
    peer = place.probe()
    peer.until('asking', 2, lambda now: now.get('phase') == 'asking')
    began = time.monotonic()
    peer.leave()
    assert time.monotonic() - began < 1.5, time.monotonic() - began
    off = place.probe('--no-port-map')
    assert off.until('a verdict', 12, lambda now: now.get('state') == 'relayed')['phase'] == 'off'
    off.leave()


def leads_nowhere(place):
    """The router maps, and the provider drops what comes: not believed, and told."""
    lab('nat_lab.sh', 'upstream', place.site, 'closed')
    place.router('on', 'both')
    peer = place.probe()
    peer.until('mapped', 6, lambda now: now.get('phase') == 'mapped')
    now = peer.becomes('relayed', 20)
    assert not now['addresses'] and place.mapped(), now
    assert 'mapped port 4600, yet nobody gets through' in now['why'], now
    assert PUBLIC.now()['published'].get(peer.id) in (None, []), PUBLIC.now()
    wait(f'its owner is told: {peer.program.log()}', 30, lambda: 'node.nobody_dials_us' in peer.program.log_file.read_text())
    told = next(line for line in peer.program.log_file.read_text().splitlines() if 'node.nobody_dials_us' in line)
    assert 'yet nobody gets through' in told and 'firewall, or ask the provider' in told, told
    peer.leave()
    assert not place.mapped()


def second_nat(place):
    place.scripted('natpmp', 'second-nat')
    peer = place.probe()
    peer.until('mapped', 6, lambda now: now.get('phase') == 'mapped')
    now = peer.becomes('relayed', 20)
    assert '100.64.0.7 is private: a second NAT is in front of your router' in now['why'], now
    assert 'bridge mode' in now['remedy'], now
    peer.leave()


def nonsense(place):
    """Answers that no router gives: eight kinds, one each time that the peer starts."""
    router = place.scripted('natpmp', 'nonsense')
    for count in range(8):
        peer = place.probe()
        now = peer.until('refused', 6, lambda now: now.get('phase') in ('mapped', 'refused'))
        assert now['phase'] == 'refused', (count, now)
        peer.leave()
    assert not router.ended(), router.log()


def for_good(place):
    """A mapping without an end is noted; a peer that is killed leaves both, and the next one takes both away."""
    router = place.scripted('upnp', 'permanent')
    ports = lambda: router.events('table')[-1]['ports'] if router.events('table') else []
    peer = place.probe()
    now = peer.until('mapped', 8, lambda now: now.get('phase') == 'mapped')
    assert now['lease_s'] == 0 and ports() == ['4600'], (now, ports())
    assert (peer.home / 'port_mapping').read_text() == 'collab-port-mapping-v1 4600 4600\n'
    peer.program.process.kill()
    peer.program.process.wait()
    again = place.probe(listen='[::]:4610')
    again.until('mapped', 8, lambda now: now.get('phase') == 'mapped')
    assert ports() == ['4610'], ports()
    again.leave()
    assert ports() == [] and not (peer.home / 'port_mapping').exists(), ports()


def examined(place, *words):
    """What `collab-peer doctor` says in its rows about being dialled."""
    home = place.running.folder / f'{place.site}-doctor'
    done = subprocess.run([str(word) for word in [LAB / 'nat_lab.sh', 'exec', place.site, *PEER, 'doctor', '--run-id', RUN,
                                                  '--home', home, '--no-lan', '--device', 'cpu', '--json', *words]],
                          capture_output=True, text=True, timeout=45, cwd=place.running.folder)
    checks = {check['name']: check for check in json.loads(done.stdout)['checks']}
    return checks['port mapping'], checks.get('dial-back'), checks.get('translation')


def doctor(place):
    place.router('on', 'natpmp')
    mapping, dialled, _ = examined(place, '--bootstrap', HOST)
    assert mapping['result'] == 'ok', mapping
    assert mapping['measured'].startswith(f'mapped by NAT-PMP: {place.outside}:4600 leads to port 4600 here, for 3600 s'), mapping
    assert dialled['result'] == 'ok' and f'others dial {place.outside}:4600' in dialled['measured'], dialled
    assert not place.mapped()  # taken back
    place.router('off')
    mapping, dialled, _ = examined(place, '--bootstrap', HOST)
    assert mapping['result'] == 'warn' and 'maps no port: NAT-PMP is not spoken by the router' in mapping['measured'], mapping
    assert 'forward TCP port 4600 to this machine' in mapping['remedy'], mapping
    assert dialled['result'] == 'warn' and 'nobody can dial this machine' in dialled['measured'], dialled
    assert 'reached by relay ' in dialled['measured'], dialled
    translation = examined(place, '--bootstrap', HOST, '--bootstrap', '11.99.0.1:4601')[2]
    assert translation['result'] == 'ok' and translation['measured'].startswith('independent: '), translation


def doctor_sees_second_nat(place):
    place.scripted('natpmp', 'second-nat')
    mapping, dialled, _ = examined(place, '--bootstrap', HOST)
    assert mapping['result'] == dialled['result'] == 'warn', (mapping, dialled)
    assert 'a second NAT is in front of your router' in mapping['measured'] and 'bridge mode' in mapping['remedy'], mapping


def committed(trainer):
    """Epochs with somebody else: number to hashes."""
    return {e['epoch']: (e['parameters'], e['ledger']) for e in trainer.events('epoch')
            if e['result'] == 'committed' and e['peers'] > 1}


def trains(trainer, epochs, seconds):
    """It commits so many epochs more, each with the same bytes as the one who is open to all."""
    goal = len(committed(trainer)) + epochs
    wait(f'{epochs} epochs: {trainer.log()} {FAR_TRAINER.log()}', seconds,
         lambda: len(committed(trainer)) >= goal or trainer.ended())
    assert not trainer.ended(), trainer.log()
    wait('the other one says so too', 5, lambda: max(committed(trainer)) in committed(FAR_TRAINER))
    theirs, shared = committed(FAR_TRAINER), set(committed(trainer)) & set(committed(FAR_TRAINER))
    assert len(shared) >= epochs and all(committed(trainer)[e] == theirs[e] for e in shared), (shared, theirs)


def goes_by(trainer, path):
    trainer.wait_for('path', 20)
    assert trainer.events('path')[0]['path'] == path, trainer.events('path')


def never_says(secret, place, *programs):
    """Neither on its outputs nor in any file of its home."""
    for program in programs:
        assert secret not in program.log_file.read_text() + '\n'.join(program.lines), program.log()
    for file in place.running.folder.glob(f'{place.site}-*-home/**/*'):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


def by_proxy(place):
    """With a login, to port 443 only, by a name that nobody here can look up; then the proxy dies and comes back."""
    words = ['--ports', '443', '--login', 'lab:geheim']
    proxy, at = place.proxy(*words)
    trainer = place.trainer('trainer', '--proxy', f'lab:geheim@{at}', '--bootstrap', FAR_WEB)
    goes_by(trainer, 'wss through a proxy')
    trains(trainer, 2, 15)
    asked = subprocess.run([*PEER, 'status', '--json', '--run-id', FAR, '--home', place.home('trainer')],
                           capture_output=True, text=True, timeout=10)
    assert asked.returncode == 0, asked
    status = json.loads(asked.stdout)
    own = next(peer for peer in status['peers'] if peer['id'] == trainer.events('started')[0]['id'])
    others = [peer for peer in status['peers'] if peer['reachability'] == 'open']
    assert own['role'] == 'client' and own['reachability'] == 'outbound_only', own
    assert {peer['path'] for peer in others} == {'wss through a proxy'}, others
    asked = {request['to']: request['status'] for request in proxy.events('request')}
    assert asked['host.far:443'] == 200 and set(asked.values()) <= {200, 403}, asked
    told = lambda event: logged(place.home('trainer')).count(event)
    wait('its log says so within the 5 s of a look', 8, lambda: told('"node.way_out"') == 1)
    lost = told('"net.disconnected"')
    proxy.process.kill()
    proxy.process.wait()
    wait(f'it notices: {trainer.log()}', 5, lambda: told('"net.disconnected"') > lost)
    place.proxy(*words)
    trains(trainer, 2, 25)
    trainer.leave()
    assert told('"node.way_out"') == 1, told('"node.way_out"')
    never_says('geheim', place, trainer)


def logged(home):
    return (home / 'logs/peer.jsonl').read_text()


def web_only(place):
    """A router that drops all but port 443. First bare TCP, which comes to nothing, then a WebSocket."""
    lab('nat_lab.sh', 'egress', place.site, 'web')
    trainer = place.trainer('trainer', '--bootstrap', NUMERIC_WEB)
    goes_by(trainer, 'wss')
    trains(trainer, 2, 20)
    trainer.leave()


def by_one_interface(place):
    """By loopback nobody gets out; by the card that leads there it trains."""
    nowhere = place.trainer('nowhere', '--bootstrap', FAR_HOST, '--interface', 'lo', '--patience', '2')
    assert nowhere.process.wait(20) == 3, nowhere.log()
    trainer = place.trainer('trainer', '--bootstrap', FAR_HOST, '--interface', 'eth0')
    trains(trainer, 2, 20)
    trainer.leave()


def doctor_sees_web_only(place):
    lab('nat_lab.sh', 'egress', place.site, 'web')
    found = examined_far(place, '--bootstrap', FAR_HOST, '--bootstrap', NUMERIC_WEB)
    way_out, run = found['way out'], found['run']
    assert way_out['result'] == 'warn' and way_out['measured'].startswith('wss in use: bare TCP leads to nobody'), way_out
    assert run['result'] == 'ok' and NUMERIC_WEB in run['measured'], run


def examined_far(place, *words, code=0):
    """What `collab-peer doctor` says of the run `far`, by row."""
    done = subprocess.run([str(word) for word in [LAB / 'nat_lab.sh', 'exec', place.site, *PEER, 'doctor', '--run-id', FAR,
                                                  '--home', place.home('doctor'), '--no-lan', '--no-port-map', '--device',
                                                  'cpu', '--json', *words]],
                          capture_output=True, text=True, timeout=45, cwd=place.running.folder)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert 'falsch' not in done.stdout + done.stderr, done
    return {check['name']: check for check in json.loads(done.stdout)['checks']}


def wrong_login(place):
    """Told at once, and not tried again: who asks too often is locked out."""
    proxy, at = place.proxy('--ports', '443', '--login', 'lab:geheim')
    found = examined_far(place, '--proxy', f'lab:falsch@{at}', '--bootstrap', FAR_WEB, code=2)['way out']
    assert found['result'] == 'fail' and found['measured'] == f'HTTP proxy {at}: proxy: it wants a login, or another one (407)'
    assert found['remedy'] == 'give the right login: --proxy USER:PASSWORD@HOST:PORT', found
    before = proxy.count('request')
    trainer = place.trainer('trainer', '--bootstrap', FAR_WEB, environment=[f'https_proxy=http://lab:falsch@{at}/'])
    assert trainer.process.wait(10) == 2, trainer.log()
    assert proxy.count('request') == before + 1, proxy.events()
    assert 'login' in trainer.log() and '(407)' in trainer.log() and '--proxy USER:PASSWORD@HOST:PORT' in trainer.log()
    never_says('falsch', place, trainer)


def leads_to_nothing(place):
    """A proxy that allows no port, then none where one should be: told, and the run is looked for until patience ends."""
    proxy, at = place.proxy()
    found = examined_far(place, '--proxy', at, '--bootstrap', FAR_WEB, code=3)
    assert found['way out']['measured'].endswith('it does not allow that place or port (403)'), found
    assert 'wss://HOST:443/collab/v1' in found['way out']['remedy'], found
    trainer = place.trainer('trainer', '--proxy', at, '--bootstrap', FAR_HOST, '--patience', '2')
    assert trainer.process.wait(10) == 3, trainer.log()
    assert f'{FAR_HOST} not dialled, proxy: it does not allow that place or port (403)' in trainer.log(), trainer.log()
    proxy.process.kill()
    proxy.process.wait()
    found = examined_far(place, '--proxy', at, '--bootstrap', FAR_WEB, code=3)
    assert found['way out']['measured'].endswith('nobody answers where it is said to be'), found


def by_relay(place):
    """Two behind routers that give each connection another port, and a relay that dies."""
    other = Place('b', place.running)
    for site in (place.site, other.site):
        lab('nat_lab.sh', 'nat', site, 'random')
    caller, called = place.probe('--no-port-map', home='caller'), other.probe('--no-port-map', home='called')
    for peer in (caller, called):
        now = peer.until('two relays', 15, lambda now: now['state'] == 'relayed' and len(now['relays']) == 2)
        assert not now['addresses'], now
    caller.until('it knows of them', 10, lambda now: now['published_relays'].get(called.id) == 2)
    assert PUBLIC.now()['published'].get(called.id) in (None, []), PUBLIC.now()
    first = caller.call(called)
    assert first['answered'] and first['path'] == 'relay' and first['ms'] < 2000, first
    back = called.call(caller)
    assert back['answered'] and back['path'] == 'relay' and back['ms'] < 200, back
    PUBLIC.program.process.kill()
    PUBLIC.program.process.wait()
    killed = time.monotonic()
    wait('the other relay leads there', 10, lambda: caller.call(called)['answered'])
    assert time.monotonic() - killed < 10
    assert caller.program.events('called')[-1]['path'] == 'relay', caller.program.events('called')
    called.until('the dead relay is forgotten', 10, lambda now: len(now['relays']) == 1)
    caller.leave()
    called.leave()
    for site in (place.site, other.site):
        lab('nat_lab.sh', 'nat', site, 'masquerade')
    other.clear()


def relayed_pair(place, other, kinds):
    """Two probes whom nobody can dial, behind routers of these kinds, in a call by a relay. The first one has called."""
    for site, kind in zip((place.site, other.site), kinds):
        lab('nat_lab.sh', 'nat', site, *kind.split(':'))
    pair = place.probe('--no-port-map', home='one'), other.probe('--no-port-map', home='two')
    for peer in pair:
        peer.until('relays, and how its router translates', 20,
                   lambda now: now['state'] == 'relayed' and now['relays'] and now['mapping'] != 'unknown')
        assert not peer.now()['addresses'], peer.now()
    caller, called = pair
    caller.until('it knows of them', 15, lambda now: now['published_relays'].get(called.id))
    first = caller.call(called)
    assert first['answered'], first
    return pair


def end_pair(place, other, pair):
    for peer in pair:
        peer.leave()
    for site in (place.site, other.site):
        lab('nat_lab.sh', 'nat', site, 'masquerade')
    other.clear()


def gets_through(place, other_site, kinds, mapping):
    """What began on a relay goes on without one, both ways, and neither is taken for one who can be dialled."""
    other = Place(other_site, place.running)
    pair = relayed_pair(place, other, kinds)
    for peer in pair:
        assert peer.now()['mapping'] == mapping, peer.now()
    caller, called = pair
    try:
        wait('a way without a relay', 60, lambda: caller.call(called)['path'] == 'tcp, punched')
    except AssertionError as late:
        raise AssertionError(f'{late}: {caller.program.log()} {called.program.log()}') from None
    back = called.call(caller)
    assert back['answered'] and back['path'] == 'tcp, punched', back
    for peer in pair:
        assert peer.now()['state'] == 'relayed' and not peer.now()['addresses'], peer.now()
        assert 'nat.punched' in peer.program.log(), peer.program.log()
    end_pair(place, other, pair)


def through_silent_routers(place):
    gets_through(place, 'b', ['masquerade:drop', 'masquerade:drop'], 'independent')


def through_a_rejecting_router(place):
    """The reset ends one's dial; the other's waits meanwhile, until the first one dials again."""
    gets_through(place, 'd', ['masquerade:drop', 'masquerade:reject'], 'independent')


def through_an_accepting_router(place):
    gets_through(place, 'd', ['masquerade:accept', 'masquerade:drop'], 'independent')


def through_firewalls(place):
    gets_through(place, 'h', ['firewall:drop', 'firewall:reject'], 'none')


def through_ipv6(place):
    """Routers that no punch gets through in IPv4, and filters of IPv6: who has met the relay by that gets through."""
    other = Place('f', place.running)
    for site in (place.site, other.site):
        lab('nat_lab.sh', 'nat', site, 'random', 'drop')
    pair = [at.probe('--no-port-map', home=home, run=f'{SIX}@{SIX_HOST}') for at, home in ((place, 'one-six'), (other, 'two-six'))]
    for peer in pair:
        peer.until('a relay', 20, lambda now: now['state'] == 'relayed' and now['relays'])
        assert peer.now()['mapping'] == 'unknown' and not peer.now()['addresses'], peer.now()
    caller, called = pair
    caller.until('it knows of them', 15, lambda now: now['published_relays'].get(called.id))
    first = caller.call(called)
    assert first['answered'], first
    wait('a way without a relay', 30, lambda: caller.call(called)['path'] == 'tcp, punched')
    back = called.call(caller)
    assert back['answered'] and back['path'] == 'tcp, punched', back
    end_pair(place, other, pair)


def not_through_random(place):
    """One router gives each connection another port: nobody tries, and the relay stays."""
    other = Place('f', place.running)
    pair = relayed_pair(place, other, ['masquerade:drop', 'random:drop'])
    assert [peer.now()['mapping'] for peer in pair] == ['independent', 'dependent'], [peer.now() for peer in pair]
    time.sleep(5)
    for one, two in (pair, pair[::-1]):
        went = one.call(two)
        assert went['answered'] and went['path'] == 'relay', went
        assert 'nat.punched' not in one.program.log(), one.program.log()
    end_pair(place, other, pair)


CASES = [[natpmp], [upnp, web_too], [both_and_taken], [silent, no_protocol], [leads_nowhere, stops_in_time], [second_nat, taken_by_upnp],
         [for_good, restart], [nonsense]]
if PEER:
    CASES[0].append(doctor)
    CASES[5].append(doctor_sees_second_nat)
WEB_CASES = [[by_proxy], [web_only, doctor_sees_web_only], [wrong_login, leads_to_nothing], [by_one_interface]] if PEER else []
PUNCH_CASES = [[through_silent_routers], [], [through_a_rejecting_router, through_an_accepting_router], [], [not_through_random, through_ipv6], [], [through_firewalls]]
LAST_CASES = [[by_relay]]  # of the run `lab`, at more than one site
SITES = 'abcdefgh'[:len(CASES)]


def carry_out(site, cases, running):
    """(case, how it went), each; a router is as new for the next one."""
    went = []
    for case in cases:
        began = time.monotonic()
        place = Place(site, running)
        try:
            case(place)
            went.append((case, ''))
            print(f'ok: {case.__name__} ({time.monotonic() - began:.1f} s)', flush=True)
        except (AssertionError, subprocess.SubprocessError, OSError, KeyError, IndexError, ValueError) as problem:
            lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__)]
            went.append((case, str(problem) or type(problem).__name__))  # an assertion may have no words
            print(f'FAILED: {case.__name__}: lines {lines}: {type(problem).__name__}: {problem}', flush=True)
        place.clear()
    return went


def carry_out_all(all_cases, running):
    """Sites side by side."""
    chosen = os.environ.get('CASE', '').split()
    wanted = [[case for case in cases if not chosen or case.__name__ in chosen] for cases in all_cases]
    with concurrent.futures.ThreadPoolExecutor(len(SITES)) as pool:
        return sum(pool.map(lambda each: carry_out(*each, running), zip(SITES, wanted)), [])


def start_far(running):
    """A run whose members can be dialled on port 443 as well."""
    lab('nat_lab.sh', 'nat', OPEN_SITE, 'open')
    place = Place(OPEN_SITE, running)
    text = programs.write_text(running.folder / 'text')
    host = place.start('far', 'wan', [
        COORDINATOR, '--new-run', '--run-id', FAR, '--preset', 'demo', '--data', text, '--target-batch', '32', '--epochs', '9999', '--admission',
        'open', '--checkpoint-every', '0', '--home', running.folder / 'far-host', '--listen', FAR_HOST, '--wss-port', '443',
        '--dashboard', 'off', '--no-lan', '--no-port-map', '--json'])
    host.wait_for('ready', 20)
    return place.trainer('open', '--bootstrap', FAR_HOST, '--wss-port', '443').wait_for('epoch', 30)


def main():
    global PUBLIC, FAR_TRAINER
    reason = laboratory.build({site: 'masquerade' for site in SITES})
    if reason:
        print(f'skipped: {reason}\n0 passed, 0 failed, {sum(map(len, CASES + PUNCH_CASES + LAST_CASES + WEB_CASES))} skipped')
        return 77
    chosen = set(os.environ.get('CASE', '').split())
    far = any(not chosen or case.__name__ in chosen for case in sum(WEB_CASES, []))
    went = []
    try:
        with tempfile.TemporaryDirectory() as place, programs.Programs(place) as running:
            # what the user's own run book says of a run of this name is no business of ours
            os.environ.update(XDG_CONFIG_HOME=f'{place}/config', XDG_DATA_HOME=f'{place}/data')
            wan = Place('a', running)
            host = wan.start('coordinator', 'wan', [
                COORDINATOR, '--new-run', '--run-id', RUN, '--job', 'none', '--target-batch', '64', '--admission', 'open',
                '--home', running.folder / 'host', '--listen', '0.0.0.0:4600', '--announce', HOST, '--dashboard', 'off',
                '--no-lan', '--json'])
            host.wait_for('ready', 20)
            six = wan.start('six', 'wan', [
                COORDINATOR, '--new-run', '--run-id', SIX, '--job', 'none', '--target-batch', '64', '--admission', 'open',
                '--home', running.folder / 'six-host', '--listen', SIX_HOST, '--announce', SIX_HOST, '--dashboard', 'off',
                '--no-lan', '--json'])
            six.wait_for('ready', 20)
            PUBLIC = wan.probe(where='wan', home='public', listen='0.0.0.0:4601')
            PUBLIC.becomes('open')
            went += carry_out_all(CASES, running)
            went += carry_out_all(PUNCH_CASES, running)
            went += carry_out_all(LAST_CASES, running)
            if far:
                FAR_TRAINER = start_far(running)
                went += carry_out_all(WEB_CASES, running)
    finally:
        lab('nat_lab.sh', 'down')
    failed = sum(bool(problem) for _, problem in went)
    print(f'{len(went) - failed} passed, {failed} failed, 0 skipped')
    return int(failed > 0 or not went)


sys.exit(main())
