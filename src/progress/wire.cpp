#include "progress/wire.hpp"

#include "base/frame.hpp"

#include <cmath>
#include <limits>

namespace collab::progress {
namespace {

constexpr double kRateMax = 1e9;
constexpr std::uint64_t kSamplesMax = std::uint64_t(1) << 48U;
constexpr std::uint32_t kPeriodMsMax = 60'000;
constexpr std::int64_t kUnixMsMax = std::int64_t(1) << 53U;     // the difference of two fits
constexpr double kLossMax = std::numeric_limits<float>::max();  // losses are float32, sums of them are not infinite

}  // namespace

Bytes encode(const Record& record) {
  return frame::encode(wire::Header(record))->copy();
}

Result<Record> decode(std::span<const std::byte> value) {
  const auto message = frame::decode<wire::Header>(value);
  if (!message) return message.error();
  const auto& record = std::get<wire::ProgressV1>(message->header);
  const bool rate = record.samples_per_s >= 0 && record.samples_per_s <= kRateMax;
  const bool period = record.period_ms > 0 && record.period_ms <= kPeriodMsMax;
  const bool date = record.unix_ms >= 0 && record.unix_ms <= kUnixMsMax && record.votes_from_ms >= 0 &&
                    record.votes_from_ms <= kUnixMsMax;
  const bool loss = std::isnan(record.loss) || std::abs(record.loss) <= kLossMax;
  if (!rate || !period || !date || !loss || record.samples > kSamplesMax || record.microbatch > kSamplesMax ||
      record.handed_over > kSamplesMax || record.left > kSamplesMax || !message->payload.empty())
    return Errc::bad_request;
  const bool leaves = record.heir.has_value();
  if (leaves ? record.taking_part || record.samples > 0 : record.left > 0) return Errc::bad_request;
  return record;
}

Bytes encode(const KeeperRecord& record) {
  return frame::encode(wire::KeeperHeader(record))->copy();
}

Result<KeeperRecord> decode_keeper(std::span<const std::byte> value) {
  const auto message = frame::decode<wire::KeeperHeader>(value);
  if (!message) return message.error();
  if (!message->payload.empty()) return Errc::bad_request;
  return std::get<wire::KeeperV1>(message->header);
}

}  // namespace collab::progress
