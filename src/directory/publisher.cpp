#include "directory/publisher.hpp"

#include "directory/lease_record.hpp"

#include <algorithm>
#include <cassert>

namespace collab::directory {
namespace {

constexpr Duration kLookAgain = std::chrono::seconds(5);
constexpr Duration kLookForServer = std::chrono::milliseconds(250);  // that was lost

}  // namespace

Publisher::Publisher(Clock& clock, Random random, Log& log, asio::any_io_executor executor, const Identity& identity,
                     Server& server, Client& client, Router& router, PublisherOptions options)
    : clock_(clock),
      random_(random),
      log_(log),
      executor_(executor),
      identity_(identity),
      server_(server),
      client_(client),
      router_(router),
      options_(options),
      first_sequence_(static_cast<std::uint64_t>(std::max<std::int64_t>(0, server.unix_ms()))),
      wake_(executor),
      counted_(std::move(executor)) {}

/// The votes of one claim, for as long as it waits.
struct Publisher::Count {
  Count(Publisher& counting, Name of) : publisher(counting), name(std::move(of)) { publisher.tallies_[name]; }
  ~Count() { publisher.tallies_.erase(name); }
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;
  Tally& tally() const { return publisher.tallies_.at(name); }
  Publisher& publisher;
  Name name;
};

void Publisher::publish(const std::string& key, const std::string& subkey, Bytes value, Duration ttl) {
  assert(!value.empty() && value.size() <= kValueBytesMax && key.size() <= kKeyBytesMax &&
         subkey.size() <= kSubkeyBytesMax);
  const Name name(key, subkey);
  if (!publications_.contains(name) && publications_.size() >= options_.publications_max) {
    log_.error("directory.too_many_publications", {{"key", key}, {"publications_max", options_.publications_max}});
    return;
  }
  Publication& publication = publications_[name];
  publication.withdrawn = false;
  publication.ttl = std::min(ttl, options_.ttl_max);
  Record draft;
  draft.key = key;
  draft.subkey = subkey;
  draft.value = std::move(value);
  sign(publication, std::move(draft));
  wake_.notify();
}

void Publisher::withdraw(const std::string& key, const std::string& subkey) {
  const auto found = publications_.find({key, subkey});
  if (found == publications_.end() || found->second.withdrawn) return;
  Publication& publication = found->second;
  publication.withdrawn = true;
  // an empty record takes its place until the last full one has expired, so that no server brings that back
  Record draft = publication.record.record;
  draft.value.clear();
  sign(publication, std::move(draft));
  wake_.notify();
}

Task<Result<>> Publisher::claim(std::string key, std::string subkey, Bytes value, Duration ttl, TimePoint deadline) {
  const Name name(key, subkey);
  if (tallies_.contains(name)) co_return Errc::busy;
  Bytes before;
  if (const auto found = publications_.find(name); found != publications_.end() && !found->second.withdrawn)
    before = found->second.record.record.value;
  Record draft;
  draft.key = key;
  draft.subkey = subkey;
  draft.owner = identity_.id();
  draft.value = value;
  const bool ours_is_free = !server_.storage().claims_anothers(draft, server_.unix_ms());
  publish(key, subkey, value, ttl);
  const auto published = publications_.find(name);
  if (published == publications_.end()) co_return Errc::busy;

  const Count count(*this, name);
  count.tally().sequence = published->second.record.record.sequence;
  (ours_is_free ? count.tally().taken : count.tally().refused).insert(identity_.id());
  auto decided = verdict(key, count.tally());
  TimePoint settled = settled_at(key);
  while (clock_.now() < deadline) {
    const bool too_soon = decided && *decided && clock_.now() < settled;
    if (decided && !too_soon) break;
    const TimePoint until = too_soon ? std::min(settled, deadline) : deadline;
    co_await counted_.wait_until(clock_, until);
    decided = verdict(key, count.tally());
    settled = settled_at(key);
  }
  if (decided && *decided && clock_.now() < settled) decided.reset();
  const auto now = publications_.find(name);
  const bool replaced = now == publications_.end() || now->second.record.record.value != value;
  const Result<> result = replaced ? Result<>(Errc::stale) : decided ? *decided : Result<>(Errc::late);
  if (result || replaced) co_return result;
  if (before.empty()) {
    withdraw(key, subkey);
  } else {
    publish(key, subkey, std::move(before), ttl);
  }
  co_return result;
}

/// By the servers of this moment; nobody's vote counts who is none of them. Empty: not decided yet.
std::optional<Result<>> Publisher::verdict(const std::string& key, const Tally& tally) const {
  bool all_say_yes = true;
  bool serves = false;
  for (const std::vector<PeerId>& servers : router_.quorums(key)) {
    const auto votes = [&](const std::set<PeerId>& voters) {
      return 2 * std::count_if(servers.begin(), servers.end(), [&](const PeerId& id) { return voters.contains(id); });
    };
    const auto all = static_cast<std::ptrdiff_t>(servers.size());
    if (all > 0 && votes(tally.refused) >= all) return Result<>(Errc::denied);
    all_say_yes = all_say_yes && votes(tally.taken) > all;
    serves = serves || std::find(servers.begin(), servers.end(), identity_.id()) != servers.end();
  }
  if (all_say_yes) return Result<>();
  if (router_.targets(key).empty() && !serves) return Result<>(Errc::gone);
  return std::nullopt;
}

TimePoint Publisher::settled_at(const std::string& key) {
  see_servers();
  const TimePoint since = server_.form() == Form::routed ? TimePoint() : servers_since_;
  return std::max(since, router_.moved_at(key)) + options_.settled;
}

void Publisher::see_servers() {
  if (server_.form() == Form::routed) return;
  const std::vector<PeerId>& servers = server_.servers().ids();
  if (servers == seen_servers_) return;
  seen_servers_ = servers;
  servers_since_ = clock_.now();
}

/// Gives the draft the next sequence, and an expiry unless it is a withdrawal; keeps it here.
void Publisher::sign(Publication& publication, Record draft) {
  draft.sequence = std::max(first_sequence_, publication.record.record.sequence + 1);
  const auto ttl_ms = std::chrono::duration_cast<std::chrono::milliseconds>(publication.ttl).count();
  if (!publication.withdrawn) draft.expires_ms = server_.unix_ms() + ttl_ms;
  draft.owner = identity_.id();
  if (const SignedRecord* here = server_.storage().find(slot_of(draft))) {
    draft.sequence = std::max(draft.sequence, here->record.sequence + 1);
  }
  publication.record = sign_record(identity_, server_.rules().run, std::move(draft));
  ++changes_;
  publication.renew_at = publication.withdrawn ? TimePoint::max() : clock_.now() + publication.ttl / 3;
  const auto offered = server_.accept(publication.record, Storage::Source::own);
  if (offered.outcome == Storage::Outcome::refused) {
    log_.warn("directory.own_record_refused",
              {{"key", publication.record.record.key}, {"why", offered.refusal.reason}});
  }
}

void Publisher::renew_what_is_due() {
  const std::int64_t now_ms = server_.unix_ms();
  for (auto next = publications_.begin(); next != publications_.end();) {
    Publication& publication = next->second;
    const bool over = publication.withdrawn && publication.record.record.expires_ms < now_ms;
    if (over) {
      for (auto& [server, feed] : feeds_) feed.delivered.erase(next->first);
      next = publications_.erase(next);
      continue;
    }
    if (clock_.now() >= publication.renew_at) sign(publication, publication.record.record);
    ++next;
  }
}

TimePoint Publisher::next_renewal() const {
  // every second at the latest: servers come and go, withdrawn records end
  TimePoint next = clock_.now() + std::chrono::seconds(1);
  for (const auto& [name, publication] : publications_) next = std::min(next, publication.renew_at);
  return next;
}

Task<> Publisher::run() {
  feeds_.clear();
  ++changes_;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (;;) {
      renew_what_is_due();
      wake_.notify();
      for (const PeerId& server : hungry()) {
        feeds_[server].running = true;
        tasks.spawn("directory.feed", feed(server));
      }
      see_servers();
      const TimePoint next = next_renewal();
      co_await wake_.wait_until(clock_, next);
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

std::vector<PeerId> Publisher::hungry() {
  std::vector<PeerId> hungry;
  const auto is_running = [&](const PeerId& server) {
    const auto found = feeds_.find(server);
    return found != feeds_.end() && found->second.running;
  };
  const Form form = server_.form();
  if (form != Form::routed) {
    for (const PeerId& server : client_.others()) {
      if (!is_running(server)) hungry.push_back(server);
    }
  }
  if (form == Form::whole) return hungry;
  // what a look-up has found stays so until the next one; what is guessed meanwhile is looked at now and then
  const std::uint64_t changes = changes_ + router_.moves();
  if (form == Form::routed && changes == looked_through_ && clock_.now() < look_again_) return hungry;
  std::set<PeerId> nodes;
  std::set<PeerId> lacking;
  for (const auto& [name, publication] : publications_) {
    for (const PeerId& node : router_.targets(name.first)) {
      nodes.insert(node);
      if (!is_running(node) && !delivered(node, name, publication)) lacking.insert(node);
    }
  }
  for (const PeerId& node : lacking) {
    if (std::find(hungry.begin(), hungry.end(), node) == hungry.end()) hungry.push_back(node);
  }
  looked_through_ = changes;
  look_again_ = clock_.now() + kLookAgain;
  // whoever keeps nothing of ours any more gets everything if he comes back
  std::erase_if(feeds_, [&](const auto& feed) { return !feed.second.running && !nodes.contains(feed.first); });
  return hungry;
}

bool Publisher::delivered(const PeerId& server, const Name& name, const Publication& publication) const {
  const auto feed = feeds_.find(server);
  if (feed == feeds_.end()) return false;
  const auto delivered = feed->second.delivered.find(name);
  if (delivered == feed->second.delivered.end()) return false;
  const auto instance = client_.instance_of(server);
  const bool restarted = instance && delivered->second.instance != instance;
  return !restarted && delivered->second.sequence >= publication.record.record.sequence;
}

bool Publisher::is_fed_always(const PeerId& server) const {
  return server_.form() != Form::routed && server_.servers().contains(server);
}

Task<> Publisher::feed(PeerId server) {
  Duration retry = options_.retry_min;
  for (;;) {
    std::vector<SignedRecord> records = pending(server);
    if (records.empty() && !is_fed_always(server)) break;
    if (records.empty()) {
      const TimePoint tick = clock_.now() + std::chrono::seconds(1);
      co_await wake_.wait_until(clock_, tick);
      continue;
    }
    const TimePoint deadline = clock_.now() + options_.put_timeout;
    const auto written = co_await client_.put(server, records, deadline);
    Duration pause{};
    if (written) {
      retry = options_.retry_min;
      pause = take_outcomes(server, records, *written);
    } else {
      log_.debug("directory.put_failed", {{"server", server.short_text()}, {"why", written.error().message()}});
      // +- 25 %, so that a server that comes back is not met by all at once
      const auto spread = static_cast<std::uint64_t>(retry.count() / 2);
      pause = retry * 3 / 4 + Duration(random_.below(spread + 1));
      retry = std::min(retry * 2, options_.retry_max);
    }
    if (pause > Duration(0)) co_await rest(server, clock_.now() + pause);
  }
  feeds_.at(server).running = false;
  ++changes_;
  if (server_.form() == Form::whole) feeds_.erase(server);
}

/// Ends when a lost server is met again, by whatever asked it: what it needs of us is not to wait for our patience.
Task<> Publisher::rest(PeerId server, TimePoint until) {
  const bool lost = !client_.connected(server);
  while (clock_.now() < until && !(lost && client_.connected(server)))
    co_await clock_.sleep_until(std::min(until, clock_.now() + kLookForServer));
}

std::vector<SignedRecord> Publisher::pending(const PeerId& server) const {
  std::vector<SignedRecord> records;
  const bool all = is_fed_always(server);
  for (const auto& [name, publication] : publications_) {
    if (records.size() == wire::kPutRecordsMax) return records;
    if (delivered(server, name, publication)) continue;
    if (all || router_.keeps(server, name.first)) records.push_back(publication.record);
  }
  if (!all) return records;
  for (SignedRecord& known : client_.take_lacking(server, wire::kPutRecordsMax - records.size())) {
    if (known.record.owner != identity_.id()) records.push_back(std::move(known));
  }
  return records;
}

Duration Publisher::take_outcomes(const PeerId& server, const std::vector<SignedRecord>& sent,
                                  const Client::Written& written) {
  Duration pause{};
  auto newer = written.newer.begin();
  Feed& feed = feeds_.at(server);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const Record& record = sent[i].record;
    const wire::Outcome& outcome = written.outcomes[i];
    const bool stands_in_the_way = outcome.code == 1 && newer != written.newer.end();
    const SignedRecord* proof = stands_in_the_way ? &*newer++ : nullptr;
    if (record.owner != identity_.id()) continue;
    if (proof != nullptr) go_above(*proof);
    if (outcome.code == 1 + static_cast<int>(Errc::busy)) {
      const auto wait = std::chrono::milliseconds(std::clamp<std::uint64_t>(outcome.number, 100, 10'000));
      pause = std::max<Duration>(pause, wait);
      continue;
    }
    if (const auto tally = tallies_.find({record.key, record.subkey});
        tally != tallies_.end() && record.sequence >= tally->second.sequence && outcome.code != 1) {
      (outcome.code == 0 ? tally->second.taken : tally->second.refused).insert(server);
      counted_.notify();
    }
    if (outcome.code == 1 + static_cast<int>(Errc::denied) && is_lease_key(record.key)) {
      log_.debug("directory.lease_refused", {{"server", server.short_text()}, {"key", record.key}});
    } else if (outcome.code > 1) {
      log_.warn("directory.put_refused",
                {{"server", server.short_text()}, {"key", record.key}, {"why", outcome.reason}});
    }
    Delivered& delivered = feed.delivered[{record.key, record.subkey}];
    delivered.sequence = std::max(delivered.sequence, record.sequence);
    delivered.instance = client_.instance_of(server);
  }
  return pause;
}

/// A server holds a record of ours that it takes for newer: of this node before a restart, when the clock was ahead.
void Publisher::go_above(const SignedRecord& newer) {
  const Record& record = newer.record;
  const auto found = publications_.find({record.key, record.subkey});
  if (found == publications_.end() || record.owner != identity_.id()) return;
  if (record.sequence < found->second.record.record.sequence) return;
  // only our own signature moves us: anybody could name a number
  if (!check_authorship(newer, encode(newer), server_.rules())) return;
  Publication& publication = found->second;
  Record draft = publication.record.record;
  publication.record.record.sequence = record.sequence;
  sign(publication, std::move(draft));
  log_.info("directory.went_above", {{"key", record.key}, {"sequence", publication.record.record.sequence}});
  wake_.notify();
}

}  // namespace collab::directory
