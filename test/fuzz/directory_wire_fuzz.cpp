// Requests and answers come from strangers: any bytes decode or are refused, a server's answer to any exchange is one
// that its reader takes, and what was taken is packed to the same bytes again.
#include "base/frame.hpp"
#include "directory/reconcile.hpp"
#include "directory/wire.hpp"
#include "support.hpp"

#include <algorithm>
#include <cstdlib>

namespace collab::fuzz::directory_wire_target {

using namespace directory;

void read_records(std::span<const std::byte> payload, std::size_t count) {
  const auto whole = payload;
  const auto records = wire::take_records(payload, count);
  if (!records) return;
  std::vector<const SignedRecord*> list;
  for (const SignedRecord& record : *records) list.push_back(&record);
  const Bytes again = wire::pack_records(list);
  if (!std::ranges::equal(again, whole.first(whole.size() - payload.size()))) std::abort();
}

void read_found(std::span<const std::byte> payload, const wire::Found& found) {
  if (!wire::take_records(payload, found.records)) return;
  for (const std::uint32_t count : {found.nodes, found.followers}) {
    const auto nodes = wire::take_nodes(payload, std::min<std::size_t>(count, wire::kNodesMax));
    if (!nodes) return;
    std::vector<const RouteNode*> list;
    for (const RouteNode& node : *nodes) list.push_back(&node);
    // an address has several texts, so the bytes need not be the same, but what they say is
    const Bytes again = wire::pack_nodes(list);
    std::span<const std::byte> rest(again);
    const auto same = wire::take_nodes(rest, list.size());
    if (!same || !rest.empty()) std::abort();
    for (std::size_t i = 0; i < list.size(); ++i) {
      if ((*same)[i].id != list[i]->id || (*same)[i].addresses != list[i]->addresses) std::abort();
    }
  }
}

COLLAB_FUZZ_TARGET(directory_wire) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const Storage empty{Storage::Options()};
  if (const auto answer = answer_exchange(empty, bytes); answer && !frame::decode<wire::Header>(**answer)) std::abort();

  const auto message = frame::decode<wire::Header>(bytes);
  if (!message) return 0;
  const auto* header = &message->header;
  if (const auto* put = std::get_if<wire::Put>(header)) read_records(message->payload, put->records);
  if (const auto* page = std::get_if<wire::Page>(header)) read_records(message->payload, page->records);
  if (const auto* find = std::get_if<wire::Find>(header)) read_records(message->payload, find->records);
  if (const auto* found = std::get_if<wire::Found>(header)) read_found(message->payload, *found);
  if (const auto* fetched = std::get_if<wire::Fetched>(header)) read_records(message->payload, fetched->records);
  if (const auto* differing = std::get_if<wire::Differing>(header)) {
    const auto versions = wire::unpack_versions(message->payload, differing->versions);
    if (versions && !std::ranges::equal(wire::pack_versions(*versions), message->payload)) std::abort();
  }
  if (const auto* fetch = std::get_if<wire::Fetch>(header)) {
    const auto slots = wire::unpack_slots(message->payload, fetch->slots);
    if (slots && !std::ranges::equal(wire::pack_slots(*slots), message->payload)) std::abort();
  }
  return 0;
}

}  // namespace collab::fuzz::directory_wire_target
