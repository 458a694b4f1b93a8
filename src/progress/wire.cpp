#include "progress/wire.hpp"

#include <cmath>

namespace collab::progress {
namespace {

constexpr double kRateMax = 1e9;
constexpr std::uint64_t kSamplesMax = std::uint64_t(1) << 48U;
constexpr std::uint32_t kPeriodMsMax = 60'000;

}  // namespace

Bytes encode(const Record& record) {
  return *frame::encode(wire::Header(record));
}

Result<Record> decode(std::span<const std::byte> value) {
  const auto message = frame::decode<wire::Header>(value);
  if (!message) return message.error();
  const auto& record = std::get<wire::ProgressV1>(message->header);
  const bool rate = record.samples_per_s >= 0 && record.samples_per_s <= kRateMax;
  const bool period = record.period_ms > 0 && record.period_ms <= kPeriodMsMax;
  if (!rate || !period || record.samples > kSamplesMax || record.microbatch > kSamplesMax || !message->payload.empty())
    return Errc::bad_request;
  return record;
}

}  // namespace collab::progress
