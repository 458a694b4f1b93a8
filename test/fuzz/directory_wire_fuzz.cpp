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

COLLAB_FUZZ_TARGET(directory_wire) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const Storage empty{Storage::Options()};
  if (const auto answer = answer_exchange(empty, bytes); answer && !frame::decode<wire::Header>(**answer)) std::abort();

  const auto message = frame::decode<wire::Header>(bytes);
  if (!message) return 0;
  const auto* header = &message->header;
  if (const auto* put = std::get_if<wire::Put>(header)) read_records(message->payload, put->records);
  if (const auto* page = std::get_if<wire::Page>(header)) read_records(message->payload, page->records);
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
