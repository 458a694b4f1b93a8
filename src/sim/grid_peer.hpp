#pragma once
// A peer that does nothing but passes over a Moshpit grid, on any network: production connections, searches and rounds.
// It has no directory: who meets whom follows from the grid, and addresses are told by `knows`.

#include "averaging/moshpit.hpp"
#include "base/metrics.hpp"
#include "base/task_group.hpp"
#include "crypto/access.hpp"
#include "net/peer_endpoint.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace collab::sim {

class GridPeer {
 public:
  /// All outlive it.
  struct Needs {
    asio::any_io_executor executor;
    Clock& clock;
    net::Network& network;
    const CodecMap& codecs;
    net::Address listen;
  };
  struct Contribution {
    std::vector<float> values;
    std::uint64_t weight = 1;
    Work work;
  };

  GridPeer(const Needs& needs, Identity identity, std::uint64_t seed, Contribution own);
  ~GridPeer();
  GridPeer(const GridPeer&) = delete;
  GridPeer& operator=(const GridPeer&) = delete;

  /// Before start().
  void observe(Log::Observer observer) { log_.observe(std::move(observer)); }
  void listen() { endpoint_->listen(); }
  net::Address address() const { return endpoint_->listening().front(); }
  void knows(const GridPeer& other);
  /// How fast its line is, as if it had measured it. Before start().
  void measured(std::uint64_t up_bytes_per_s, std::uint64_t down_bytes_per_s) {
    moshpit_->bandwidth(up_bytes_per_s, down_bytes_per_s);
  }
  void claim(Work units) { own_.work = std::move(units); }
  void start();
  /// One pass: begin, hand over, finish.
  Task<> run(averaging::Pass pass);
  /// Its begin only: the first group.
  Task<Result<matchmaking::Group>> find_group(averaging::Pass pass) { return moshpit_->begin(std::move(pass)); }
  Task<> stop();

  const PeerId& id() const { return identity_.id(); }
  const Contribution& own() const noexcept { return own_; }
  /// Its own before the pass and after one that failed, else the swarm's.
  const std::vector<float>& values() const noexcept { return values_; }
  /// Nothing before the pass has ended.
  const std::optional<Result<averaging::PassOutcome>>& outcome() const noexcept { return outcome_; }
  const averaging::PassReport& report() const noexcept { return report_; }
  TimePoint ended_at() const noexcept { return ended_at_; }

 private:
  class NoDirectory;

  Clock& clock_;
  Identity identity_;
  Access access_;
  Log log_;
  Metrics metrics_;
  std::unique_ptr<net::PeerEndpoint> endpoint_;
  std::unique_ptr<NoDirectory> directory_;
  TaskGroup tasks_;
  std::unique_ptr<averaging::Moshpit> moshpit_;
  Contribution own_;
  std::vector<float> values_;
  std::optional<Result<averaging::PassOutcome>> outcome_;
  averaging::PassReport report_;
  TimePoint ended_at_{};
};

/// One flat tensor of `values`.
CodecMap grid_codecs(std::size_t values, CodecId codec);

/// What a whole pass comes to, measured against the exact mean in double precision of everybody's values.
struct GridResult {
  std::size_t complete = 0;       ///< peers that ended the pass with a result
  bool equal_bytes = false;       ///< all of those with the same
  double max_relative_error = 0;  ///< of those, by the largest |x| before
  std::uint64_t weight = 0;       ///< the least that one of them says
  std::size_t largest_group = 0;  ///< that committed
  bool equal_work = false;        ///< all of them know the same units behind it,
  Work work;                      ///< these
};

GridResult measure(const std::vector<const GridPeer*>& peers);

}  // namespace collab::sim
