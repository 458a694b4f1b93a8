#include "directory/swarm_directory.hpp"

#include "base/file.hpp"
#include "base/offload.hpp"
#include "base/task_group.hpp"
#include "directory/peer_record.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace collab::directory {
namespace {

/// What went wrong; empty: nothing. The node goes on without the file, so its failure stops here.
std::string save(const std::filesystem::path& file, const std::string& text) {
  try {
    write_file(file, text);
    return {};
  } catch (const Failure& failure) {
    return failure.cause();
  }
}

std::vector<Record> copied(const std::vector<const SignedRecord*>& current) {
  std::vector<Record> records;
  records.reserve(current.size());
  for (const SignedRecord* record : current) records.push_back(record->record);
  return records;
}

/// `records`: sorted by (owner, subkey).
void bring(std::vector<Record>& records, const Record& changed, std::int64_t now_ms) {
  const auto place = [](const Record& record) { return std::tie(record.owner, record.subkey); };
  const auto before = [&](const Record& a, const Record& b) { return place(a) < place(b); };
  const auto at = std::lower_bound(records.begin(), records.end(), changed, before);
  const bool here = at != records.end() && place(*at) == place(changed);
  const bool visible = changed.expires_ms > now_ms && !changed.value.empty();
  if (here && visible) {
    *at = changed;
  } else if (here) {
    records.erase(at);
  } else if (visible) {
    records.insert(at, changed);
  }
}

}  // namespace

/// Of all watches of one key the list is one: a large swarm's is long, and some keys are watched by several.
class SwarmDirectory::View final : public Watch {
 public:
  View(SwarmDirectory& directory, std::string key)
      : directory_(directory), key_(std::move(key)), followed_(directory_.follow(key_)), pace_(followed_.paces.end()) {
    relax(Duration::zero());
  }
  ~View() override {
    followed_.paces.erase(pace_);
    directory_.unfollow(key_);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  const std::vector<Record>& records() const override {
    directory_.look(key_, followed_);
    seen_ = followed_.changes;
    return followed_.records;
  }

  Task<bool> changed_until(TimePoint deadline) override {
    for (;;) {
      directory_.look(key_, followed_);
      if (std::exchange(seen_, followed_.changes) != followed_.changes) co_return true;
      if (directory_.clock_.now() >= deadline) co_return false;
      const TimePoint until = std::min(deadline, next_expiry());
      co_await directory_.server_.signals().wait_until(key_, directory_.clock_, until);
    }
  }

  void relax(Duration pace) override {
    if (pace_ != followed_.paces.end()) followed_.paces.erase(pace_);
    pace_ = followed_.paces.insert(pace);
  }

 private:
  TimePoint next_expiry() const {
    const std::int64_t wait_ms = followed_.next_expiry_ms - directory_.server_.unix_ms();
    if (wait_ms > 3'600'000) return TimePoint::max();
    return directory_.clock_.now() + std::chrono::milliseconds(std::max<std::int64_t>(wait_ms, 1));
  }

  SwarmDirectory& directory_;
  std::string key_;
  Followed& followed_;
  std::multiset<Duration>::iterator pace_;
  mutable std::uint64_t seen_ = 0;  // of its changes
};

SwarmDirectory::SwarmDirectory(net::Endpoint& net, Clock& clock, Random random, Log& log, asio::any_io_executor loop,
                               asio::any_io_executor workers, const Identity& identity, Server& server,
                               Contacts& contacts, SwarmDirectoryOptions options)
    : net_(net),
      clock_(clock),
      random_(random),
      log_(log),
      loop_(loop),
      workers_(std::move(workers)),
      server_(server),
      contacts_(contacts),
      options_(std::move(options)),
      client_(net, clock, random.derive("client"), server, contacts),
      router_(net, clock, random.derive("router"), log, loop, server, client_, options_.router),
      publisher_(clock, random.derive("publisher"), log, loop, identity, server, client_, router_, options_.publisher),
      followed_changed_(loop),
      released_(loop),
      met_(loop) {
  server_.share(&contacts_);
  for (Contact& contact : contacts_.all()) net_.introduce(contact.id, std::move(contact.addresses));
}

Task<> SwarmDirectory::run() {
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("directory.publish", publisher_.run());
    tasks.spawn("directory.probe", probe_contacts());
    tasks.spawn("directory.contacts", keep_contacts());
    tasks.spawn("directory.reachable", tell_when_unreachable());
    tasks.spawn("directory.route", router_.run());
    std::unique_ptr<Watch> members;
    for (;;) {
      // who the servers are follows from it; nodes that are found by their places need not know everybody
      if (server_.form() == Form::routed) {
        members.reset();
      } else if (!members) {
        members = watch(std::string(kPeerKey));
        members->relax(kMembersPace);
      }
      for (auto& [key, followed] : followed_) {
        if (!std::exchange(followed.running, true)) tasks.spawn("directory.follow", keep_followed(key));
      }
      const TimePoint look = clock_.now() + std::chrono::seconds(1);
      co_await followed_changed_.wait_until(clock_, look);
    }
  };
  for (auto& [key, followed] : followed_) followed.running = false;
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

void SwarmDirectory::publish(std::string key, std::string subkey, Bytes value, Duration ttl) {
  publisher_.publish(key, subkey, std::move(value), ttl);
}

void SwarmDirectory::withdraw(const std::string& key, const std::string& subkey) {
  publisher_.withdraw(key, subkey);
}

Task<Result<>> SwarmDirectory::claim(std::string key, std::string subkey, Bytes value, Duration ttl,
                                     TimePoint deadline) {
  co_await router_.locate(key, deadline);
  co_return co_await publisher_.claim(std::move(key), std::move(subkey), std::move(value), ttl, deadline);
}

std::unique_ptr<Watch> SwarmDirectory::watch(std::string key) {
  return std::make_unique<View>(*this, std::move(key));
}

Task<> SwarmDirectory::hand_on(std::vector<SignedRecord> records) {
  for (const SignedRecord& record : records) {
    const auto offered = server_.accept(record, Storage::Source::read);
    if (offered.outcome == Storage::Outcome::refused)
      log_.debug("directory.not_handed_on", {{"key", record.record.key}, {"why", offered.refusal.reason}});
  }
  std::map<PeerId, std::vector<SignedRecord>> due;
  for (const SignedRecord& record : records) {
    for (const PeerId& server : router_.targets(record.record.key)) due[server].push_back(record);
  }
  const auto put = [this, &due](PeerId server) -> Task<> {
    const std::vector<SignedRecord>& all = due.at(server);
    for (std::size_t first = 0; first < all.size(); first += wire::kPutRecordsMax) {
      const std::size_t last = std::min(all.size(), first + wire::kPutRecordsMax);
      std::vector<SignedRecord> some(all.data() + first, all.data() + last);
      (void)co_await client_.put(server, std::move(some), clock_.now() + options_.poll_timeout);
    }
  };
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (const auto& [server, all] : due) tasks.spawn("directory.hand_on", put(server));
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

bool SwarmDirectory::connected() const {
  // a bootstrap node is the run, even when nobody else is there
  if (server_.is_bootstrap(net_.self())) return true;
  const auto answered = client_.answered_at();
  return answered && clock_.now() - *answered <= options_.connected_window;
}

TimePoint SwarmDirectory::steady_since() const {
  // of a large swarm some are always there, whom nobody is connected to for long; and the others come to one that
  // serves
  if (server_.form() == Form::routed) return TimePoint::min();
  const ServerSet& servers = server_.servers();
  if (servers.contains(net_.self())) return TimePoint::min();
  TimePoint since = TimePoint::max();
  for (const PeerId& server : servers.ids()) {
    const net::LinkState link = net_.link(server);
    if (link.connected) since = std::min(since, link.back_at == TimePoint() ? TimePoint::min() : link.back_at);
  }
  return since;
}

std::vector<Record> SwarmDirectory::current(const std::string& key) const {
  std::vector<Record> records;
  for (const SignedRecord* record : server_.storage().records(key, server_.unix_ms())) {
    records.push_back(record->record);
  }
  return records;
}

/// Reads on the way to the key's place, until two who keep it have answered with records, or all who do.
Task<bool> SwarmDirectory::get_routed(std::string key, TimePoint deadline) {
  Router::Question question;
  question.place = server_.place(key);
  question.key = std::move(key);
  question.values = true;
  question.width = server_.routing().replicas;
  question.copies = options_.polled_servers;
  const auto report = co_await router_.look_up(std::move(question), deadline);
  co_return report.answered > 0;
}

Task<Result<std::vector<Record>>> SwarmDirectory::get(std::string key, TimePoint deadline) {
  bool found = false;
  if (server_.form() != Form::whole) found = co_await get_routed(key, deadline);
  if (found && server_.form() == Form::routed) co_return current(key);
  std::vector<PeerId> untried = client_.others();
  bool answered = untried.empty() && connected() && server_.servers().contains(net_.self());
  while (!answered && !untried.empty() && clock_.now() < deadline) {
    // a frozen server must not use up the whole deadline while others could answer
    const TimePoint until = std::min(deadline, clock_.now() + options_.poll_timeout);
    const auto count = std::min(options_.polled_servers, untried.size());
    std::vector<PeerId> asked(untried.end() - static_cast<std::ptrdiff_t>(count), untried.end());
    untried.resize(untried.size() - count);
    const Heard heard = co_await ask(key, std::move(asked), false, until);
    answered = heard.answered > 0;
  }
  if (!answered && !found) co_return clock_.now() >= deadline ? Errc::late : Errc::gone;
  co_return current(key);
}

SwarmDirectory::Followed& SwarmDirectory::follow(const std::string& key) {
  Followed& followed = followed_[key];
  if (++followed.watches == 1) followed_changed_.notify();
  return followed;
}

void SwarmDirectory::unfollow(const std::string& key) {
  const auto found = followed_.find(key);
  if (--found->second.watches > 0) return;
  if (!found->second.running) followed_.erase(found);
  released_.notify(key);
}

/// A renewal is no change, an expiry is. Of many records few have changed since the last look.
void SwarmDirectory::look(const std::string& key, Followed& followed) const {
  const Storage& storage = server_.storage();
  const std::int64_t now_ms = server_.unix_ms();
  const std::uint64_t version = storage.visible_version(key);
  const bool expired = now_ms >= followed.next_expiry_ms;
  if (version == followed.version && !expired) return;
  const std::size_t size_before = followed.records.size();
  if (expired) {
    followed.records = copied(storage.records(key, now_ms));
    followed.next_expiry_ms = std::numeric_limits<std::int64_t>::max();
    for (const Record& record : followed.records)
      followed.next_expiry_ms = std::min(followed.next_expiry_ms, record.expires_ms);
  } else {
    for (const SignedRecord* changed : storage.changed(key, followed.newest)) {
      bring(followed.records, changed->record, now_ms);
      followed.next_expiry_ms = std::min(followed.next_expiry_ms, changed->record.expires_ms);
    }
  }
  followed.newest = std::max(followed.newest, storage.latest(key));
  if (version != followed.version || followed.records.size() != size_before) ++followed.changes;
  followed.version = version;
}

/// Follows one key for as long as somebody watches it.
Task<> SwarmDirectory::keep_followed(std::string key) {
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("directory.long_poll", long_poll(key));
    tasks.spawn("directory.poll", poll(key));
    while (followed_.at(key).watches > 0) co_await released_.wait_until(key, clock_, TimePoint::max());
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  server_.pass_on(key, false);
  const auto found = followed_.find(key);
  found->second.running = false;
  // while the tasks unwound somebody may have come back
  if (found->second.watches == 0) {
    followed_.erase(found);
  } else {
    followed_changed_.notify();
  }
}

/// As its most impatient watch wants it.
Duration SwarmDirectory::pace_of(const std::string& key) const {
  const auto& paces = followed_.at(key).paces;
  return paces.empty() ? Duration::zero() : *paces.begin();
}

Task<> SwarmDirectory::long_poll(std::string key) {
  std::optional<PeerId> server;
  std::set<PeerId> full;  // those who have watchers enough: others, who watch there, are asked instead
  // Else whoever was the first to be known would serve everybody for ever; who knows only one looks soon.
  TimePoint drawn_anew{};
  Duration told{};
  for (;;) {
    auto others = router_.sources(key);
    for (const PeerId& follower : router_.followers(key)) others.push_back(follower);
    const bool stays =
        server && clock_.now() < drawn_anew && std::find(others.begin(), others.end(), *server) != others.end();
    if (!stays) {
      told = Duration();
      // a dial in vain takes seconds, in which nothing new would come
      const auto may_answer = [&](const PeerId& id) { return !lately_lost(id); };
      std::stable_partition(others.begin(), others.end(), may_answer);
      const auto free =
          std::find_if(others.begin(), others.end(), [&](const PeerId& id) { return !full.contains(id); });
      server = free == others.end() ? std::nullopt : std::optional(*free);
      server_.pass_on(key, false);  // before it is asked: two who ask each other are both refused
      if (!server && !full.empty()) router_.look_again(key);  // whoever came before may be watched by now
      if (!server) full.clear();
      const auto stay = static_cast<std::uint64_t>(options_.watch_stay.count()) / (others.size() > 1 ? 1 : 4);
      drawn_anew = clock_.now() + Duration(stay / 2 + random_.below(stay + 1));
    }
    if (!server) {
      co_await clock_.sleep_until(clock_.now() + options_.retry);
      continue;
    }
    Client::Question question;
    question.key = key;
    question.from = followed_.at(key).cursors[*server];
    question.wait = options_.watch_wait;
    question.tells = question.from == Cursor();  // it would tell all that others have told
    const TimePoint asked_at = clock_.now();
    const TimePoint deadline = asked_at + options_.watch_wait + options_.watch_grace;
    const bool failed_before = client_.failing(*server);
    const auto read = co_await client_.read(*server, std::move(question), deadline);
    if (read) {
      server_.pass_on(key, read->distance == 0 && server_.form() == Form::routed);
      auto& cursor = followed_.at(key).cursors[*server];
      const bool nothing_new = read->next == cursor;
      cursor = read->next;
      // who keeps the key too has most of it from the owners, so it need not ask for each record once more
      const bool is_told =
          server_.distance(key) == 0 && !read->more && read->records > 0 && 4 * read->news <= read->records;
      if (is_told) told = std::clamp(2 * told, options_.retry, options_.told_pause);
      if (read->news > 0 && !is_told) told = Duration();
      // a server that answers at once without news must not keep us busy
      Duration pause = std::max(pace_of(key), told);
      if (nothing_new && clock_.now() < asked_at + options_.watch_wait / 4) pause = std::max(pause, options_.retry);
      if (pause > Duration::zero()) co_await clock_.sleep_until(clock_.now() + pause);
      continue;
    }
    if (!failed_before) tell_failed("directory.watch_failed", *server, read.error());
    server_.pass_on(key, false);
    if (read.error() == Errc::busy) full.insert(*server);
    server.reset();
    co_await clock_.sleep_until(clock_.now() + options_.retry);
  }
}

/// Once, until it answers: a server that died is asked five times a second for each key.
void SwarmDirectory::tell_failed(std::string_view event, const PeerId& server, boost::system::error_code why) {
  log_.debug(event, {{"server", server.short_text()}, {"why", why.message()}});
}

bool SwarmDirectory::lately_lost(const PeerId& server) const {
  const net::LinkState link = net_.link(server);
  return !link.connected && link.lost_at != TimePoint() && clock_.now() < link.lost_at + options_.lost_for;
}

std::vector<PeerId> SwarmDirectory::polled(const std::string& key) {
  std::vector<PeerId> servers = router_.followers(key);
  std::size_t count = 1;
  if (servers.empty()) {
    servers = router_.sources(key);
    count = options_.polled_servers;
  }
  if (servers.size() > count) servers.resize(count);
  return servers;
}

/// A poll guards against a server that does not say everything. As long as it brings nothing that the watch, which goes
/// from server to server, has not brought before, it comes more seldom.
Task<> SwarmDirectory::poll(std::string key) {
  unsigned doublings = 0;
  for (;;) {
    std::vector<PeerId> servers = polled(key);
    const bool crowded = !router_.followers(key).empty();
    const bool any = !servers.empty();
    const bool contacts = any && (!contacts_asked_ || clock_.now() - *contacts_asked_ >= options_.contacts_period);
    if (contacts) contacts_asked_ = clock_.now();
    const TimePoint deadline = clock_.now() + options_.poll_timeout;
    Heard heard = co_await ask(key, std::move(servers), contacts, deadline);
    if (crowded && heard.answered == 0) {  // who follows it no more may be behind
      std::vector<PeerId> keepers = router_.sources(key);
      if (keepers.size() > 1) keepers.resize(1);
      heard = co_await ask(key, std::move(keepers), false, deadline);
    }
    // servers that are gone by now are asked from their beginning if they come back
    auto& cursors = followed_.at(key).cursors;
    const auto followers = router_.followers(key);
    std::erase_if(cursors, [&](const auto& entry) {
      const bool follows = std::find(followers.begin(), followers.end(), entry.first) != followers.end();
      return !follows && !router_.keeps(entry.first, key);
    });
    const auto period = static_cast<std::uint64_t>((crowded ? options_.crowded_period : options_.poll_period).count());
    const bool calm = heard.answered > 0 && heard.news == 0 && server_.form() == Form::routed;
    if (!calm) doublings = 0;
    const auto about = static_cast<Duration::rep>(period - period / 10 + random_.below(period / 5 + 1));
    const Duration pause = heard.answered > 0 ? Duration(about << doublings) : options_.retry;
    co_await rest(pause);
    if (calm) doublings = std::min(doublings + 1, options_.calm_doublings);
  }
}

/// Ends sooner when nobody has answered anything for as long as a poll's period: who is cut off is to notice it.
Task<> SwarmDirectory::rest(Duration pause) {
  const TimePoint end = clock_.now() + pause;
  const TimePoint first = clock_.now() + std::min(pause, options_.poll_period);
  co_await clock_.sleep_until(first);
  while (clock_.now() < end) {
    const TimePoint heard = client_.answered_at().value_or(TimePoint());
    if (clock_.now() - heard >= options_.poll_period) co_return;
    co_await clock_.sleep_until(std::min(end, heard + options_.poll_period));
  }
}

/// Asks all of them side by side.
Task<SwarmDirectory::Heard> SwarmDirectory::ask(std::string key, std::vector<PeerId> servers, bool contacts,
                                                TimePoint deadline) {
  Heard heard;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (const PeerId& server : servers) {
      tasks.spawn("directory.ask", ask_one(key, server, contacts, deadline, heard));
    }
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return heard;
}

/// All pages since the last time; from the beginning for a key that nobody watches.
Task<> SwarmDirectory::ask_one(std::string key, PeerId server, bool contacts, TimePoint deadline, Heard& heard) {
  Cursor cursor;
  if (const auto found = followed_.find(key); found != followed_.end()) cursor = found->second.cursors[server];
  bool hears = true;
  for (bool more = true; more;) {
    Client::Question question;
    question.key = key;
    question.from = cursor;
    question.contacts = contacts;
    question.tells = true;
    const bool failed_before = client_.failing(server);
    const auto read = co_await client_.read(server, std::move(question), deadline);
    if (!read) {
      if (!failed_before) tell_failed("directory.get_failed", server, read.error());
      co_return;
    }
    cursor = read->next;
    more = read->more;
    heard.news += read->news;
    hears = read->distance <= 1 || router_.keeps(server, key);
    if (const auto found = followed_.find(key); found != followed_.end()) found->second.cursors[server] = cursor;
  }
  if (hears) ++heard.answered;
}

void SwarmDirectory::meet(Contact contact) {
  net_.introduce(contact.id, contact.addresses);
  tried_[contact.id] = TimePoint::min();
  contact.seen_ms = server_.unix_ms();
  contacts_.saw(std::move(contact), server_.unix_ms());
  met_.notify();
}

/// Contacts whose record is current are members: what they know, the servers know. In a large swarm most contacts are
/// members whom this node need not know, so one at a time is asked whether he is of another half; `meet` is obeyed.
std::vector<PeerId> SwarmDirectory::next_probes(bool met_only) {
  std::set<PeerId> members;
  for (const SignedRecord* record : server_.storage().records(std::string(kPeerKey), server_.unix_ms())) {
    members.insert(record->record.owner);
  }
  const bool routed = server_.form() == Form::routed;
  if (routed) {
    for (const auto& [id, entry] : server_.table().entries()) members.insert(id);
  }
  // without a server there is nobody who would tell that a member has become one
  const bool alone = !routed && client_.others().empty();
  const bool calm = is_calm();
  std::vector<std::tuple<bool, TimePoint, PeerId>> due;
  for (const Contact& contact : contacts_.all()) {
    if (contact.id == net_.self() || (members.contains(contact.id) && !alone)) continue;
    const auto tried = tried_.find(contact.id);
    const bool met = tried != tried_.end() && tried->second == TimePoint::min();
    const TimePoint last = tried == tried_.end() || met ? TimePoint::min() : tried->second;
    const bool long_ago = last == TimePoint::min() || clock_.now() - last >= options_.probe_period;
    if (met || (long_ago && !met_only)) due.emplace_back(!met, last, contact.id);
  }
  std::sort(due.begin(), due.end());
  std::vector<PeerId> probes;
  for (const auto& [unknown, last, contact] : due) {
    const bool enough = probes.size() == options_.probes || (unknown && calm && !probes.empty());
    if (!enough) probes.push_back(contact);
  }
  return probes;
}

/// A large swarm that answers.
bool SwarmDirectory::is_calm() const {
  return server_.form() == Form::routed && connected();
}

Task<> SwarmDirectory::probe_contacts() {
  for (;;) {
    const std::vector<PeerId> probes = next_probes(false);
    for (const PeerId& contact : probes) tried_[contact] = clock_.now();
    if (tried_.size() > 4 * contacts_.size() + 16) tried_.clear();
    const auto body = [&](TaskGroup& tasks) -> Task<> {
      for (const PeerId& contact : probes) tasks.spawn("directory.probe", probe(contact));
      co_await tasks.join();
    };
    auto scope = task_scope(rethrow, body);
    co_await std::move(scope);
    if (!next_probes(is_calm()).empty()) continue;  // met while we waited
    const TimePoint next = clock_.now() + options_.probe_period;
    co_await met_.wait_until(clock_, next);
  }
}

/// Learns the members and servers it knows, and tells it ours.
Task<> SwarmDirectory::probe(PeerId contact) {
  const TimePoint deadline = clock_.now() + options_.poll_timeout;
  if (server_.form() == Form::routed) {
    RouteNode node;
    for (const Contact& known : contacts_.all()) {
      if (known.id == contact) node = {known.id, known.addresses};
    }
    const bool met = co_await router_.meet(std::move(node), deadline);
    if (met) log_.info("directory.contact_answered", {{"peer", contact.short_text()}});
    co_return;
  }
  Heard heard;
  co_await ask_one(std::string(kPeerKey), contact, true, deadline, heard);
  if (heard.answered == 0) co_return;
  log_.info("directory.contact_answered", {{"peer", contact.short_text()}});
  std::vector<SignedRecord> lacking = client_.take_lacking(contact, wire::kPutRecordsMax);
  if (lacking.empty()) co_return;
  const auto told = co_await client_.put(contact, std::move(lacking), deadline);
  if (!told) tell_failed("directory.put_failed", contact, told.error());
}

Task<> SwarmDirectory::keep_contacts() {
  Duration pause = options_.contacts_period / 6;  // the first time soon, in case the node does not live long
  for (;;) {
    co_await clock_.sleep_until(clock_.now() + pause);
    pause = options_.contacts_period;
    const std::int64_t now_ms = server_.unix_ms();
    for (const Record& record : current(std::string(kPeerKey))) {
      auto peer = decode_peer_record(record.value);
      if (!peer || !peer->reachable || record.owner == net_.self()) continue;
      Contact contact;
      contact.id = record.owner;
      contact.addresses = std::move(peer->listen);
      contact.seen_ms = now_ms;
      contacts_.saw(std::move(contact), now_ms);
    }
    for (const auto& [id, entry] : server_.table().entries()) {
      if (entry.failures == 0 && server_.form() != Form::whole)
        contacts_.saw({id, entry.node.addresses, now_ms}, now_ms);
    }
    if (options_.contacts_file.empty()) continue;
    const auto work = [file = options_.contacts_file, text = contacts_.text()] { return save(file, text); };
    const std::string problem = co_await offload(workers_, work);
    if (!problem.empty()) {
      log_.warn("directory.contacts_not_saved", {{"file", options_.contacts_file.string()}, {"why", problem}});
    }
  }
}

/// A node without servers waits and says why: it never founds a swarm of its own.
Task<> SwarmDirectory::tell_when_unreachable() {
  bool told = false;
  Duration pause = options_.connected_window;
  for (;;) {
    co_await clock_.sleep_until(clock_.now() + pause);
    if (!connected()) {
      log_.warn("directory.unreachable",
                {{"servers", client_.others().size()},
                 {"contacts", contacts_.size()},
                 {"advice", "no server of the run answers; check the bootstrap address and the network; trying on"}});
    } else if (told) {
      log_.info("directory.reachable_again");
    }
    told = !connected();
    pause = told ? std::chrono::seconds(60) : options_.connected_window;
  }
}

}  // namespace collab::directory
