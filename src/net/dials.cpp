#include "net/dials.hpp"

#include <algorithm>
#include <utility>

namespace collab::net {
namespace {

constexpr Duration kDirectKept = std::chrono::seconds(30);  // so long whoever does not answer is taken for gone
constexpr unsigned kOutdatedMax = 6;  // to one peer: who comes and goes again and again has no more of them begun

bool is_relay(const Address& address) {
  return address.leg == Leg::relay;
}

}  // namespace

Dials::Dials(const Needs& needs, DialOptions options, OnwardRelays onward)
    : needs_(needs), options_(options), onward_(std::move(onward)) {}

Dials::Dialled& Dials::at(const PeerId& peer) {
  std::unique_ptr<Dialled>& dialled = dialled_[peer];
  if (dialled == nullptr) dialled = std::make_unique<Dialled>(needs_.executor);
  return *dialled;
}

Connection* Dials::usable(const PeerId& peer, bool for_tensors) const {
  Connection* current = needs_.links.current(peer);
  return current != nullptr && (!for_tensors || current->carries_tensors()) ? current : nullptr;
}

// --- who waits

Task<Reached> Dials::reach(PeerId peer, TimePoint deadline, bool for_tensors) {
  struct Waiting {
    explicit Waiting(Dialled& on) : with(on) { ++with.waiting; }
    ~Waiting() { --with.waiting; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    Dialled& with;
  };
  for (bool dialled = false;; dialled = true) {
    const Decision may = needs_.access.may(peer, Claim::join);
    if (may.why == Denial::banned) co_return Refusal(Errc::denied, may.reason);  // it may also not answer for long
    if (Connection* current = usable(peer, for_tensors)) co_return &current->streams();
    const TimePoint now = needs_.clock.now();
    if (now >= deadline) co_return Refusal(Errc::late);
    const KnownPeer* known = needs_.peers.find(peer);
    const bool no_way = known == nullptr || (known->addresses.empty() && (for_tensors || known->relays.empty()));
    Dialled& with = at(peer);
    if (with.running == 0) {
      if (tasks_ == nullptr) co_return Refusal(Errc::gone, "this node is not running");
      if (dialled && known != nullptr) co_return known->refused;
      if (no_way) co_return Refusal(Errc::gone, "no address of this peer is known");
      if (!needs_.peers.may_dial(peer, now)) co_return known->refused;
      std::vector<Address> addresses = known->addresses;
      if (!for_tensors) addresses.insert(addresses.end(), known->relays.begin(), known->relays.end());
      begin(peer, std::move(addresses), known->direct_at == TimePoint() || now >= known->direct_at + kDirectKept);
    } else if (no_way && for_tensors && known != nullptr) {
      co_return Refusal(Errc::gone, "only a relay that carries words leads to this peer");
    }
    const WaitsFor told(needs_.paths, peer);
    const Waiting waits(with);
    while (with.running > 0 && usable(peer, for_tensors) == nullptr) {
      const bool in_time = co_await with.changed.wait_until(needs_.clock, deadline);
      if (!in_time && usable(peer, for_tensors) == nullptr) co_return Refusal(Errc::late);
    }
  }
}

void Dials::changed(const PeerId& peer) {
  if (const auto known = dialled_.find(peer); known != dialled_.end()) known->second->changed.notify();
}

void Dials::tidy() {
  for (auto next = dialled_.begin(); next != dialled_.end();) {
    const Dialled& with = *next->second;
    const bool active = with.running + with.outdated + with.waiting > 0;
    next = active ? std::next(next) : dialled_.erase(next);
  }
}

// --- what is dialled

/// `onward`: relays may lead there that are not its own.
void Dials::begin(const PeerId& peer, std::vector<Address> addresses, bool onward) {
  ++at(peer).running;
  tasks_->spawn("dial", dial(peer, std::move(addresses), onward));
}

Task<> Dials::dial(PeerId peer, std::vector<Address> addresses, bool onward) {
  struct Running {
    Dialled& with;
    const std::uint64_t meetings = with.meetings;
    bool outdated() const { return meetings != with.meetings; }
    ~Running() {
      --(outdated() ? with.outdated : with.running);
      if (with.running == 0) with.is_elsewhere = false;
      with.changed.notify();
    }
  };
  const Running running{at(peer)};
  const bool by_relay_only = std::all_of(addresses.begin(), addresses.end(), is_relay);
  DialOptions options = options_;
  if (const KnownPeer* known = needs_.peers.find(peer); known != nullptr && known->bare_in_vain) options.bare_time = {};
  OnwardRelays relays = onward ? onward_ : OnwardRelays();
  auto opened = co_await dial_any(needs_.network, needs_.clock, needs_.rules, std::move(addresses), peer,
                                  next_attempt(), options, std::move(relays));
  if (tasks_ == nullptr) co_return;               // too late: the node has said goodbye to all
  if (opened && (*opened)->redundant) co_return;  // the peer has dialled us meanwhile
  if (opened) {
    const bool bare = (*opened)->stream->remote().leg == Leg::tcp;
    if (bare || !by_relay_only) needs_.peers.at(peer, needs_.clock.now()).bare_in_vain = !bare;
    co_return co_await needs_.user.on_dialled(std::move(*opened));
  }
  Refusal why = opened.error();
  if (why.code == Errc::late) why = Refusal(Errc::gone, "it does not answer");  // `late` is for the caller's deadline
  needs_.log.debug("net.dial_failed", {{"peer", peer.short_text()}, {"why", why.reason}});
  // another one may get through, or did: that nobody is there any more, or somebody else, is no news
  if (running.outdated() || (why.code == Errc::gone && running.with.running > 1)) co_return;
  failed(peer, std::move(why), by_relay_only);
}

void Dials::failed(const PeerId& peer, Refusal why, bool by_relay_only) {
  const Connection* other = needs_.links.current(peer);
  if (other != nullptr && !other->is_circuit()) return;  // another way was found
  if (by_relay_only || other != nullptr) {               // no word of whether it lives
    needs_.peers.no_circuit(peer, std::move(why), needs_.clock.now());
  } else {
    needs_.peers.failed(peer, std::move(why), needs_.clock.now());
  }
}

Task<boost::system::result<PeerId, Refusal>> Dials::connect(Address address, TimePoint deadline) {
  if (tasks_ == nullptr) co_return Refusal(Errc::gone, "this node is not running");
  std::vector<Address> addresses(1, std::move(address));
  auto dialling = dial_any(needs_.network, needs_.clock, needs_.rules, std::move(addresses), std::nullopt,
                           next_attempt(), options_);
  auto opened = co_await with_deadline(needs_.clock, deadline, std::move(dialling));
  if (!opened) co_return opened.error();
  if (tasks_ == nullptr) co_return Refusal(Errc::gone, "this node is not running");
  const PeerId peer = (*opened)->channel.peer();
  if ((*opened)->redundant) co_return peer;
  if ((*opened)->moves.empty()) {
    co_await needs_.user.on_dialled(std::move(*opened));
  } else {  // it is connected until that has moved, which may take longer than the caller has
    tasks_->spawn("move", needs_.user.on_dialled(std::move(*opened)));
  }
  co_return peer;
}

// --- what else is a reason to dial

void Dials::again(const PeerId& peer, Address address) {
  if (tasks_ == nullptr || needs_.links.current(peer) != nullptr) return;
  begin(peer, std::vector<Address>(1, std::move(address)), /*onward=*/false);
}

void Dials::renew(const Connection& circuit) {
  const KnownPeer* known = needs_.peers.find(circuit.peer());
  if (circuit.side() == Side::accepted || known == nullptr || tasks_ == nullptr) return;
  if (at(circuit.peer()).running > 0) return;
  std::vector<Address> addresses = known->addresses;
  addresses.insert(addresses.end(), known->relays.begin(), known->relays.end());
  begin(circuit.peer(), std::move(addresses), /*onward=*/true);
}

void Dials::in_return(const Connection& circuit) {
  const PeerId peer = circuit.peer();
  const KnownPeer* known = needs_.peers.find(peer);
  const bool may = known != nullptr && !known->addresses.empty() && needs_.peers.may_dial(peer, needs_.clock.now());
  if (!may || tasks_ == nullptr || at(peer).running > 0) return;
  begin(peer, known->addresses, /*onward=*/false);
}

void Dials::elsewhere(const PeerId& peer, std::vector<Address> addresses) {
  const Connection* current = needs_.links.current(peer);
  const bool is_there = current != nullptr && !current->is_circuit();
  if (addresses.empty() || is_there || tasks_ == nullptr) return;
  const bool is_led_on = current != nullptr && current->carries_tensors();
  Dialled& with = at(peer);
  const bool may = with.running == 0 ? is_led_on : with.running == 1 && !with.is_elsewhere;
  if (!may) return;
  with.is_elsewhere = with.running > 0;  // not again and again, however often it says so
  begin(peer, std::move(addresses), /*onward=*/false);
}

void Dials::met(const PeerId& peer) {
  Dialled& with = at(peer);
  if (with.running == 0 || with.outdated + with.running > kOutdatedMax) return;
  ++with.meetings;
  with.outdated += std::exchange(with.running, 0);
  with.is_elsewhere = false;
}

}  // namespace collab::net
