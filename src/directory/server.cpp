#include "directory/server.hpp"

#include "base/frame.hpp"
#include "base/task_group.hpp"
#include "directory/reconcile.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <utility>

namespace collab::directory {
namespace {

using net::Answer;

constexpr std::size_t kKeptMax = 256;

ServerSet::Options server_rules(const ServerOptions& options) {
  ServerSet::Options rules;
  rules.run = options.storage.rules.run;
  rules.bootstrap = options.bootstrap;
  return rules;
}

/// A request of one given kind, or why not.
template <class Message>
boost::system::result<std::pair<Message, std::span<const std::byte>>, Refusal> read(const Frame& request) {
  auto decoded = frame::decode<wire::Header>(*request);
  if (!decoded) return Refusal(Errc::bad_request, "not a message of this protocol");
  auto* message = std::get_if<Message>(&decoded->header);
  if (message == nullptr) return Refusal(Errc::bad_request, "not a message of this method");
  return std::pair(std::move(*message), decoded->payload);
}

wire::Outcome outcome_of(const Storage::Offered& offered) {
  wire::Outcome outcome;
  switch (offered.outcome) {
    case Storage::Outcome::stored:
    case Storage::Outcome::unchanged: break;
    case Storage::Outcome::older: outcome.code = 1; break;
    case Storage::Outcome::refused:
      outcome.code = static_cast<std::uint8_t>(1 + static_cast<int>(offered.refusal.code));
      outcome.number = offered.refusal.number;
      outcome.reason = offered.refusal.reason;
      break;
  }
  return outcome;
}

wire::KnownPeer known_peer(const Contact& contact) {
  wire::KnownPeer known;
  known.id = contact.id.key;
  for (const net::Address& address : contact.addresses) known.addresses.push_back(net::to_string(address));
  known.seen_ms = contact.seen_ms;
  return known;
}

void append(Bytes& bytes, const Bytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

/// Adds the servers to an answer whose asker knows others.
template <class Message>
void name_servers(Message& message, Bytes& payload, Server& server, std::uint64_t asker_knows) {
  message.nodes = static_cast<std::uint32_t>(server.table().size());
  if (asker_knows == 0) return;
  const ServerSet& servers = server.servers();
  message.servers = servers.hash();
  if (asker_knows == message.servers) return;
  auto records = servers.records(server.storage(), server.unix_ms());
  if (records.size() > wire::kServersMax) records.resize(wire::kServersMax);
  message.known = static_cast<std::uint32_t>(records.size());
  append(payload, wire::pack_records(records));
}

Answer page_answer(Server& server, const wire::Get& get, std::uint64_t instance, std::vector<Contact> contacts) {
  const std::uint64_t since = get.instance == instance ? get.since : 0;
  const auto known = wire::unpack_marks(get.known);
  if (!known) return Refusal(Errc::bad_request, "known");
  const auto page = server.storage().page(get.key, since, server.unix_ms(), wire::kPageBytesMax, *known);
  wire::Page answer;
  answer.instance = instance;
  answer.next = page.next;
  answer.more = page.more;
  answer.distance = server.distance(get.key);
  answer.records = static_cast<std::uint32_t>(page.records.size());
  Bytes payload = wire::pack_records(page.records);
  name_servers(answer, payload, server, get.servers);
  for (const Contact& contact : contacts) answer.contacts.push_back(known_peer(contact));
  return frame::encode(wire::Header(std::move(answer)), payload);
}

}  // namespace

/// Counts one peer's watches for as long as they last.
struct Server::Watcher {
  Watcher(Server& server, const PeerId& peer, const std::string& watched)
      : owner(server),
        entry(server.watches_.try_emplace(peer).first),
        key(server.watched_.try_emplace(watched).first),
        by(key->second.try_emplace(peer).first) {
    ++entry->second;
    ++by->second;
  }
  ~Watcher() {
    if (--entry->second == 0) owner.watches_.erase(entry);
    if (--by->second == 0) key->second.erase(by);
    if (key->second.empty()) owner.watched_.erase(key);
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  Server& owner;
  std::map<PeerId, std::size_t>::iterator entry;
  std::map<std::string, std::map<PeerId, std::size_t>>::iterator key;
  std::map<PeerId, std::size_t>::iterator by;
};

Server::Server(net::Endpoint& net, Clock& clock, Random random, Log& log, asio::any_io_executor executor,
               ServerOptions options)
    : net_(net),
      clock_(clock),
      random_(random),
      log_(log),
      executor_(executor),
      options_(std::move(options)),
      storage_(options_.storage),
      servers_(server_rules(options_)),
      signals_(std::move(executor)),
      instance_(random_.next()),
      table_(net.self(), {options_.routing.k}),
      hand_over_(net, clock, log, *this) {
  register_methods();
}

void Server::register_methods() {
  net::Method put;
  put.name = "directory.put";
  put.traffic = net::TrafficClass::control;
  put.request_bytes_max = wire::kPutBytesMax;
  put.answer_bytes_max = wire::kAnswerBytesMax;
  put.idempotent = true;  // a record that is here already is one that was taken
  net::Method get = put;
  get.name = "directory.get";
  get.request_bytes_max = wire::kGetBytesMax;
  net::Method watch = get;
  watch.name = "directory.watch";
  net::Method find = get;
  find.name = "directory.find";
  net::Method exchange = put;
  exchange.name = "directory.exchange";
  exchange.claim = Claim::directory;

  net_.handle(put, [this](PeerId from, Frame request, TimePoint) { return on_put(from, std::move(request)); });
  net_.handle(get, [this](PeerId, Frame request, TimePoint) { return on_get(std::move(request)); });
  net_.handle(watch, [this](PeerId from, Frame request, TimePoint deadline) {
    return on_watch(from, std::move(request), deadline);
  });
  net_.handle(find, [this](PeerId from, Frame request, TimePoint) { return on_find(from, std::move(request)); });
  net_.handle(exchange, [this](PeerId, Frame request, TimePoint) { return on_exchange(std::move(request)); });
}

void Server::stop_waiting() {
  waits_ = false;
  signals_.notify_all();
}

Storage::Offered Server::accept(SignedRecord record, Storage::Source source, const std::string& origin) {
  const std::string key = record.record.key;
  const PeerId owner = record.record.owner;
  const std::size_t evidence = storage_.evidence().size();
  Storage::Offered offered = storage_.offer(std::move(record), unix_ms(), source, origin);
  if (storage_.evidence().size() > evidence) {
    log_.warn("directory.two_records_of_one_sequence", {{"key", key}, {"owner", owner.short_text()}});
  }
  if (offered.outcome == Storage::Outcome::stored) {
    if (key == kPeerKey && (offered.visible || table_.find(owner) == nullptr)) learn(owner);
    signals_.notify(key);
  }
  return offered;
}

namespace {

/// Where the owner of a record of key "peer" can be dialled, as it says; empty: nowhere.
std::vector<net::Address> listens_at(const SignedRecord* record) {
  if (record == nullptr) return {};
  auto peer = decode_peer_record(record->record.value);
  return peer && peer->reachable ? std::move(peer->listen) : std::vector<net::Address>();
}

}  // namespace

std::vector<net::Address> Server::said_addresses(const PeerId& peer) const {
  return listens_at(storage_.record(std::string(kPeerKey), peer, unix_ms()));
}

void Server::learn(const PeerId& owner) {
  RouteNode node;
  node.id = owner;
  node.addresses = said_addresses(owner);
  if (owner == net_.self()) {
    serves_ = !node.addresses.empty();
  } else if (node.addresses.empty()) {
    table_.remove(owner);
  } else if (const RoutingTable::Entry* entry = table_.find(owner)) {
    table_.add(std::move(node), entry->network, entry->heard);
  } else {
    (void)table_.suggest(std::move(node));  // it says so itself: it is asked first
  }
}

void Server::admit(RouteNode node) {
  auto said = said_addresses(node.id);
  if (said.empty() && !net_.link(node.id).dialled) return;
  if (!said.empty()) node.addresses = std::move(said);
  if (node.addresses.empty()) return;
  const PeerId id = node.id;
  table_.add(std::move(node), options_.origin ? options_.origin(id) : std::string(), clock_.now());
}

Form Server::form() const noexcept {
  const std::size_t nodes = table_.size() + (serves_ ? 1 : 0);
  if (nodes < options_.routing.k) return Form::whole;
  return nodes < 2 * options_.routing.k ? Form::both : Form::routed;
}

std::vector<PeerId> Server::nearest_to(const Place& place) const {
  const auto others = table_.nearest(place, options_.routing.replicas);
  std::vector<PeerId> nearest;
  bool self_is_due = serves_;
  for (const RoutingTable::Entry* other : others) {
    if (self_is_due && nearer(place, table_.place(), other->place)) {
      nearest.push_back(net_.self());
      self_is_due = false;
    }
    nearest.push_back(other->node.id);
  }
  if (self_is_due) nearest.push_back(net_.self());
  if (nearest.size() > options_.routing.replicas) nearest.resize(options_.routing.replicas);
  return nearest;
}

bool Server::keeps(const PeerId& node, const std::string& key) const {
  const auto nearest = nearest_to(place(key));
  return std::find(nearest.begin(), nearest.end(), node) != nearest.end();
}

bool Server::keeps_itself(const std::string& key) const {
  const bool stale = kept_.table != table_.version() || kept_.serves != serves_;
  // strangers may ask for any key
  if (stale || kept_.keys.size() > kKeptMax) kept_ = {table_.version(), serves_, {}};
  const auto [kept, fresh] = kept_.keys.try_emplace(key);
  if (fresh) kept->second = keeps(net_.self(), key);
  return kept->second;
}

std::uint8_t Server::distance(const std::string& key) const {
  if (form() != Form::routed || keeps_itself(key)) return 0;
  return passed_on_.contains(key) ? 1 : 2;
}

void Server::pass_on(const std::string& key, bool passes) {
  if (passes ? passed_on_.insert(key).second : passed_on_.erase(key) > 0) signals_.notify(key);
}

const SignedRecord* Server::own_record() const {
  return storage_.record(std::string(kPeerKey), net_.self(), unix_ms());
}

std::span<const std::byte> Server::own_encoded() const {
  const SignedRecord* own = own_record();
  return own == nullptr ? std::span<const std::byte>() : storage_.encoded(slot_of(own->record));
}

const ServerSet& Server::servers() {
  servers_.update(storage_, unix_ms());
  return servers_;
}

Task<Answer> Server::on_put(PeerId from, Frame request) {
  auto put = read<wire::Put>(request);
  if (!put) co_return put.error();
  auto& [message, payload] = *put;
  if (message.records == 0 || message.records > wire::kPutRecordsMax) {
    co_return Refusal(Errc::bad_request, "records");
  }
  auto records = wire::take_records(payload, message.records);
  if (!records || !payload.empty()) co_return Refusal(Errc::bad_request, "records");

  // whoever brings records has their places on its account, or one connection could fill us with made-up owners;
  // servers bring what others gave them
  const bool serving = form() != Form::routed && servers().contains(from);
  const std::string origin = options_.origin && !serving ? options_.origin(from) : std::string();
  wire::Stored stored;
  std::vector<const SignedRecord*> in_the_way;
  std::vector<SlotId> slots;
  for (SignedRecord& record : *records) {
    const SlotId slot = slot_of(record.record);
    const bool own = record.record.owner == from;
    const auto source = own                                          ? Storage::Source::put
                        : !serving && keeps(from, record.record.key) ? Storage::Source::handed_over
                                                                     : Storage::Source::handed_on;
    const auto offered = accept(std::move(record), source, origin);
    stored.outcomes.push_back(outcome_of(offered));
    if (offered.outcome == Storage::Outcome::older) slots.push_back(slot);
  }
  for (const SlotId& slot : slots) in_the_way.push_back(storage_.find(slot));
  stored.newer = static_cast<std::uint32_t>(in_the_way.size());
  stored.instance = instance_;
  Bytes answer = wire::pack_records(in_the_way);
  name_servers(stored, answer, *this, message.servers);
  co_return frame::encode(wire::Header(std::move(stored)), answer);
}

Task<Answer> Server::on_get(Frame request) {
  auto get = read<wire::Get>(request);
  if (!get) co_return get.error();
  const wire::Get& message = get->first;
  if (message.key.size() > kKeyBytesMax || !get->second.empty()) co_return Refusal(Errc::bad_request, "key");
  std::vector<Contact> contacts;
  if (message.contacts && contacts_ != nullptr) contacts = contacts_->pick(wire::kContactsMax, random_);
  co_return page_answer(*this, message, instance_, std::move(contacts));
}

Task<Answer> Server::on_watch(PeerId from, Frame request, TimePoint deadline) {
  auto get = read<wire::Get>(request);
  if (!get) co_return get.error();
  const wire::Get message = get->first;
  if (message.key.size() > kKeyBytesMax || !get->second.empty()) co_return Refusal(Errc::bad_request, "key");
  const Watcher watcher(*this, from, message.key);
  if (watcher.entry->second > options_.watches_per_peer_max) {
    co_return Refusal(Errc::busy, "too many watches", 1000);
  }
  if (form() == Form::routed && watcher.key->second.size() > options_.routing.watches_per_key_max) {
    co_return Refusal(Errc::busy, "too many watch this key", 1000);
  }
  if (distance(message.key) > 1) co_return Refusal(Errc::busy, "hears of this key from others only", 1000);
  const Duration wait = std::min<Duration>(std::chrono::milliseconds(message.wait_ms), options_.watch_wait_max);
  const TimePoint until = std::min(clock_.now() + wait, deadline);
  const std::uint64_t since = message.instance == instance_ ? message.since : 0;
  const TimePoint for_renewals = std::min(clock_.now() + options_.renewals_bundle, until);
  bool waited = false;
  const auto serves = [&] { return waits_ && distance(message.key) <= 1; };
  while (serves() && storage_.visible_version(message.key) <= since && clock_.now() < for_renewals) {
    waited = co_await signals_.wait_until(message.key, clock_, for_renewals);
  }
  while (serves() && storage_.latest(message.key) <= since && clock_.now() < until) {
    waited = co_await signals_.wait_until(message.key, clock_, until);
  }
  if (waited && waits_) {
    const TimePoint bundled = std::min(clock_.now() + options_.watch_bundle, until);
    co_await clock_.sleep_until(bundled);
  }
  co_return page_answer(*this, message, instance_, {});
}

Task<Answer> Server::on_exchange(Frame request) {
  co_return answer_exchange(storage_, *request);
}

Task<Answer> Server::on_find(PeerId from, Frame request) {
  auto find = read<wire::Find>(request);
  if (!find) co_return find.error();
  const wire::Find& message = find->first;
  if (message.key.size() > kKeyBytesMax) co_return Refusal(Errc::bad_request, "key");
  if (message.records > 1 || (message.records == 0 && !find->second.empty())) {
    co_return Refusal(Errc::bad_request, "records");
  }
  const bool whole = find->second.size() <= kRecordBytesMax + 4;
  if (!whole) co_return Refusal(Errc::bad_request, "records");
  table_.heard(from, clock_.now());
  meet(from, find->second, message.records);

  wire::Found found;
  found.serves = serves_;
  found.instance = instance_;
  Bytes payload;
  if (!message.key.empty() && message.values) {
    const std::uint64_t since = message.instance == instance_ ? message.since : 0;
    const auto page = storage_.page(message.key, since, unix_ms(), wire::kPageBytesMax);
    found.next = page.next;
    found.more = page.more;
    found.records = static_cast<std::uint32_t>(page.records.size());
    payload = wire::pack_records(page.records);
  }
  const std::size_t nodes = std::min<std::size_t>(message.nodes, wire::kNodesMax);
  const Place place = message.key.empty() ? message.place : this->place(message.key);
  for (const RoutingTable::Entry* entry : table_.nearest(place, nodes)) {
    if (entry->node.id == from) continue;
    append(payload, entry->packed);
    ++found.nodes;
  }
  const auto following = message.key.empty() ? std::vector<Bytes>() : followers(message.key, from);
  found.followers = static_cast<std::uint32_t>(following.size());
  for (const Bytes& follower : following) append(payload, follower);
  co_return frame::encode(wire::Header(found), payload);
}

/// The asker says who it is. It is checked only when there is room for it: signatures cost.
void Server::meet(const PeerId& from, std::span<const std::byte> payload, std::uint32_t records) {
  if (records == 0 || !table_.has_room_for(from)) return;
  auto record = wire::take_records(payload, records);
  if (!record || !payload.empty()) return;
  const Record& fact = record->front().record;
  if (fact.owner != from || fact.key != kPeerKey || !fact.subkey.empty()) return;
  const auto offered = accept(std::move(record->front()), Storage::Source::read);
  if (offered.outcome != Storage::Outcome::refused) admit({from, said_addresses(from)});
}

/// Some of those who watch the key here and can be dialled, once they are many.
std::vector<Bytes> Server::followers(const std::string& key, const PeerId& asker) {
  std::vector<Bytes> packed;
  const auto watched = watched_.find(key);
  if (watched == watched_.end() || distance(key) > 0 ||
      2 * watched->second.size() < options_.routing.watches_per_key_max)
    return packed;
  std::vector<PeerId> ids;
  for (const auto& [id, count] : watched->second) {
    if (id != asker) ids.push_back(id);
  }
  for (std::size_t i = 0; i < ids.size() && packed.size() < wire::kFollowersMax; ++i) {
    std::swap(ids[i], ids[i + random_.below(ids.size() - i)]);
    if (const RoutingTable::Entry* entry = table_.find(ids[i])) {
      packed.push_back(entry->packed);
      continue;
    }
    const RouteNode node{ids[i], said_addresses(ids[i])};
    const RouteNode* list = &node;
    if (!node.addresses.empty()) packed.push_back(wire::pack_nodes(std::span(&list, 1)));
  }
  return packed;
}

/// Where there are few, nobody asks them whether they are there, but their records say so.
void Server::forget_silent() {
  const auto before = clock_.now() - options_.routing.silent_max;
  for (const PeerId& id : table_.silent_since(before, table_.entries().size())) {
    const RoutingTable::Entry* entry = table_.find(id);
    if (entry->heard >= before || storage_.record(std::string(kPeerKey), id, unix_ms()) != nullptr) continue;
    table_.remove(id);
  }
}

Task<> Server::run() {
  // a node that has just become a server must not wait a whole period for what the others keep
  bool served = false;
  TimePoint next_compare = clock_.now();
  TimePoint next_hand_over = clock_.now();
  for (;;) {
    storage_.expire(unix_ms());
    forget_silent();
    if (clock_.now() >= next_hand_over) {
      next_hand_over = clock_.now() + options_.routing.hand_over_period;
      co_await hand_over_.turn();
    }
    const bool serves = form() != Form::routed && servers().contains(net_.self());
    if (serves && (!served || clock_.now() >= next_compare)) {
      co_await compare_with_all();
      const auto period = static_cast<std::uint64_t>(options_.compare_period.count());
      // +- 10 %, so that servers which started together do not stay together
      next_compare = clock_.now() + Duration(period - period / 10 + random_.below(period / 5 + 1));
    }
    served = serves;
    co_await clock_.sleep_until(clock_.now() + std::chrono::seconds(1));
  }
}

Task<> Server::compare_with_all() {
  std::vector<PeerId> others = servers().ids();
  std::erase(others, net_.self());
  for (std::size_t i = 0; i < others.size(); ++i) std::swap(others[i], others[i + random_.below(others.size() - i)]);
  if (others.size() > options_.compared_max) others.resize(options_.compared_max);
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (const PeerId& other : others) tasks.spawn("directory.compare", compare_with(other));
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<> Server::compare_with(PeerId other) {
  const TimePoint deadline = clock_.now() + options_.compare_timeout;
  const auto report = co_await reconcile(net_, *this, other, deadline);
  if (!report) {
    log_.debug("directory.compare_failed", {{"server", other.short_text()}, {"why", report.error().message()}});
  } else if (report->taken + report->given > 0) {
    log_.debug("directory.compared",
               {{"server", other.short_text()}, {"taken", report->taken}, {"given", report->given}});
  }
}

}  // namespace collab::directory
