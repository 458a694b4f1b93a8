#include "epoch/wire.hpp"

#include "base/frame.hpp"

#include <algorithm>
#include <utility>

namespace collab::epoch::wire {

std::uint32_t pieces_of(std::size_t length) noexcept {
  return static_cast<std::uint32_t>((units_in(length) + kPieceUnits - 1) / kPieceUnits);
}

Range piece(std::size_t length, std::uint32_t index) noexcept {
  constexpr std::size_t kValues = kPieceUnits * kUnitValues;
  const std::size_t begin = std::min(length, index * kValues);
  return {begin, std::min(kValues, length - begin)};
}

Result<Asked> read_ask(std::span<const std::byte> frame) {
  const auto message = frame::decode<Message>(frame);
  if (!message || !message->payload.empty()) return Errc::bad_request;
  const auto* ask = std::get_if<TakeOn>(&message->header);
  if (ask == nullptr || ask->samples == 0 || ask->work.size() > kWorkRangesMax) return Errc::bad_request;
  std::vector<WorkRange> ranges;
  for (const Run& run : ask->work) ranges.push_back({run.first, run.count});
  auto work = Work::of(ranges, kWorkRangesMax);
  if (!work) return work.error();
  if (work->count() > ask->samples) return Errc::bad_request;
  return Asked{*ask, std::move(*work)};
}

Digest topic_of(const TakeOn& ask, const PeerId& leaver, const PeerId& heir) {
  return Hasher("collab legacy").add(leaver.key).add(heir.key).add(ask.epoch).add(ask.nonce).finish();
}

}  // namespace collab::epoch::wire
