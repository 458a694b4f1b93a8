#include "directory/peer_record.hpp"

#include "base/frame.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <utility>

namespace collab::directory {
namespace {

bool within_sizes(const PeerRecord& peer) {
  return peer.listen.size() <= kListenAddressesMax && peer.relays.size() <= kRelaysMax &&
         peer.role.size() <= kNameBytesMax && peer.name.size() <= kNameBytesMax &&
         peer.software.size() <= kNameBytesMax;
}

bool is_relay(const net::Address& address) {
  return address.leg == net::Leg::relay;
}

/// Errors: `bad_request` for one that is none, or not of a relay when it should be, or for too many.
Result<std::vector<net::Address>> addresses_of(const std::vector<std::string>& texts, std::size_t count_max,
                                               bool relays) {
  std::vector<net::Address> all;
  for (const std::string& text : texts) {
    auto address = net::parse_numeric_address(text);
    if (!address || is_relay(*address) != relays || all.size() == count_max) return Errc::bad_request;
    all.push_back(std::move(*address));
  }
  return all;
}

}  // namespace

Result<Bytes> encode(const PeerRecord& peer) {
  if (!within_sizes(peer) || !std::all_of(peer.listen.begin(), peer.listen.end(), net::is_numeric) ||
      std::any_of(peer.listen.begin(), peer.listen.end(), is_relay) ||
      !std::all_of(peer.relays.begin(), peer.relays.end(), net::is_numeric) ||
      !std::all_of(peer.relays.begin(), peer.relays.end(), is_relay))
    return Errc::bad_request;
  wire::PeerV1 message;
  for (const net::Address& address : peer.listen) message.listen.push_back(net::to_string(address));
  message.reachable = peer.reachable;
  message.directory = peer.directory;
  message.role = peer.role;
  message.name = peer.name;
  message.software = peer.software;
  message.incarnation = peer.incarnation;
  message.relays_tensors = peer.relays_tensors;
  message.punchable = peer.punchable && !peer.relays.empty();
  for (const net::Address& address : peer.relays) message.relays.push_back(net::to_string(address));
  const Frame frame = frame::encode(wire::PeerHeader(std::move(message)));
  if (frame->size() > kValueBytesMax) return Errc::bad_request;
  return frame->copy();
}

Result<PeerRecord> decode_peer_record(std::span<const std::byte> value) {
  auto message = frame::decode<wire::PeerHeader>(value);
  if (!message) return message.error();
  if (!message->payload.empty()) return Errc::bad_request;
  auto& fields = std::get<wire::PeerV1>(message->header);
  PeerRecord peer;
  auto listen = addresses_of(fields.listen, kListenAddressesMax, false);
  auto relays = addresses_of(fields.relays, kRelaysMax, true);
  if (!listen || !relays) return Errc::bad_request;
  peer.listen = std::move(*listen);
  peer.relays = std::move(*relays);
  peer.reachable = fields.reachable;
  peer.directory = fields.directory;
  peer.punchable = fields.punchable;
  peer.relays_tensors = fields.relays_tensors;
  peer.role = printable(fields.role);
  peer.name = printable(fields.name);
  peer.software = printable(fields.software);
  peer.incarnation = fields.incarnation;
  if (!within_sizes(peer)) return Errc::bad_request;
  return peer;
}

}  // namespace collab::directory
