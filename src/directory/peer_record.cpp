#include "directory/peer_record.hpp"

#include "base/frame.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <utility>

namespace collab::directory {
namespace {

bool within_sizes(const PeerRecord& peer) {
  return peer.listen.size() <= kListenAddressesMax && peer.role.size() <= kNameBytesMax &&
         peer.name.size() <= kNameBytesMax && peer.software.size() <= kNameBytesMax;
}

}  // namespace

Result<Bytes> encode(const PeerRecord& peer) {
  if (!within_sizes(peer) || !std::all_of(peer.listen.begin(), peer.listen.end(), net::is_numeric))
    return Errc::bad_request;
  wire::PeerV1 message;
  for (const net::Address& address : peer.listen) message.listen.push_back(net::to_string(address));
  message.reachable = peer.reachable;
  message.directory = peer.directory;
  message.role = peer.role;
  message.name = peer.name;
  message.software = peer.software;
  message.incarnation = peer.incarnation;
  const Frame frame = frame::encode(wire::PeerHeader(std::move(message)));
  if (frame->size() > kValueBytesMax) return Errc::bad_request;
  return *frame;
}

Result<PeerRecord> decode_peer_record(std::span<const std::byte> value) {
  auto message = frame::decode<wire::PeerHeader>(value);
  if (!message) return message.error();
  if (!message->payload.empty()) return Errc::bad_request;
  auto& fields = std::get<wire::PeerV1>(message->header);
  PeerRecord peer;
  for (const std::string& text : fields.listen) {
    auto address = net::parse_numeric_address(text);
    if (!address || peer.listen.size() == kListenAddressesMax) return Errc::bad_request;
    peer.listen.push_back(std::move(*address));
  }
  peer.reachable = fields.reachable;
  peer.directory = fields.directory;
  peer.role = printable(fields.role);
  peer.name = printable(fields.name);
  peer.software = printable(fields.software);
  peer.incarnation = fields.incarnation;
  if (!within_sizes(peer)) return Errc::bad_request;
  return peer;
}

}  // namespace collab::directory
