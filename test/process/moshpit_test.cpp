#include "net/tcp.hpp"
#include "sim/grid_peer.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <memory>
#include <vector>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kValues = 20 * 4096;

GridPeer::Contribution contribution(unsigned number) {
  Random random(number);
  GridPeer::Contribution own;
  own.weight = 1 + random.below(199);
  for (std::size_t i = 0; i < kValues; ++i)
    own.values.push_back(static_cast<float>(static_cast<double>(random.next() >> 11U) * 0x1p-52 - 1));
  return own;
}

/// Many peers of one process, one loop, one thread; each with a port of its own.
class Crowd {
 public:
  Crowd(unsigned count, std::vector<std::uint32_t> radices)
      : clock_(loop_.get_executor()),
        network_(loop_.get_executor(), clock_),
        codecs_(grid_codecs(kValues, CodecId::float32)) {
    net::Address any_port;
    any_port.host = "127.0.0.1";
    const GridPeer::Needs needs{loop_.get_executor(), clock_, network_, codecs_, any_port};
    std::vector<PeerId> ids;
    for (unsigned number = 0; number < count; ++number) {
      Identity::Seed seed{};
      seed[0] = static_cast<unsigned char>(number + 1);
      peers_.push_back(std::make_unique<GridPeer>(needs, Identity::generate(seed), number, contribution(number)));
      ids.push_back(peers_.back()->id());
    }
    pass_.grid.radices = std::move(radices);
    pass_.schedule = std::make_shared<const matchmaking::Schedule>(pass_.grid, ids, 0);
    pass_.weight_max = 199;
  }

  /// Throws what went wrong.
  GridResult run() {
    std::exception_ptr error;
    const auto ended = [&](const std::exception_ptr& thrown) {
      error = thrown;
      if (thrown) loop_.stop();  // peers would go on
    };
    asio::co_spawn(loop_, everybody(), ended);
    loop_.run();
    if (error) std::rethrow_exception(error);
    std::vector<const GridPeer*> all;
    for (const auto& peer : peers_) all.push_back(peer.get());
    return measure(all);
  }

  const std::vector<std::unique_ptr<GridPeer>>& peers() const { return peers_; }

 private:
  Task<> everybody() {
    for (auto& peer : peers_) peer->listen();
    for (auto& peer : peers_) {
      for (auto& other : peers_)
        if (other != peer) peer->knows(*other);
    }
    for (auto& peer : peers_) peer->start();
    pass_.deadline = clock_.now() + 20s;
    TaskGroup passes(loop_.get_executor(), rethrow);
    for (auto& peer : peers_) passes.spawn("pass", peer->run(pass_));
    co_await passes.join();
    for (auto& peer : peers_) co_await peer->stop();
  }

  asio::io_context loop_{1};
  RealClock clock_;
  net::TcpNetwork network_;
  CodecMap codecs_;
  std::vector<std::unique_ptr<GridPeer>> peers_;
  averaging::Pass pass_;
};

}  // namespace

TEST_CASE("moshpit on TCP: 16 peers, groups of 4: after two rounds the exact weighted mean, the same bytes on all") {
  Crowd crowd(16, {4, 4});
  const GridResult result = crowd.run();
  CHECK(result.complete == 16);
  CHECK(result.equal_bytes);
  CHECK(result.max_relative_error <= 1e-6);
  CHECK(result.largest_group == 4);
  std::uint64_t weight = 0;
  for (const auto& peer : crowd.peers()) {
    weight += peer->own().weight;
    CHECK(peer->report().rounds.size() == 2);
  }
  CHECK(result.weight == weight);
  MESSAGE("largest error " << result.max_relative_error << " of the largest value");
}

}  // namespace collab::sim
