#include "support/rounds.hpp"

#include "base/frame.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <utility>

namespace collab::test {

using averaging::bit;
using averaging::contains;
using matchmaking::Role;

namespace {

Identity identity_of(std::size_t player) {
  Identity::Seed seed{};
  seed[0] = static_cast<unsigned char>(player + 1);
  return Identity::generate(seed);
}

Schema schema_of(std::size_t values) {
  TensorInfo tensor;
  tensor.name = "all";
  tensor.shape = {static_cast<std::int64_t>(values)};
  Schema schema;
  schema.tensors.push_back(tensor);
  return schema;
}

std::size_t length_of(const std::vector<Player>& players) {
  for (const Player& player : players)
    if (player.role != Role::auxiliary) return player.values.size();
  return 0;
}

using Rewrite = std::function<std::vector<Frame>(const PeerId&, Frame)>;
using Watch = std::function<void(const Frame& frame, bool sent)>;

/// Sends what `rewrite` makes of each frame, and shows `watch` what has left and what has come.
class WatchedConversation final : public net::Conversation {
 public:
  WatchedConversation(std::unique_ptr<net::Conversation> talk, const Rewrite& rewrite, const Watch& watch)
      : talk_(std::move(talk)), rewrite_(rewrite), watch_(watch) {}
  Task<Result<>> send(PeerId to, net::TrafficClass traffic, Frame frame, TimePoint deadline) override {
    std::vector<Frame> frames(1, frame);
    if (rewrite_) frames = rewrite_(to, std::move(frame));
    Result<> sent;
    for (const Frame& one : frames) {
      sent = co_await talk_->send(to, traffic, one, deadline);
      if (watch_) watch_(one, true);
    }
    co_return sent;
  }
  Task<Result<net::Envelope>> receive(TimePoint deadline) override {
    auto envelope = co_await talk_->receive(deadline);
    if (envelope && watch_) watch_(envelope->frame, false);
    co_return envelope;
  }
  void add_member(PeerId peer) override { talk_->add_member(peer); }
  void remove_member(PeerId peer) override { talk_->remove_member(peer); }
  bool closed_by(const PeerId& peer) const override { return talk_->closed_by(peer); }

 private:
  std::unique_ptr<net::Conversation> talk_;
  const Rewrite& rewrite_;
  const Watch& watch_;
};

class WatchedEndpoint final : public net::Endpoint {
 public:
  WatchedEndpoint(net::Endpoint& watched, const Rewrite& rewrite, const Watch& watch)
      : watched_(watched), rewrite_(rewrite), watch_(watch) {}
  const PeerId& self() const override { return watched_.self(); }
  void handle(net::Method method, net::Handler handler) override { watched_.handle(method, std::move(handler)); }
  void allow_conversation(net::Method method) override { watched_.allow_conversation(method); }
  Task<net::Answer> call(PeerId to, std::string_view method, Frame request, TimePoint deadline) override {
    return watched_.call(to, method, std::move(request), deadline);
  }
  std::unique_ptr<net::Conversation> converse(std::string_view protocol, const net::Topic& topic,
                                              std::vector<PeerId> members) override {
    auto talk = watched_.converse(protocol, topic, std::move(members));
    if (!rewrite_ && !watch_) return talk;
    return std::make_unique<WatchedConversation>(std::move(talk), rewrite_, watch_);
  }
  net::LinkState link(const PeerId& peer) const override { return watched_.link(peer); }
  void introduce(const PeerId& peer, std::vector<net::Address> at) override { watched_.introduce(peer, std::move(at)); }
  bool can_reach(const PeerId& peer) const override { return watched_.can_reach(peer); }

 private:
  net::Endpoint& watched_;
  const Rewrite& rewrite_;
  const Watch& watch_;
};

bool is_at(Moment moment, const Frame& frame, bool sent) {
  namespace wire = averaging::wire;
  const auto header = frame::decode<wire::Header>(*frame).value().header;
  switch (moment) {
    case Moment::scatter: return sent && std::holds_alternative<wire::Part>(header);
    case Moment::reduce: return !sent && std::holds_alternative<wire::Part>(header);
    case Moment::gather: return sent && std::holds_alternative<wire::Average>(header);
    case Moment::hold: return std::holds_alternative<wire::Hold>(header);
    case Moment::view: return std::holds_alternative<wire::Ask>(header);
    case Moment::commit: return std::holds_alternative<wire::Commit>(header);
    case Moment::done: return sent && std::holds_alternative<wire::Done>(header);
    case Moment::count: break;
  }
  return false;
}

}  // namespace

struct Rounds::Peer {
  Peer(Identity with_identity, Player plays, const asio::any_io_executor& executor)
      : identity(std::move(with_identity)), player(std::move(plays)), values(player.values), tasks(executor, rethrow) {}
  Identity identity;
  Player player;
  std::unique_ptr<WatchedEndpoint> net;
  Watch watch;
  std::vector<float> values;
  averaging::RoundReport report;
  std::optional<Result<averaging::Outcome>> outcome;
  Duration finished_at{};
  bool dead = false;
  bool elsewhere = false;
  std::unique_ptr<net::Conversation> other_round;
  Log log;
  TaskGroup tasks;
};

Rounds::Rounds(std::uint64_t seed, std::vector<Player> players, RoundsOptions options)
    : options_(std::move(options)), codecs_(schema_of(length_of(players)), options_.codecs) {
  if (options_.streams) {
    streams_ = std::make_unique<StreamNetwork>(world_, seed);
  } else {
    network_ = std::make_unique<MessageNetwork>(world_, seed, options_.links);
  }
  std::vector<std::pair<PeerId, std::size_t>> by_id;
  group_.chunk_units = options_.chunk_units;
  group_.weight_min = options_.weight_min;
  group_.codec_map = averaging::codec_map_digest(codecs_);
  for (std::size_t i = 0; i < players.size(); ++i) {
    matchmaking::Member member;
    member.id = identity_of(i).id();
    member.role = players[i].role;
    member.weight_max = players[i].weight_max;
    member.units = players[i].units;
    if (!options_.previous.empty()) member.previous = options_.previous[i];
    group_.roster.push_back(member);
    by_id.emplace_back(member.id, i);
  }
  group_ = matchmaking::seal(std::move(group_));
  members_ = averaging::Members::of(group_);
  std::sort(by_id.begin(), by_id.end());
  rank_of_player_.resize(players.size());
  for (std::size_t rank = 0; rank < by_id.size(); ++rank) {
    const std::size_t player = by_id[rank].second;
    rank_of_player_[player] = rank;
    peers_.push_back(std::make_unique<Peer>(identity_of(player), std::move(players[player]), world_.executor()));
    Peer& peer = *peers_.back();
    net::Endpoint& endpoint = streams_ ? streams_->add_peer(peer.identity, peer.player.role != Role::client)
                                       : network_->add_peer(peer.identity.id());
    endpoint.allow_conversation(averaging::round_protocol());
    peer.net = std::make_unique<WatchedEndpoint>(endpoint, peer.player.rewrite, peer.watch);
  }
}

Rounds::~Rounds() = default;

void Rounds::at(Duration when, std::function<void(MessageNetwork&)> fault) {
  const auto strikes = [this, fault = std::move(fault)] { fault(*network_); };
  faults_.emplace_back(when, strikes);
}

void Rounds::block_at(Duration when, std::size_t rank, bool out, bool in) {
  faults_.emplace_back(when, [this, rank, out, in] { streams_->block(id(rank), out, in); });
}

void Rounds::kill_at(Duration when, std::size_t rank) {
  at(when, [this, rank](MessageNetwork&) { kill(*peers_[rank]); });
}

void Rounds::kill_in(Moment moment, std::size_t rank) {
  Peer& peer = *peers_.at(rank);
  peer.watch = [this, &peer, moment](const Frame& frame, bool sent) {
    if (!peer.dead && is_at(moment, frame, sent)) kill(peer);
  };
}

void Rounds::goes_elsewhere(std::size_t rank) {
  peers_.at(rank)->elsewhere = true;
}

void Rounds::kill_at_byte(std::uint64_t byte, std::size_t rank) {
  kills_at_byte_.emplace_back(rank, byte);
}

std::uint64_t Rounds::bytes_to_send(std::size_t rank) const {
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> units;
  for (const auto& member : group_.roster) units.push_back(member.units);
  const auto partition = Partition::cut(codecs_.length(), units, group_.chunk_units).value();
  for (std::size_t segment = 0; segment < size(); ++segment) {
    const std::uint64_t result = codecs_.encoded_bytes(partition.segment(segment));
    const std::uint64_t part = codecs_.parts().encoded_bytes(partition.segment(segment));
    const std::size_t receivers = averaging::count(members_.voters & ~bit(rank));
    if (segment == rank) bytes += result * receivers;
    if (segment != rank && contains(members_.voters, rank)) bytes += part;
  }
  return bytes;
}

void Rounds::kill(Peer& peer) {
  peer.dead = true;
  died_at_ = world_.clock().now() - started_;
  if (streams_) {
    streams_->kill(peer.identity.id());
  } else {
    network_->kill(peer.identity.id());
  }
}

/// Whoever ends the round with fewer dies then.
Task<> Rounds::kill_later(Peer& peer, std::uint64_t byte) {
  constexpr Duration look_again = std::chrono::microseconds(200);
  const std::uint64_t before = streams_->bytes_sent(peer.identity.id());
  while (streams_->bytes_sent(peer.identity.id()) - before < byte)
    co_await world_.clock().sleep_until(world_.clock().now() + look_again);
  if (!peer.dead) kill(peer);
}

Task<> Rounds::participate(Peer& peer) {
  averaging::Context context{*peer.net, world_.clock(), peer.log, peer.identity, peer.tasks};
  if (peer.elsewhere) {
    matchmaking::Group other = group_;
    ++other.weight_min;
    other.id = matchmaking::compute_id(other);
    peer.other_round = averaging::open_round(context, other);
    peer.outcome = Errc::late;
    co_return;
  }
  const std::uint64_t weight = peer.player.role == Role::auxiliary ? 0 : peer.player.weight;
  Work work = weight > 0 ? peer.player.work : Work();
  peer.outcome = co_await averaging::all_reduce(context, group_, codecs_, peer.values, weight, std::move(work),
                                                options_.all_reduce, peer.report);
  peer.finished_at = world_.clock().now() - started_;
  const bool is_doomed = std::any_of(kills_at_byte_.begin(), kills_at_byte_.end(),
                                     [&](const auto& kill) { return peers_[kill.first].get() == &peer; });
  if (is_doomed && !peer.dead) kill(peer);
}

Task<> Rounds::strike(Duration when, std::function<void()> fault) {
  co_await world_.clock().sleep_until(started_ + when);
  fault();
}

void Rounds::run() {
  const auto scenario = [this]() -> Task<> {
    if (streams_) co_await streams_->meet();
    started_ = world_.clock().now();
    TaskGroup rounds(world_.executor(), rethrow);
    TaskGroup faults(world_.executor(), rethrow);
    for (const auto& [when, fault] : faults_) faults.spawn("fault", strike(when, fault));
    for (const auto& [rank, byte] : kills_at_byte_) faults.spawn("kill", kill_later(*peers_[rank], byte));
    for (auto& peer : peers_) rounds.spawn("round", participate(*peer));
    co_await rounds.join();
    for (auto& peer : peers_) peer->other_round.reset();
    for (auto& peer : peers_)
      if (options_.serve_to_the_end && !peer->dead) co_await peer->tasks.join();
    served_at_ = world_.clock().now() - started_;
    co_await faults.stop();
    for (auto& peer : peers_) co_await peer->tasks.stop();
    if (streams_) co_await streams_->stop();
  };
  world_.run(scenario());
}

const PeerId& Rounds::id(std::size_t rank) const {
  return group_.roster.at(rank).id;
}
std::size_t Rounds::rank_of_player(std::size_t player) const {
  return rank_of_player_.at(player);
}
const Player& Rounds::player(std::size_t rank) const {
  return peers_.at(rank)->player;
}
bool Rounds::dead(std::size_t rank) const {
  return peers_.at(rank)->dead;
}
bool Rounds::committed(std::size_t rank) const {
  return peers_.at(rank)->outcome->has_value();
}
Errc Rounds::error(std::size_t rank) const {
  return static_cast<Errc>(peers_.at(rank)->outcome->error().value());
}
const std::vector<float>& Rounds::values(std::size_t rank) const {
  return peers_.at(rank)->values;
}
const std::vector<float>& Rounds::before(std::size_t rank) const {
  return peers_.at(rank)->player.values;
}
const averaging::RoundReport& Rounds::report(std::size_t rank) const {
  return peers_.at(rank)->report;
}
const averaging::CommittedRound* Rounds::proof(std::size_t rank) const {
  return committed(rank) ? peers_.at(rank)->outcome->value().proof.get() : nullptr;
}
Duration Rounds::finished_at(std::size_t rank) const {
  return peers_.at(rank)->finished_at;
}

bool Rounds::live_quorum() const {
  averaging::Ranks alive = 0;
  for (std::size_t rank = 0; rank < size(); ++rank)
    if (!dead(rank)) alive |= bit(rank);
  return members_.is_quorum(alive) && (alive & members_.reachable) != 0;
}

std::string Rounds::broken() const {
  const auto differ = [](const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() != b.size() || (!a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0);
  };
  std::optional<std::size_t> first;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    if (!committed(rank)) {
      if (differ(values(rank), before(rank))) return "atomic: rank " + std::to_string(rank);
      continue;
    }
    if (player(rank).role == Role::auxiliary) continue;
    if (first && differ(values(rank), values(*first)))
      return "agree: ranks " + std::to_string(*first) + " and " + std::to_string(rank);
    if (!first) {
      first = rank;
      if (const std::string wrong = wrong_mean(*proof(rank)); !wrong.empty()) return "mean: " + wrong;
      if (const std::string wrong = wrong_work(*proof(rank)); !wrong.empty()) return "ledger: " + wrong;
      std::vector<float> applied(values(rank).size());
      proof(rank)->apply(applied);
      if (differ(applied, values(rank))) return "proof: rank " + std::to_string(rank);
    }
    if (proof(rank)->work().all() != proof(*first)->work().all()) return "ledger: rank " + std::to_string(rank);
  }
  return {};
}

/// Whoever is in some chunk has its work counted, all of it, and nobody else's is.
std::string Rounds::wrong_work(const averaging::CommittedRound& round) const {
  averaging::Ranks senders = 0;
  for (const auto& result : round.results())
    for (const auto& chunk : result.chunks()) senders |= chunk.senders;
  Work expected;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    if (!contains(senders, rank)) continue;
    const bool stands_in = (senders & members_.previous[rank] & (averaging::bit(rank) - 1)) != 0;
    if (stands_in) continue;  // it named what its voice did
    expected.add(player(rank).work);
  }
  const averaging::RoundWork work = round.work();
  if (work.all() != expected) return "not the work of the senders";
  std::uint64_t attributed = 0;
  for (const Work& one : work.by_rank) attributed += one.count();
  return attributed == expected.count() ? "" : "a unit of two senders";
}

/// Recomputes every chunk from what its senders had, slowly and in the obvious way.
std::string Rounds::wrong_mean(const averaging::CommittedRound& round) const {
  std::vector<float> result(codecs_.length());
  round.apply(result);
  std::vector<std::uint32_t> units;
  for (const auto& member : group_.roster) units.push_back(member.units);
  const auto partition = Partition::cut(codecs_.length(), units, group_.chunk_units).value();
  for (std::size_t index = 0; index < round.results().size(); ++index) {
    const std::size_t segment = members_.segments[index];
    for (std::size_t i = 0; i < partition.chunks(segment); ++i) {
      const auto& chunk = round.results()[index].chunks()[i];
      const Range range = partition.chunk(segment, i);
      std::uint64_t weight = 0;
      std::vector<double> sum(range.size, 0.0);
      for (const averaging::Rank rank : members_.order) {
        if (!contains(chunk.senders, rank)) continue;
        weight += player(rank).weight;
        std::vector<float> part(range.size);
        const auto own = std::span(before(rank)).subspan(range.begin, range.size);
        const auto options = averaging::part_options(round.group(), round.group().roster[rank].id);
        const CodecMap& parts = round.shape().part_codecs();
        const auto bytes = parts.encode(own, range.begin, options).value();
        if (!parts.decode(bytes, range.begin, part)) return "a part does not decode";
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += double(player(rank).weight) * double(part[k]);
      }
      if (weight != chunk.weight) return "weight of segment " + std::to_string(segment);
      std::vector<float> mean(range.size);
      for (std::size_t k = 0; k < sum.size(); ++k) mean[k] = static_cast<float>(sum[k] / double(weight));
      const auto bytes = codecs_.encode(mean, range.begin, EncodeOptions()).value();
      if (!codecs_.decode(bytes, range.begin, mean)) return "a mean does not decode";
      if (std::memcmp(mean.data(), result.data() + range.begin, range.size * sizeof(float)) != 0)
        return "segment " + std::to_string(segment) + " chunk " + std::to_string(i);
    }
  }
  return {};
}

std::vector<Player> draw_players(Random& random, std::size_t count, bool mixed) {
  std::vector<Player> players(count);
  std::size_t units = 0;
  bool can_own = false;
  for (std::size_t i = 0; i < count; ++i) {
    Player& player = players[i];
    if (mixed && i > 0)
      player.role = random.chance(.3) ? Role::client : random.chance(.2) ? Role::auxiliary : Role::node;
    player.weight = 1 + random.below(50);
    // about every eighth unit is somebody else's, too
    player.work.add({100 * i + 90, std::min<std::uint64_t>(player.weight, 20)});
    player.units = player.role == Role::client ? 0 : static_cast<std::uint32_t>(random.below(4));
    can_own = can_own || player.units > 0;
    units += player.units;
  }
  if (mixed && count == 2) players[1].role = Role::node;
  if (!can_own) {
    players[0].units = 2;
    units = 2;
  }
  const std::size_t length = units * kUnitValues - random.below(kUnitValues);
  for (Player& player : players) {
    if (player.role == Role::auxiliary) continue;
    player.values.resize(length);
    for (float& value : player.values)
      value = static_cast<float>(static_cast<double>(random.next() >> 40U) * 0x1p-23 - 1.0);
  }
  return players;
}

}  // namespace collab::test
