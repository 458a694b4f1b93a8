#pragma once
// What the owner of this machine allows: when the program takes part, and that it comes back by itself.

#include "jobs/peer_output.hpp"
#include "node/agenda.hpp"
#include "node/config.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace collab::jobs {

/// One per program. Thread safety: none; belongs to the main thread.
class Owner {
 public:
  /// Throws `Failure(usage)` for wishes that cannot be read.
  explicit Owner(const node::Config& config);

  PeerOutput& output() noexcept { return output_; }
  /// Waits until it may take part; `collab-peer status` and `leave` find it meanwhile. False: somebody ended that.
  bool await();

  /// Whether it has to rest. `carried`: bytes on its line since it joined. The agenda is looked at once a second; once
  /// a rest was due it stays so until await().
  bool must_rest(std::uint64_t carried);
  bool rests() const noexcept { return rest_.has_value(); }
  /// The stay is over, after so many bytes. `asked`: by the user, so that no rest follows.
  void left(std::uint64_t carried, bool asked);

 private:
  std::function<void(const std::string&)> notes();
  void count(std::uint64_t carried);
  void tell_rest();

  const node::Config& config_;
  PeerOutput output_;
  node::Agenda agenda_;
  std::optional<node::Rest> rest_;
  std::uint64_t counted_ = 0;  ///< of this stay
  std::chrono::steady_clock::time_point looked_at_{};
};

}  // namespace collab::jobs
