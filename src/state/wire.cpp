#include "state/wire.hpp"

#include "base/frame.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <set>

namespace collab::state::wire {
namespace {

// the largest index: 32 bytes for each chunk, and the heads of the sections
static_assert((kIndexedBytesMax / kChunkBytes + kSectionsMax) * sizeof(Digest) + frame::kHeaderBytesMax <
              frame::kFrameBytesMax);
static_assert(kChunkBytes + 1024 < frame::kFrameBytesMax);

bool within_bounds(const std::vector<SectionHead>& sections) {
  if (sections.empty() || sections.size() > kSectionsMax) return false;
  std::set<std::string_view> names;
  std::uint64_t left = kIndexedBytesMax;
  for (const SectionHead& section : sections) {
    if (section.name.size() > kSectionNameBytesMax || !names.insert(section.name).second) return false;
    if (section.bytes > left) return false;
    left -= section.bytes;
  }
  return true;
}

}  // namespace

Frame show(const Index& index, const std::vector<PeerId>& sharers) {
  ShowIndex message;
  message.epoch = index.epoch;
  for (const PeerId& sharer : sharers) message.sharers.push_back(sharer.key);
  Bytes hashes;
  hashes.reserve(index.chunks() * sizeof(Digest));
  for (const SectionIndex& section : index.sections) {
    message.sections.push_back({section.name, section.bytes});
    const auto bytes = std::as_bytes(std::span(section.chunks));
    hashes.insert(hashes.end(), bytes.begin(), bytes.end());
  }
  assert(within_bounds(message.sections));
  return frame::encode(Message(std::move(message)), hashes);
}

Result<Shown> read_index(std::span<const std::byte> frame) {
  auto message = frame::decode<Message>(frame);
  if (!message) return message.error();
  auto* shown = std::get_if<ShowIndex>(&message->header);
  if (shown == nullptr || !within_bounds(shown->sections)) return Errc::bad_request;
  if (shown->sharers.size() > kSharersMax) return Errc::bad_request;
  Index index{shown->epoch, {}};
  auto hashes = message->payload;
  for (SectionHead& head : shown->sections) {
    const auto chunks = static_cast<std::size_t>(chunks_of(head.bytes));
    if (hashes.size() / sizeof(Digest) < chunks) return Errc::bad_request;
    SectionIndex& section = index.sections.emplace_back(SectionIndex{std::move(head.name), head.bytes, {}});
    section.chunks.resize(chunks);
    if (chunks > 0) std::memcpy(section.chunks.data(), hashes.data(), chunks * sizeof(Digest));
    hashes = hashes.subspan(chunks * sizeof(Digest));
  }
  if (!hashes.empty()) return Errc::bad_request;
  Shown out{std::move(index), {}};
  for (const auto& key : shown->sharers) out.sharers.push_back(PeerId{key});
  return out;
}

Frame tell(const std::vector<bool>& have) {
  Bytes bits((have.size() + 7) / 8);
  for (std::size_t i = 0; i < have.size(); ++i)
    if (have[i]) bits[i / 8] |= std::byte(1U << (i % 8));
  Have message;
  message.chunks = static_cast<std::uint32_t>(have.size());
  return frame::encode(Message(message), bits);
}

Result<std::vector<bool>> read_have(std::span<const std::byte> frame, std::size_t chunks) {
  const auto message = frame::decode<Message>(frame);
  if (!message) return message.error();
  const auto* told = std::get_if<Have>(&message->header);
  if (told == nullptr || told->chunks != chunks || message->payload.size() != (chunks + 7) / 8)
    return Errc::bad_request;
  std::vector<bool> have(chunks);
  for (std::size_t i = 0; i < chunks; ++i)
    have[i] = (message->payload[i / 8] & std::byte(1U << (i % 8))) != std::byte(0);
  return have;
}

}  // namespace collab::state::wire
