#include "sim/grid_peer.hpp"

#include "averaging/load_balance.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace collab::sim {
namespace {

matchmaking::Plan plan_segments(const std::vector<matchmaking::Applicant>& roster, std::size_t values) {
  std::vector<averaging::MemberLoad> loads(roster.size());
  for (std::size_t rank = 0; rank < roster.size(); ++rank) {
    loads[rank].up_bytes_per_s = static_cast<double>(roster[rank].up_bytes_per_s);
    loads[rank].down_bytes_per_s = static_cast<double>(roster[rank].down_bytes_per_s);
    loads[rank].reachable = roster[rank].role != matchmaking::Role::client;
  }
  averaging::LoadOptions options;
  options.segment_units_min = 1;
  const auto solved = averaging::plan_load(loads, values, options);
  matchmaking::Plan plan;
  if (solved) plan.units = solved->units;
  plan.chunk_units = chunk_units_for(plan.units);
  return plan;
}

}  // namespace

/// Servers that hold nothing.
class GridPeer::NoDirectory final : public directory::Directory {
 public:
  explicit NoDirectory(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  void publish(std::string, std::string, Bytes, Duration) override {}
  void withdraw(const std::string&, const std::string&) override {}
  Task<Result<>> claim(std::string, std::string, Bytes, Duration, TimePoint) override { co_return Errc::gone; }
  Task<Result<std::vector<directory::Record>>> get(std::string, TimePoint) override { co_return Errc::gone; }
  std::unique_ptr<directory::Watch> watch(std::string) override { return std::make_unique<NoWatch>(executor_); }
  bool connected() const override { return false; }
  TimePoint steady_since() const override { return TimePoint::max(); }

 private:
  class NoWatch final : public directory::Watch {
   public:
    explicit NoWatch(const asio::any_io_executor& executor) : changed_(executor) {}
    const std::vector<directory::Record>& records() const override { return none_; }
    void relax(Duration) override {}
    Task<bool> changed_until(TimePoint) override {
      co_await changed_.wait();
      co_return false;
    }

   private:
    std::vector<directory::Record> none_;
    Signal changed_;
  };
  asio::any_io_executor executor_;
};

GridPeer::GridPeer(const Needs& needs, Identity identity, std::uint64_t seed, Contribution own)
    : clock_(needs.clock),
      identity_(std::move(identity)),
      access_(Access::Options()),
      directory_(std::make_unique<NoDirectory>(needs.executor)),
      tasks_(needs.executor, rethrow),
      own_(std::move(own)),
      values_(own_.values) {
  net::EndpointOptions options;
  options.run = "grid";
  options.listen.push_back(needs.listen);
  const net::PeerEndpoint::Needs endpoint{needs.executor, clock_,   needs.network, Random(seed),
                                          log_,           metrics_, identity_,     access_};
  endpoint_ = std::make_unique<net::PeerEndpoint>(endpoint, std::move(options));
  endpoint_->allow_conversation(matchmaking::row());
  endpoint_->allow_conversation(averaging::round_protocol());
  endpoint_->handle(averaging::counted_method(), [this](PeerId from, Frame request, TimePoint) -> Task<net::Answer> {
    co_return moshpit_->answer(from, request);
  });

  averaging::MoshpitOptions moshpit;
  moshpit.bundle = "grid/values";
  moshpit.matchmaking.codec_map = averaging::codec_map_digest(needs.codecs);
  moshpit.matchmaking.values = needs.codecs.length();
  const std::size_t values = needs.codecs.length();
  moshpit.matchmaking.plan = [values](const auto& roster, std::uint32_t /*round*/) {
    return plan_segments(roster, values);
  };
  moshpit.matchmaking.weight_max = [](const PeerId&) { return std::uint64_t(1) << 32U; };
  const averaging::Context context{*endpoint_, clock_, log_, identity_, tasks_};
  const matchmaking::Context searches{*endpoint_, clock_, *directory_, log_};
  moshpit_ = std::make_unique<averaging::Moshpit>(context, searches, needs.codecs, std::move(moshpit));
}

GridPeer::~GridPeer() = default;

void GridPeer::knows(const GridPeer& other) {
  endpoint_->introduce(other.id(), std::vector<net::Address>(1, other.address()));
}

void GridPeer::start() {
  tasks_.spawn("net", endpoint_->run());
}

Task<> GridPeer::run(averaging::Pass pass) {
  auto first = co_await moshpit_->begin(std::move(pass));
  const std::uint64_t weight = first ? own_.weight : 0;
  Work work;
  if (weight > 0) work = own_.work;
  outcome_ = co_await moshpit_->finish(values_, weight, std::move(work), report_);
  ended_at_ = clock_.now();
}

Task<> GridPeer::stop() {
  co_await moshpit_->stop();
  co_await tasks_.stop();
}

CodecMap grid_codecs(std::size_t values, CodecId codec) {
  TensorInfo tensor;
  tensor.name = "all";
  tensor.shape = {static_cast<std::int64_t>(values)};
  Schema schema;
  schema.tensors.push_back(tensor);
  CodecOptions options = CodecOptions::all(codec);
  options.coarse_values_min = 0;
  return {schema, options};
}

GridResult measure(const std::vector<const GridPeer*>& peers) {
  GridResult result;
  std::vector<double> mean(peers.front()->own().values.size(), 0);
  double weights = 0;
  double largest = 0;
  for (const GridPeer* peer : peers) {
    const auto weight = static_cast<double>(peer->own().weight);
    weights += weight;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const double value = peer->own().values[i];
      mean[i] += weight * value;
      largest = std::max(largest, std::abs(value));
    }
  }
  const GridPeer* one = nullptr;
  result.equal_bytes = result.equal_work = true;
  for (const GridPeer* peer : peers) {
    if (!peer->outcome() || !*peer->outcome()) continue;
    ++result.complete;
    const averaging::PassOutcome& outcome = peer->outcome()->value();
    result.weight = one == nullptr ? outcome.weight : std::min(result.weight, outcome.weight);
    for (const auto& round : outcome.rounds)
      result.largest_group = std::max(result.largest_group, round.report.peers.size());
    if (one == nullptr) result.work = outcome.work;
    if (one == nullptr) one = peer;
    result.equal_work &= outcome.work == result.work;
    const std::size_t bytes = mean.size() * sizeof(float);
    result.equal_bytes &= std::memcmp(one->values().data(), peer->values().data(), bytes) == 0;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const double error = std::abs(static_cast<double>(peer->values()[i]) - mean[i] / weights);
      result.max_relative_error = std::max(result.max_relative_error, error / largest);
    }
  }
  return result;
}

}  // namespace collab::sim
