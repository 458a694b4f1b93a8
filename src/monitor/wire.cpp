#include "monitor/wire.hpp"

#include "base/frame.hpp"
#include "base/text.hpp"
#include "directory/record.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace collab::monitor {
namespace {

constexpr std::size_t kMemberBytes = 12;
constexpr std::uint8_t kRefused = 5;
constexpr double kSecondsMax = 1e6;
constexpr std::uint64_t kNumberMax = std::uint64_t(1) << 56U;

std::uint8_t index_of(std::string_view left_out) {
  const auto found = std::find(kLeftOut.begin(), kLeftOut.end(), left_out);
  return found == kLeftOut.end() ? kRefused : static_cast<std::uint8_t>(found - kLeftOut.begin());
}

void write(const RoundMember& member, std::byte* to) {
  const auto samples =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(member.samples, std::numeric_limits<std::uint32_t>::max()));
  std::memcpy(to, member.id.key.data(), kRoundIdBytes);
  for (std::size_t i = 0; i < 4; ++i) to[kRoundIdBytes + i] = static_cast<std::byte>(samples >> (8 * i) & 0xffU);
  to[10] = static_cast<std::byte>(std::lround(100 * std::clamp(member.counted, 0.0, 1.0)));
  to[11] = static_cast<std::byte>(index_of(member.left_out));
}

Result<RoundMember> read_member(const std::byte* from) {
  RoundMember member;
  member.whole_id = false;
  std::memcpy(member.id.key.data(), from, kRoundIdBytes);
  for (std::size_t i = 0; i < 4; ++i)
    member.samples |= std::to_integer<std::uint64_t>(from[kRoundIdBytes + i]) << (8 * i);
  const auto percent = std::to_integer<unsigned>(from[10]);
  if (percent > 100) return Errc::bad_request;
  member.counted = percent / 100.0;
  const auto why = std::to_integer<std::size_t>(from[11]);
  member.left_out = kLeftOut[why < kLeftOut.size() ? why : kRefused];
  return member;
}

bool is_duration(double seconds) {
  return std::isnan(seconds) || (seconds >= 0 && seconds <= kSecondsMax);
}

bool is_possible(const wire::RoundV1& round) {
  const bool durations = is_duration(round.exchange_s) && is_duration(round.commit_s) && is_duration(round.apply_s);
  const std::uint64_t most = std::max({round.epoch, round.samples, round.up_bytes, round.down_bytes});
  return durations && most <= kNumberMax && round.reason.size() <= kReasonBytesMax;
}

}  // namespace

Result<Bytes> encode_round(const RoundView& round) {
  if (round.members.size() > kRoundMembersMax) return Errc::bad_request;
  wire::RoundV1 header;
  header.epoch = round.epoch;
  header.round = round.round;
  const auto group = from_hex(round.group);
  if (group && group->size() == header.group.size()) std::copy(group->begin(), group->end(), header.group.begin());
  header.committed = round.result == "committed";
  header.reason = cut_utf8(round.reason, kReasonBytesMax);
  header.exchange_s = round.exchange_s;
  header.commit_s = round.commit_s;
  header.apply_s = round.apply_s;
  header.samples = round.samples;
  header.up_bytes = round.up_bytes;
  header.down_bytes = round.down_bytes;
  Bytes members(round.members.size() * kMemberBytes);
  for (std::size_t i = 0; i < round.members.size(); ++i) write(round.members[i], members.data() + i * kMemberBytes);
  const Frame frame = frame::encode(wire::Header(std::move(header)), members);
  if (frame->size() > directory::kValueBytesMax) return Errc::bad_request;
  return frame->copy();
}

Result<RoundView> decode_round(std::span<const std::byte> value) {
  const auto message = frame::decode<wire::Header>(value);
  if (!message) return message.error();
  const auto* told = std::get_if<wire::RoundV1>(&message->header);
  const std::size_t members = message->payload.size() / kMemberBytes;
  if (told == nullptr || !is_possible(*told) || members > kRoundMembersMax ||
      message->payload.size() != members * kMemberBytes) {
    return Errc::bad_request;
  }
  RoundView round;
  round.epoch = told->epoch;
  round.round = told->round;
  if (told->group != Digest{}) round.group = to_hex(told->group);
  round.result = told->committed ? "committed" : "failed";
  round.reason = told->reason;
  round.exchange_s = told->exchange_s;
  round.commit_s = told->commit_s;
  round.apply_s = told->apply_s;
  round.samples = told->samples;
  round.up_bytes = told->up_bytes;
  round.down_bytes = told->down_bytes;
  for (std::size_t i = 0; i < members; ++i) {
    auto member = read_member(message->payload.data() + i * kMemberBytes);
    if (!member) return member.error();
    round.members.push_back(std::move(*member));
  }
  return round;
}

Bytes encode_evaluation(const wire::EvaluationV1& evaluation) {
  return frame::encode(wire::Header(evaluation))->copy();
}

Result<wire::EvaluationV1> decode_evaluation(std::span<const std::byte> value) {
  const auto message = frame::decode<wire::Header>(value);
  if (!message) return message.error();
  const auto* told = std::get_if<wire::EvaluationV1>(&message->header);
  if (told == nullptr || !message->payload.empty() || !std::isfinite(told->loss) || told->epoch > kNumberMax)
    return Errc::bad_request;
  return *told;
}

}  // namespace collab::monitor
