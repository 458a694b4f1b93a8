#include "matchmaking/declaration.hpp"

#include "base/frame.hpp"

namespace collab::matchmaking {
namespace {

struct Written {
  std::uint64_t epoch = 0;
  std::uint32_t round = 1;
  bool reachable = false;
  std::uint64_t up = 0;
  std::uint64_t down = 0;
  std::uint8_t role = 0;
  MESSAGE_MAP(epoch, round, reachable, up, down, role)
};
using Header = std::variant<Written>;  // the frame around it brings limits and rules of evolution

}  // namespace

Bytes encode(const Declaration& declaration) {
  Written written;
  written.epoch = declaration.epoch;
  written.round = declaration.round;
  written.reachable = declaration.reachable;
  written.up = declaration.up_bytes_per_s;
  written.down = declaration.down_bytes_per_s;
  written.role = static_cast<std::uint8_t>(declaration.role);
  return frame::encode(Header(written))->copy();
}

Result<Declaration> decode_declaration(std::span<const std::byte> value) {
  const auto message = frame::decode<Header>(value);
  if (!message) return message.error();
  const auto& written = std::get<Written>(message->header);
  if (written.role > static_cast<std::uint8_t>(Role::auxiliary) || !message->payload.empty()) return Errc::bad_request;
  Declaration declaration;
  declaration.epoch = written.epoch;
  declaration.round = written.round;
  declaration.role = static_cast<Role>(written.role);
  declaration.reachable = written.reachable && declaration.role != Role::client;
  declaration.up_bytes_per_s = written.up;
  declaration.down_bytes_per_s = written.down;
  return declaration;
}

}  // namespace collab::matchmaking
