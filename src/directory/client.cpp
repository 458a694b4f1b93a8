#include "directory/client.hpp"

#include "base/frame.hpp"

#include <algorithm>
#include <utility>

namespace collab::directory {
namespace {

constexpr std::size_t kToldMin = 4;  // records
constexpr std::size_t kFailingMax = 1024;
constexpr std::size_t kInstancesMax = 1024;
constexpr Duration kFailingTime = std::chrono::seconds(60);
constexpr Duration kTellAgain = std::chrono::seconds(60);  // he may have been restarted

template <class Message>
Result<std::pair<Message, std::span<const std::byte>>> open(const net::Answer& answer) {
  if (!answer) return answer.error().code;
  auto decoded = frame::decode<wire::Header>(**answer);
  if (!decoded) return decoded.error();
  auto* message = std::get_if<Message>(&decoded->header);
  if (message == nullptr) return Errc::bad_request;
  return std::pair(std::move(*message), decoded->payload);
}

}  // namespace

std::vector<PeerId> Client::others() {
  std::vector<PeerId> others = server_.servers().ids();
  std::erase_if(others, [&](const PeerId& id) { return id == net_.self() || !net_.can_reach(id); });
  for (std::size_t i = 0; i < others.size(); ++i) std::swap(others[i], others[i + random_.below(others.size() - i)]);
  return others;
}

/// Empty where a few records cost no more than to say that they are here.
Bytes Client::known_of(const std::string& key) const {
  std::vector<Mark> marks = server_.storage().marks(key);
  if (marks.size() < kToldMin) return {};
  marks.resize(std::min(marks.size(), wire::kKnownMax));
  return wire::pack_marks(marks);
}

Task<Result<Client::Read>> Client::read(PeerId server, Question question, TimePoint deadline) {
  wire::Get get;
  get.key = std::move(question.key);
  get.instance = question.from.instance;
  get.since = question.from.since;
  get.wait_ms =
      static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(question.wait).count());
  get.servers = server_.servers_hash();
  get.contacts = question.contacts;
  if (question.tells) get.known = known_of(get.key);
  const std::string key = get.key;
  Frame request = frame::encode(wire::Header(std::move(get)));
  const std::string_view method = question.wait > Duration(0) ? "directory.watch" : "directory.get";
  const net::Answer answer = co_await net_.call(server, method, std::move(request), deadline);
  judge(server, answer);

  auto page = open<wire::Page>(answer);
  if (!page) co_return page.error();
  auto& [message, payload] = *page;
  if (message.records > wire::kPageRecordsMax) co_return Errc::bad_request;
  auto records = fresh_records(payload, message.records, key);
  if (!records) co_return records.error();
  if (!take_named(server, payload, message.known, message.servers)) co_return Errc::bad_request;
  answered_at_ = clock_.now();
  Read read;
  read.records = message.records;
  for (SignedRecord& record : *records) {
    const auto offered = server_.accept(std::move(record), Storage::Source::read);
    if (offered.outcome == Storage::Outcome::stored) ++read.news;
  }
  take_contacts(message.contacts);
  take_guide_from(server, message.nodes);
  take_instance(server, message.instance);
  read.next.instance = message.instance;
  read.next.since = message.next;
  read.distance = message.distance;
  read.more = message.more;
  co_return read;
}

Task<Result<Client::Written>> Client::put(PeerId server, std::vector<SignedRecord> records, TimePoint deadline) {
  std::vector<const SignedRecord*> list;
  for (const SignedRecord& record : records) list.push_back(&record);
  wire::Put put;
  put.records = static_cast<std::uint32_t>(records.size());
  put.servers = server_.servers_hash();
  Frame request = frame::encode(wire::Header(put), wire::pack_records(list));
  const net::Answer answer = co_await net_.call(server, "directory.put", std::move(request), deadline);
  judge(server, answer);

  auto stored = open<wire::Stored>(answer);
  if (!stored) co_return stored.error();
  auto& [message, payload] = *stored;
  if (message.outcomes.size() != records.size() || message.newer > records.size()) co_return Errc::bad_request;
  auto newer = wire::take_records(payload, message.newer);
  if (!newer) co_return newer.error();
  if (!take_named(server, payload, message.known, message.servers)) co_return Errc::bad_request;
  answered_at_ = clock_.now();
  take_guide_from(server, message.nodes);
  take_instance(server, message.instance);
  Written written;
  written.outcomes = std::move(message.outcomes);
  written.newer = std::move(*newer);
  co_return written;
}

void Client::judge(const PeerId& node, const net::Answer& answer) {
  const Errc code = answer ? Errc::busy : answer.error().code;
  if (code != Errc::gone && code != Errc::late) {
    failing_.erase(node);
    server_.table().heard(node, clock_.now());
    return;
  }
  server_.table().failed(node);
  failing_[node] = clock_.now();
  if (failing_.size() <= kFailingMax) return;
  std::erase_if(failing_, [&](const auto& entry) { return clock_.now() - entry.second > kFailingTime; });
  if (failing_.size() > kFailingMax) failing_.erase(failing_.begin());
}

void Client::take_guide_from(const PeerId& node, std::uint32_t nodes) {
  if (server_.form() == Form::whole && nodes >= server_.routing().k) guide_ = node;
}

void Client::take_instance(const PeerId& server, std::uint64_t instance) {
  if (instance == 0) return;
  instances_.insert_or_assign(server, instance);
  if (instances_.size() > kInstancesMax) instances_.erase(instances_.begin());
}

std::optional<std::uint64_t> Client::instance_of(const PeerId& server) const {
  const auto found = instances_.find(server);
  return found == instances_.end() ? std::nullopt : std::optional(found->second);
}

Frame Client::encode_search(const RouteNode& node, Search search) {
  wire::Find find;
  find.key = std::move(search.key);
  find.place = search.place;
  find.values = search.values;
  find.nodes = static_cast<std::uint32_t>(std::min(search.nodes, wire::kNodesMax));
  const RoutingTable::Entry* entry = server_.table().find(node.id);
  const bool knows_us = entry != nullptr && entry->told && clock_.now() - *entry->told < kTellAgain;
  const auto own = server_.serves() && !knows_us ? server_.own_encoded() : std::span<const std::byte>();
  if (own.empty()) return frame::encode(wire::Header(std::move(find)));
  find.records = 1;
  return frame::encode(wire::Header(std::move(find)), wire::pack_records(std::span(&own, 1)));
}

Task<Result<Client::Nearby>> Client::find(RouteNode node, Search search, TimePoint deadline) {
  // who named him first may have lied about where he is
  const bool elsewhere = failing(node.id) && !net_.link(node.id).connected;
  if (!node.addresses.empty() && (elsewhere || !net_.can_reach(node.id))) net_.introduce(node.id, node.addresses);
  const std::string key = search.key;
  const bool own_place = search.place == server_.table().place();
  Frame request = encode_search(node, std::move(search));
  const net::Answer answer = co_await net_.call(node.id, "directory.find", std::move(request), deadline);
  judge(node.id, answer);

  auto found = open<wire::Found>(answer);
  if (!found) co_return found.error();
  auto& [message, payload] = *found;
  const bool bounded = message.records <= wire::kPageRecordsMax && message.nodes <= wire::kNodesMax &&
                       message.followers <= wire::kFollowersMax;
  if (!bounded) co_return Errc::bad_request;
  auto records = fresh_records(payload, message.records, key);
  if (!records) co_return records.error();
  auto nodes = wire::take_nodes(payload, message.nodes);
  if (!nodes) co_return nodes.error();
  auto followers = wire::take_nodes(payload, message.followers);
  if (!followers || !payload.empty()) co_return Errc::bad_request;
  answered_at_ = clock_.now();

  Nearby nearby;
  nearby.records = message.records - records->size();
  for (SignedRecord& record : *records) {
    const auto offered = server_.accept(std::move(record), Storage::Source::read);
    if (offered.outcome != Storage::Outcome::refused) ++nearby.records;
  }
  nearby.serves = message.serves;
  nearby.nodes = std::move(*nodes);
  for (RouteNode& follower : *followers) {
    if (follower.id == net_.self()) continue;
    if (!net_.can_reach(follower.id)) net_.introduce(follower.id, std::move(follower.addresses));
    nearby.followers.push_back(follower.id);
  }
  nearby.next.instance = message.instance;
  nearby.next.since = message.next;
  nearby.more = message.more;
  RoutingTable& table = server_.table();
  const PeerId id = node.id;
  if (!message.serves) {
    table.remove(id);
  } else if (!table.told(id, clock_.now())) {
    server_.admit(std::move(node));
    table.told(id, clock_.now());
  }
  if (own_place) table.asked(id);
  co_return nearby;
}

Result<std::vector<SignedRecord>> Client::fresh_records(std::span<const std::byte>& payload, std::size_t count,
                                                        std::string_view key) const {
  const auto all = wire::take_encoded(payload, count);
  if (!all) return all.error();
  std::vector<SignedRecord> fresh;
  for (const auto encoded : *all) {
    const auto name = name_of(encoded);
    if (!name || name->key != key) return Errc::bad_request;
    if (server_.storage().holds(*name, encoded)) continue;
    auto record = decode_record(encoded);
    if (!record) return record.error();
    fresh.push_back(std::move(*record));
  }
  return fresh;
}

bool Client::take_named(const PeerId& server, std::span<const std::byte>& payload, std::uint32_t known,
                        std::uint64_t its_hash) {
  if (known > wire::kServersMax) return false;
  auto records = wire::take_records(payload, known);
  if (!records || !payload.empty()) return false;
  if (its_hash == 0 || its_hash == server_.servers_hash()) {
    lacking_.erase(server);
    return true;
  }
  std::set<PeerId> named;
  for (SignedRecord& record : *records) {
    if (record.record.key != kPeerKey) return false;
    named.insert(record.record.owner);
    server_.accept(std::move(record), Storage::Source::read);
  }
  std::set<PeerId>& lacking = lacking_[server];
  lacking.clear();
  for (const SignedRecord* mine : server_.servers().records(server_.storage(), server_.unix_ms())) {
    if (!named.contains(mine->record.owner)) lacking.insert(mine->record.owner);
  }
  if (lacking.empty()) lacking_.erase(server);
  // only servers and contacts are ever asked: few, but they change over the weeks of a run
  if (lacking_.size() > 4 * wire::kServersMax) lacking_.erase(lacking_.begin());
  return true;
}

std::vector<SignedRecord> Client::take_lacking(const PeerId& server, std::size_t count_max) {
  std::vector<SignedRecord> records;
  const auto found = lacking_.find(server);
  if (found == lacking_.end()) return records;
  for (const SignedRecord* mine : server_.servers().records(server_.storage(), server_.unix_ms())) {
    if (found->second.contains(mine->record.owner) && records.size() < count_max) records.push_back(*mine);
  }
  lacking_.erase(found);
  return records;
}

void Client::take_contacts(const std::vector<wire::KnownPeer>& contacts) {
  if (contacts.size() > wire::kContactsMax) return;
  for (const wire::KnownPeer& known : contacts) {
    Contact contact;
    contact.id.key = known.id;
    // a curve has points that are no keys; to look is dear, and who is known was looked at
    if (contact.id == net_.self() || !(contacts_.knows(contact.id) || check_key(contact.id))) continue;
    for (const std::string& text : known.addresses) {
      if (auto address = net::parse_numeric_address(text)) contact.addresses.push_back(std::move(*address));
    }
    contact.seen_ms = known.seen_ms;
    if (!contact.addresses.empty() && !net_.can_reach(contact.id)) net_.introduce(contact.id, contact.addresses);
    contacts_.heard(std::move(contact), server_.unix_ms());
  }
}

}  // namespace collab::directory
