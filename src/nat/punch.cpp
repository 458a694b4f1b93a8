#include "nat/punch.hpp"

#include "base/channel.hpp"
#include "base/frame.hpp"
#include "nat/address_kind.hpp"
#include "nat/circuit_network.hpp"
#include "nat/dial_back.hpp"

#include <algorithm>
#include <utility>

namespace collab::nat {
namespace {

constexpr Duration kBusyMin = std::chrono::seconds(5);
constexpr std::uint64_t kBusyMs = 10'000;              // what `busy` advises
constexpr Duration kWayMax = std::chrono::seconds(2);  // of what a peer says about time, no more is believed

MappingKind mapping_of(std::uint8_t number) {
  return number <= static_cast<std::uint8_t>(MappingKind::dependent) ? static_cast<MappingKind>(number)
                                                                     : MappingKind::unknown;
}

/// What a message may name, whatever it is.
bool in_bounds(const std::vector<std::string>& named) {
  const auto fits = [](const std::string& text) { return text.size() <= wire::kPunchAddressBytesMax; };
  return !named.empty() && named.size() <= wire::kPunchAddressesMax && std::all_of(named.begin(), named.end(), fits);
}

template <class Wanted>
std::optional<Wanted> read_punch(const Frame& frame) {
  auto message = frame::decode<wire::PunchHeader>(*frame);
  if (!message) return std::nullopt;
  if (auto* wanted = std::get_if<Wanted>(&message->header)) return std::move(*wanted);
  return std::nullopt;
}

}  // namespace

net::Method punch_method(std::string_view name) {
  net::Method method;
  method.name = name;
  method.traffic = net::TrafficClass::control;
  method.request_bytes_max = 1024;
  method.answer_bytes_max = 1024;
  method.requests_per_s = 1;
  method.requests_burst = 8;
  return method;
}

std::vector<net::Address> punchable_addresses(const std::vector<std::string>& named, const std::string& host,
                                              std::size_t count_max) {
  std::vector<net::Address> all;
  for (const std::string& text : named) {
    auto at = net::parse_numeric_address(text);
    if (!at || at->leg != net::Leg::tcp || at->host != host || all.size() == count_max) continue;
    if (std::find(all.begin(), all.end(), *at) != all.end()) continue;
    if (is_public(host) && may_knock_at(at->port)) all.push_back(std::move(*at));
  }
  return all;
}

/// Counts as a try while it lives; one for each peer. `asked`: of those who have asked.
class Puncher::Place {
 public:
  Place(Puncher& in, const PeerId& peer, bool asked) : puncher_(in), peer_(peer), asked_(asked) {
    puncher_.busy_.insert(peer_);
    if (asked_) ++puncher_.asked_;
  }
  ~Place() {
    puncher_.busy_.erase(peer_);
    if (asked_) --puncher_.asked_;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  Puncher& puncher_;
  PeerId peer_;
  bool asked_;
};

Puncher::Puncher(Needs needs, const Options& options)
    : needs_(std::move(needs)),
      options_(options),
      rate_(options.per_min / 60, options.burst, needs_.clock.now()),
      again_(needs_.executor) {
  const auto connect = [this](PeerId from, Frame request, TimePoint) { return on_connect(from, std::move(request)); };
  const auto sync = [this](PeerId from, Frame request, TimePoint) -> Task<net::Answer> {
    co_return on_sync(from, request);
  };
  needs_.endpoint.handle(punch_method("punch.connect"), connect);
  needs_.endpoint.handle(punch_method("punch.sync"), sync);
}

Task<> Puncher::run() {
  struct Working {
    Working(Puncher& of, TaskGroup& tasks) : puncher(of) { puncher.tasks_ = &tasks; }
    ~Working() {
      puncher.tasks_ = nullptr;
      puncher.waiting_.clear();  // a task that never began takes nothing out
    }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    Puncher& puncher;
  };
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    const Working working(*this, tasks);
    for (;;) {
      while (!needs_.only_dials()) (void)co_await again_.wait();
      look();
      co_await needs_.clock.sleep_until(needs_.clock.now() + options_.look);
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

// --- whom, and how often

/// Where this end of the connection to the relay between is: in IPv6 a machine has several addresses, of which the
/// other end may dial that one. Empty: no relay leads there.
std::optional<std::string> Puncher::own_host(const PeerId& peer) const {
  const auto relay = needs_.endpoint.relay_of(peer);
  const auto local = relay ? needs_.endpoint.local_of(*relay) : std::nullopt;
  if (!local) return std::nullopt;
  return net::is_v6(local->host) ? local->host : net::kAnyV4;
}

/// What has to be found out is found out by `prepare` where it is IPv6.
MappingKind Puncher::mapping_at(const std::string& host) const {
  return net::is_v6(host) ? MappingKind::none : needs_.mapping();
}

bool Puncher::may_punch(const PeerId& peer) const {
  const auto host = own_host(peer);
  return host && needs_.only_dials() && can_be_punched(mapping_at(*host));
}

bool Puncher::is_left_alone(const PeerId& peer) {
  const TimePoint now = needs_.clock.now();
  const auto found = tried_.find(peer);
  if (found == tried_.end()) return false;
  if (now < found->second.until) return found->second.rounds >= options_.rounds || now < found->second.not_before;
  tried_.erase(found);
  return false;
}

/// Counted when it begins, and forgotten when it succeeds.
void Puncher::note_try(const PeerId& peer, std::size_t rounds) {
  Tried& tried = tried_[peer];
  tried.rounds += rounds;
  tried.until = needs_.clock.now() + options_.again;
}

/// That try does not count, unless the other end says so again and again.
void Puncher::note_busy(const PeerId& peer, std::uint64_t ms) {
  Tried& tried = tried_[peer];
  const Duration told = std::chrono::milliseconds(std::min<std::uint64_t>(ms, 60'000));
  tried.not_before = needs_.clock.now() + std::max(kBusyMin, told) * (1U << tried.busy);
  if (++tried.busy < options_.busy_max) {
    if (tried.rounds > 0) --tried.rounds;
  } else {
    tried.busy = 0;
  }
}

/// Null: there is no room for another one.
std::unique_ptr<Puncher::Place> Puncher::enter(const PeerId& peer, bool asked) {
  const TimePoint now = needs_.clock.now();
  if (asked && asked_ >= options_.asked_max) return nullptr;
  if (busy_.contains(peer) || busy_.size() >= options_.at_once_max) return nullptr;
  if (tried_.size() >= options_.peers_max)
    std::erase_if(tried_, [&](const auto& one) { return now >= one.second.until; });
  if (tried_.size() >= options_.peers_max || !rate_.take(now)) return nullptr;
  return std::make_unique<Place>(*this, peer, asked);
}

/// Whoever was looked at last comes last, so that some who are busy for ever keep nobody else from his turn.
void Puncher::look() {
  std::vector<PeerId> peers = needs_.endpoint.connected();  // sorted
  std::rotate(peers.begin(), std::upper_bound(peers.begin(), peers.end(), looked_at_), peers.end());
  for (const PeerId& peer : peers) {
    const net::LinkState link = needs_.endpoint.link(peer);
    const bool ours =
        needs_.endpoint.self() < peer && link.circuit && !link.tensors;  // those lead to who can be dialled
    // whether there is an address of it says little: of who cannot be dialled some are told all the same
    if (!ours || !may_punch(peer) || is_left_alone(peer)) continue;
    auto place = enter(peer, /*asked=*/false);
    if (!place) continue;
    looked_at_ = peer;
    tasks_->spawn("punch", punch(peer, std::move(place)));
  }
}

// --- who begins

Task<> Puncher::punch(PeerId peer, std::unique_ptr<Place> place) {
  const std::unique_ptr<Place> held = std::move(place);
  const TimePoint began = needs_.clock.now();
  for (std::size_t round = 1; !is_left_alone(peer); ++round) {
    note_try(peer);
    const Outcome outcome = co_await try_once(peer);
    if (outcome == Outcome::punched) {
      tried_.erase(peer);
      const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(needs_.clock.now() - began);
      needs_.log.info("nat.punched", {{"peer", peer.short_text()}, {"tries", round}, {"ms", took.count()}});
      co_return;
    }
    if (outcome == Outcome::busy) co_return;  // look() begins again
    needs_.metrics.add("collab_punches_total", 1, {{"result", outcome == Outcome::failed ? "failed" : "refused"}});
    if (outcome == Outcome::refused) note_try(peer, options_.rounds);
    if (is_left_alone(peer)) break;
    co_await needs_.clock.sleep_until(needs_.clock.now() + options_.round_pause);
    if (!may_punch(peer) || !rate_.take(needs_.clock.now())) co_return;
  }
  needs_.log.info("nat.not_punchable", {{"peer", peer.short_text()}});
}

Task<Puncher::Outcome> Puncher::try_once(PeerId peer) {
  const auto prepared = co_await prepare(peer);
  if (!prepared) co_return prepared.error() == Errc::denied ? Outcome::refused : Outcome::failed;
  const auto host = co_await host_of(peer);
  if (!host) co_return host.error() == Errc::late ? Outcome::failed : Outcome::refused;
  if (*host == prepared->sighting.seen.host) co_return Outcome::refused;  // one router, which seldom leads back in
  const std::uint64_t attempt = needs_.random.next();
  const auto agreed = co_await ask(peer, attempt, prepared->sighting.seen);
  if (!agreed) {
    needs_.log.debug("nat.no_punch", {{"peer", peer.short_text()}, {"why", agreed.error().reason}});
    const Errc why = agreed.error().code;
    if (why == Errc::busy) note_busy(peer, agreed.error().number);
    if (why == Errc::busy) co_return Outcome::busy;
    co_return why == Errc::denied || why == Errc::bad_request ? Outcome::refused : Outcome::failed;
  }
  std::vector<net::Address> at = punchable_addresses(agreed->addresses, *host, options_.dialled_max);
  if (at.empty()) co_return Outcome::refused;
  needs_.log.debug("nat.punching", {{"peer", peer.short_text()},
                                    {"from", net::to_string(prepared->sighting.seen)},
                                    {"to", net::to_string(at.front())},
                                    {"way_s", to_seconds(agreed->way)}});
  const Aim aim{peer, net::Side::dialled, *prepared->port, agreed->way};
  bool won = false;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("punch.go", say_go(peer, attempt, agreed->way));
    co_await needs_.clock.sleep_until(needs_.clock.now() + agreed->way / 2);
    won = co_await shoot(aim, at);
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return won ? Outcome::punched : Outcome::failed;
}

/// Errors: the other end's; `bad_request` for an answer that is none.
Task<boost::system::result<Puncher::Agreed, Refusal>> Puncher::ask(PeerId peer, std::uint64_t attempt,
                                                                   net::Address own) {
  wire::Ask question;
  question.attempt = attempt;
  question.addresses.push_back(net::to_string(own));
  question.mapping = static_cast<std::uint8_t>(mapping_at(own.host));
  const Frame request = frame::encode(wire::PunchHeader(std::move(question)));
  const TimePoint asked = needs_.clock.now();
  const auto answer = co_await needs_.endpoint.call(peer, "punch.connect", request, asked + options_.call_time);
  if (!answer) co_return answer.error();
  auto ready = read_punch<wire::Ready>(*answer);
  if (!ready || !in_bounds(ready->addresses)) co_return Refusal(Errc::bad_request, "no answer of ours");
  if (!can_be_punched(mapping_of(ready->mapping)))
    co_return Refusal(Errc::denied, "its mapping depends on whom it dials");
  Agreed agreed;
  agreed.addresses = std::move(ready->addresses);
  const Duration way = needs_.clock.now() - asked - std::chrono::milliseconds(ready->prepared_ms);
  agreed.way = way_of(peer, way);
  co_return agreed;
}

Task<> Puncher::say_go(PeerId peer, std::uint64_t attempt, Duration way) {
  wire::Go go;
  go.attempt = attempt;
  go.way_ms = static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(way).count());
  const Frame request = frame::encode(wire::PunchHeader(go));
  // what it answers changes nothing: whether it has begun is seen where its dials arrive
  (void)co_await needs_.endpoint.call(peer, "punch.sync", request, needs_.clock.now() + options_.call_time);
}

// --- who is asked

std::optional<Refusal> Puncher::refuses(const PeerId& from, const wire::Ask& ask) {
  if (!(from < needs_.endpoint.self())) return Refusal(Errc::bad_request, "the lower id begins");
  if (!in_bounds(ask.addresses)) return Refusal(Errc::bad_request, "so many addresses cannot be");
  if (tasks_ == nullptr || !needs_.only_dials()) return Refusal(Errc::busy, "others dial this peer, perhaps", kBusyMs);
  const auto host = own_host(from);
  if (!host) return Refusal(Errc::denied, "there is no circuit to replace");
  const MappingKind own = mapping_at(*host);
  if (own == MappingKind::unknown) return Refusal(Errc::busy, "nobody has told yet as what this peer is seen", kBusyMs);
  if (!can_be_punched(own) || !can_be_punched(mapping_of(ask.mapping)))
    return Refusal(Errc::denied, "an address that others see leads nowhere");
  if (is_left_alone(from)) return Refusal(Errc::denied, "that was tried in vain");
  return std::nullopt;
}

Task<net::Answer> Puncher::on_connect(PeerId from, Frame request) {
  const TimePoint began = needs_.clock.now();
  const auto question = read_punch<wire::Ask>(request);
  if (!question) co_return Refusal(Errc::bad_request, "no Ask");
  if (auto why = refuses(from, *question)) co_return std::move(*why);
  auto place = enter(from, /*asked=*/true);
  if (!place) co_return Refusal(Errc::busy, "too many punches", kBusyMs);
  const auto host = co_await host_of(from);
  if (!host)
    co_return Refusal(host.error() == Errc::late ? Errc::busy : Errc::denied, "nobody says where you are", kBusyMs);
  auto waiting = std::make_shared<Waiting>(needs_.executor);
  waiting->theirs = punchable_addresses(question->addresses, *host, options_.dialled_max);
  if (waiting->theirs.empty()) {
    note_try(from);
    co_return Refusal(Errc::denied, "none of these addresses is yours");
  }
  auto prepared = co_await prepare(from);
  if (!prepared && prepared.error() == Errc::denied)
    co_return Refusal(Errc::denied, "an IPv6 address that is translated");
  if (!prepared) co_return Refusal(Errc::busy, "nobody says as what this peer is seen", kBusyMs);
  if (*host == prepared->sighting.seen.host) co_return Refusal(Errc::denied, "both are behind one router");
  if (tasks_ == nullptr) co_return Refusal(Errc::gone);
  waiting->attempt = question->attempt;
  waiting->prepared = std::move(*prepared);
  wire::Ready ready;
  ready.addresses.push_back(net::to_string(waiting->prepared.sighting.seen));
  ready.mapping = static_cast<std::uint8_t>(mapping_at(waiting->prepared.sighting.seen.host));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(needs_.clock.now() - began);
  ready.prepared_ms = static_cast<std::uint32_t>(took.count());
  note_try(from);
  waiting_[from] = waiting;
  tasks_->spawn("punch.answer", answer(from, std::move(waiting), std::move(place)));
  co_return frame::encode(wire::PunchHeader(std::move(ready)));
}

net::Answer Puncher::on_sync(const PeerId& from, const Frame& request) {
  const auto go = read_punch<wire::Go>(request);
  if (!go) return Refusal(Errc::bad_request, "no Go");
  const auto found = waiting_.find(from);
  if (found == waiting_.end() || found->second->attempt != go->attempt)
    return Refusal(Errc::stale, "no such try waits");
  found->second->go = true;
  found->second->way = way_of(from, std::chrono::milliseconds(go->way_ms));
  found->second->changed.notify();
  wire::Going going;
  going.attempt = go->attempt;
  return frame::encode(wire::PunchHeader(going));
}

/// Until the try is over; one that is never begun ends after `go_time`.
Task<> Puncher::answer(PeerId from, std::shared_ptr<Waiting> waiting, std::unique_ptr<Place> place) {
  const std::unique_ptr<Place> held = std::move(place);
  struct Known {
    std::map<PeerId, std::shared_ptr<Waiting>>& all;
    PeerId peer;
    ~Known() { all.erase(peer); }
  };
  const Known known{waiting_, from};
  const TimePoint deadline = needs_.clock.now() + options_.go_time;
  while (!waiting->go && needs_.clock.now() < deadline) co_await waiting->changed.wait_until(needs_.clock, deadline);
  if (!waiting->go) co_return;
  const Aim aim{from, net::Side::accepted, *waiting->prepared.port, waiting->way};
  const bool won = co_await shoot(aim, waiting->theirs);
  if (!won) co_return;
  tried_.erase(from);
  needs_.log.info("nat.punched", {{"peer", from.short_text()}});
}

// --- both

/// Errors: `denied` where all dials begin elsewhere, or an IPv6 address is translated; `gone`, `late`.
Task<Result<Puncher::Prepared>> Puncher::prepare(PeerId peer) {
  const auto host = own_host(peer);
  if (!host) co_return Errc::gone;
  std::vector<Observer> observers = needs_.observers();
  std::erase_if(observers, [&](const Observer& one) { return net::is_v6(one.at.host) != net::is_v6(*host); });
  auto port = needs_.network.local_port(*host);
  if (!port) co_return port.error();
  Errc why = Errc::gone;
  const TimePoint deadline = needs_.clock.now() + options_.prepare_time;
  for (std::size_t asked_of = 0; asked_of < options_.observers_max && !observers.empty(); ++asked_of) {
    if (needs_.clock.now() >= deadline) break;
    const auto one = observers.begin() + static_cast<std::ptrdiff_t>(needs_.random.below(observers.size()));
    const Observer asked = *one;
    observers.erase(one);
    const TimePoint patience = std::min(deadline, needs_.clock.now() + options_.observer_time);
    auto sighting = co_await be_seen(needs_.endpoint, needs_.clock, **port, asked, patience);
    if (sighting && net::is_v6(*host) && !sighting->is_own) co_return Errc::denied;
    if (sighting) {
      Prepared prepared;
      prepared.port = std::move(*port);
      prepared.sighting = std::move(*sighting);
      co_return prepared;
    }
    if (sighting.error() == Errc::late) why = Errc::late;
  }
  co_return why;
}

/// Where `peer` comes from, as the relay between says. Errors: `denied` (the relay does not say), `gone`, `late`.
Task<Result<std::string>> Puncher::host_of(PeerId peer) {
  const auto relay = needs_.endpoint.relay_of(peer);
  if (!relay) co_return Errc::gone;
  wire::Whence question;
  question.peer = peer.key;
  const Frame request = frame::encode(wire::RelayHeader(question));
  const TimePoint deadline = needs_.clock.now() + options_.prepare_time;
  const auto answer = co_await needs_.endpoint.call(*relay, "relay.whence", request, deadline);
  if (!answer) co_return answer.error().code == Errc::late ? Errc::late : Errc::denied;
  const auto message = frame::decode<wire::RelayHeader>(**answer);
  const auto* comes = message ? std::get_if<wire::Comes>(&message->header) : nullptr;
  if (comes == nullptr || comes->host.size() > wire::kPunchAddressBytesMax) co_return Errc::denied;
  co_return comes->host;
}

/// What an end says of a round trip between the two, but never less than ours to the relay: from it follows how often
/// it is dialled.
Duration Puncher::way_of(const PeerId& peer, Duration told) const {
  const auto relay = needs_.endpoint.relay_of(peer);
  const Duration ours = relay ? needs_.endpoint.link(*relay).rtt : Duration::zero();
  return std::clamp(std::max(told, ours), Duration::zero(), kWayMax);
}

/// True: the pair has a connection without a relay.
Task<bool> Puncher::shoot(Aim aim, std::vector<net::Address> at) {
  Channel<std::unique_ptr<net::Opened>> ended(needs_.executor, at.size());  // outlives the tasks
  std::unique_ptr<net::Opened> won;
  const auto dial_one = [&](net::Address to) -> Task<> {
    auto opened = co_await dial(aim, std::move(to));
    (void)ended.try_push(std::move(opened));  // has room for all
  };
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (const net::Address& to : at) tasks.spawn("punch.dial", dial_one(to));
    for (std::size_t left = at.size(); left > 0 && !won; --left) {
      auto one = co_await ended.pop(needs_.clock, TimePoint::max());
      if (one) won = std::move(*one);
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  if (!won) co_return false;
  won->punched = true;
  const bool adopted = co_await needs_.endpoint.adopt(std::move(won));
  if (!adopted) co_return false;
  needs_.metrics.add("collab_punches_total", 1, {{"result", "punched"}});
  co_return true;
}

/// Null: in vain.
Task<std::unique_ptr<net::Opened>> Puncher::dial(Aim aim, net::Address to) {
  const TimePoint began = needs_.clock.now();
  const TimePoint until = began + options_.try_time;
  // the dials cross when both are on the way at once, so on a short way a long pause would miss nearly always
  const Duration longest = std::clamp(2 * aim.way, 2 * options_.retry_min, options_.retry_max);
  const auto spread = static_cast<std::uint64_t>((longest - options_.retry_min).count());
  for (std::size_t strangers = 0; strangers < options_.strangers_max;) {
    auto stream = co_await aim.port.dial(to, until);
    if (stream) {
      const TimePoint met = needs_.clock.now();
      const TimePoint greeted_by = met + options_.handshake_time;
      auto opened = co_await needs_.endpoint.greet(std::move(*stream), aim.side, aim.peer, greeted_by);
      if (opened) {
        needs_.metrics.observe("collab_punch_seconds", to_seconds(met - began));
        co_return std::move(*opened);
      }
      ++strangers;
    }
    const TimePoint next = needs_.clock.now() + options_.retry_min + Duration(needs_.random.below(spread + 1));
    if (next >= until) break;
    co_await needs_.clock.sleep_until(next);
  }
  co_return nullptr;
}

}  // namespace collab::nat
