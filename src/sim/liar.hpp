#pragma once
// A peer that lies. Its own code is the production code and believes in what it does; the lie is put into what leaves
// its machine, under its own signature and on its own authenticated connections.

#include "directory/directory.hpp"
#include "net/endpoint.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace collab::sim {

enum class Lie : std::uint8_t {
  not_finite,  ///< NaN in its parts, and in what it hands on
  heavy,       ///< its parts, what it tells its leader, and what it hands on, stand for 10^12 samples
  weightless,  ///< its parts have values and no weight
  short_part,  ///< its parts, and what it hands on, lack their last bytes
  two_faced,   ///< every chunk of its parts comes twice, the second time with other values
  result,      ///< who missed a round, or wants the state, is given other bytes than the index says
  roster,      ///< the groups that it begins are of the one who is told and strangers
  ahead,       ///< its progress record says that it is 1000 epochs further
  hash,        ///< its progress record names other parameters than it has
  samples,     ///< its progress record says 10^12 samples
  grid,        ///< it seats 64 strangers, and nobody else, on a grid
  average,     ///< one receiver is sent averages that are not what the others are sent
  help,        ///< it says that it averages for those whom nobody can dial
};
inline constexpr std::size_t kLies = 13;
std::string_view name(Lie lie) noexcept;
std::optional<Lie> lie_named(std::string_view name) noexcept;

/// An endpoint whose conversations and answers say what `lie` says while there is one.
class LyingEndpoint final : public net::Endpoint {
 public:
  /// Both outlive it. `blind`: it knows nothing of how fast links are.
  LyingEndpoint(net::Endpoint& honest, const std::optional<Lie>& lie, bool blind)
      : honest_(honest), lie_(lie), blind_(blind) {}

  const PeerId& self() const override { return honest_.self(); }
  void handle(net::Method method, net::Handler handler) override;
  void allow_conversation(net::Method protocol) override { honest_.allow_conversation(std::move(protocol)); }
  Task<net::Answer> call(PeerId to, std::string_view method, Frame request, TimePoint deadline) override {
    return honest_.call(to, method, distorted(method, std::move(request)), deadline);
  }
  std::unique_ptr<net::Conversation> converse(std::string_view protocol, const net::Topic& topic,
                                              std::vector<PeerId> members) override;
  net::LinkState link(const PeerId& peer) const override {
    net::LinkState state = honest_.link(peer);
    if (blind_) state.up_bytes_per_s = state.down_bytes_per_s = 0;
    return state;
  }
  net::Caps caps() const override { return honest_.caps(); }
  void introduce(const PeerId& peer, std::vector<net::Address> addresses) override {
    honest_.introduce(peer, std::move(addresses));
  }
  void introduce_relays(const PeerId& peer, std::vector<net::Address> relays) override {
    honest_.introduce_relays(peer, std::move(relays));
  }
  bool can_reach(const PeerId& peer) const override { return honest_.can_reach(peer); }
  std::vector<PeerId> tensor_relays() const override { return honest_.tensor_relays(); }

 private:
  Frame distorted(std::string_view method, Frame request) const;

  net::Endpoint& honest_;
  const std::optional<Lie>& lie_;
  bool blind_;
};

/// What a liar publishes under `key` instead of `value`.
Bytes distorted_record(Lie lie, std::string_view key, Bytes value);
/// Records that a liar publishes beside its own, under matchmaking::kSeatingKey.
std::vector<Bytes> absurd_seating(std::uint64_t epoch);

}  // namespace collab::sim
