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
void name_servers(Message& message, Bytes& payload, const ServerSet& servers, const Storage& storage,
                  std::uint64_t asker_knows, std::int64_t now_ms) {
  message.servers = servers.hash();
  if (asker_knows == message.servers) return;
  auto records = servers.records(storage, now_ms);
  if (records.size() > wire::kServersMax) records.resize(wire::kServersMax);
  message.known = static_cast<std::uint32_t>(records.size());
  append(payload, wire::pack_records(records));
}

Answer page_answer(const Storage& storage, const ServerSet& servers, const wire::Get& get, std::uint64_t instance,
                   std::vector<Contact> contacts, std::int64_t now_ms) {
  const std::uint64_t since = get.instance == instance ? get.since : 0;
  const auto page = storage.page(get.key, since, now_ms, wire::kPageBytesMax);
  wire::Page answer;
  answer.instance = instance;
  answer.next = page.next;
  answer.more = page.more;
  answer.records = static_cast<std::uint32_t>(page.records.size());
  Bytes payload = wire::pack_records(page.records);
  name_servers(answer, payload, servers, storage, get.servers, now_ms);
  for (const Contact& contact : contacts) answer.contacts.push_back(known_peer(contact));
  return frame::encode(wire::Header(std::move(answer)), payload);
}

}  // namespace

/// Counts one peer's watches for as long as they last.
struct Server::Watcher {
  Watcher(Server& server, const PeerId& peer) : owner(server), entry(server.watches_.try_emplace(peer).first) {
    ++entry->second;
  }
  ~Watcher() {
    if (--entry->second == 0) owner.watches_.erase(entry);
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  Server& owner;
  std::map<PeerId, std::size_t>::iterator entry;
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
      instance_(random_.next()) {
  register_methods();
}

void Server::register_methods() {
  net::Method put;
  put.name = "directory.put";
  put.traffic = net::TrafficClass::control;
  put.request_bytes_max = wire::kPutBytesMax;
  put.answer_bytes_max = wire::kAnswerBytesMax;
  net::Method get = put;
  get.name = "directory.get";
  get.request_bytes_max = 4096;
  get.idempotent = true;
  net::Method watch = get;
  watch.name = "directory.watch";
  net::Method exchange = put;
  exchange.name = "directory.exchange";
  exchange.claim = Claim::directory;

  net_.handle(put, [this](PeerId from, Frame request, TimePoint) { return on_put(from, std::move(request)); });
  net_.handle(get, [this](PeerId, Frame request, TimePoint) { return on_get(std::move(request)); });
  net_.handle(watch, [this](PeerId from, Frame request, TimePoint deadline) {
    return on_watch(from, std::move(request), deadline);
  });
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
  if (offered.outcome == Storage::Outcome::stored) signals_.notify(key);
  return offered;
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
  const bool counts = options_.origin && !servers().contains(from);
  const std::string origin = counts ? options_.origin(from) : std::string();
  wire::Stored stored;
  std::vector<const SignedRecord*> in_the_way;
  std::vector<SlotId> slots;
  for (SignedRecord& record : *records) {
    const SlotId slot = slot_of(record.record);
    const bool own = record.record.owner == from;
    const auto source = own ? Storage::Source::put : Storage::Source::handed_on;
    const auto offered = accept(std::move(record), source, origin);
    stored.outcomes.push_back(outcome_of(offered));
    if (offered.outcome == Storage::Outcome::older) slots.push_back(slot);
  }
  for (const SlotId& slot : slots) in_the_way.push_back(storage_.find(slot));
  stored.newer = static_cast<std::uint32_t>(in_the_way.size());
  Bytes answer = wire::pack_records(in_the_way);
  name_servers(stored, answer, servers(), storage_, message.servers, unix_ms());
  co_return frame::encode(wire::Header(std::move(stored)), answer);
}

Task<Answer> Server::on_get(Frame request) {
  auto get = read<wire::Get>(request);
  if (!get) co_return get.error();
  const wire::Get& message = get->first;
  if (message.key.size() > kKeyBytesMax || !get->second.empty()) co_return Refusal(Errc::bad_request, "key");
  std::vector<Contact> contacts;
  if (message.contacts && contacts_ != nullptr) contacts = contacts_->pick(wire::kContactsMax, random_);
  co_return page_answer(storage_, servers(), message, instance_, std::move(contacts), unix_ms());
}

Task<Answer> Server::on_watch(PeerId from, Frame request, TimePoint deadline) {
  auto get = read<wire::Get>(request);
  if (!get) co_return get.error();
  const wire::Get message = get->first;
  if (message.key.size() > kKeyBytesMax || !get->second.empty()) co_return Refusal(Errc::bad_request, "key");
  const Watcher watcher(*this, from);
  if (watcher.entry->second > options_.watches_per_peer_max) {
    co_return Refusal(Errc::busy, "too many watches", 1000);
  }
  const Duration wait = std::min<Duration>(std::chrono::milliseconds(message.wait_ms), options_.watch_wait_max);
  const TimePoint until = std::min(clock_.now() + wait, deadline);
  const std::uint64_t since = message.instance == instance_ ? message.since : 0;
  const TimePoint for_renewals = std::min(clock_.now() + options_.renewals_bundle, until);
  bool waited = false;
  while (waits_ && storage_.visible_version(message.key) <= since && clock_.now() < for_renewals) {
    waited = co_await signals_.wait_until(message.key, clock_, for_renewals);
  }
  while (waits_ && storage_.latest(message.key) <= since && clock_.now() < until) {
    waited = co_await signals_.wait_until(message.key, clock_, until);
  }
  if (waited && waits_) {
    const TimePoint bundled = std::min(clock_.now() + options_.watch_bundle, until);
    co_await clock_.sleep_until(bundled);
  }
  co_return page_answer(storage_, servers(), message, instance_, {}, unix_ms());
}

Task<Answer> Server::on_exchange(Frame request) {
  co_return answer_exchange(storage_, *request);
}

Task<> Server::run() {
  // a node that has just become a server must not wait a whole period for what the others keep
  bool served = false;
  TimePoint next_compare = clock_.now();
  for (;;) {
    storage_.expire(unix_ms());
    const bool serves = servers().contains(net_.self());
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
