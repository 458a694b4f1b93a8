#include "net/hello.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace collab::net {
namespace {

constexpr std::size_t kNameBytesMax = 64;
constexpr std::size_t kAddressBytesMax = 262;
constexpr std::size_t kFeaturesMax = 32;
constexpr std::size_t kListenMax = 8;
constexpr std::size_t kRolesMax = 8;
constexpr std::size_t kConnectionNameBytes = 32;
constexpr std::size_t kRefuseTextMax = 1024;

bool short_enough(const std::vector<std::string>& names, std::size_t count_max, std::size_t bytes_max) {
  const auto fits = [&](const std::string& name) { return name.size() <= bytes_max && is_printable_ascii(name); };
  return names.size() <= count_max && std::all_of(names.begin(), names.end(), fits);
}

bool is_run_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

}  // namespace

Result<Hello> decode_hello(std::span<const std::byte> head) {
  if (head.size() > kHelloBytesMax) return Errc::bad_request;
  auto hello = decode_head<Hello>(head);
  if (!hello) return hello.error();
  const bool in_bounds =
      hello->version_min <= hello->version_max && is_time(hello->time_ms) && hello->software.size() <= kNameBytesMax &&
      is_printable_ascii(hello->software) && !hello->run.empty() && hello->run.size() <= kNameBytesMax &&
      std::all_of(hello->run.begin(), hello->run.end(), is_run_letter) && hello->token.size() <= kTokenBytesMax &&
      hello->observed.size() <= kAddressBytesMax && short_enough(hello->features, kFeaturesMax, kNameBytesMax) &&
      short_enough(hello->listen, kListenMax, kAddressBytesMax) &&
      short_enough(hello->roles, kRolesMax, kNameBytesMax) &&
      (hello->moves.empty() || hello->moves.size() == kConnectionNameBytes);
  if (!in_bounds) return Errc::bad_request;
  return hello;
}

std::optional<Refuse> judge(const Hello& theirs, const Hello& ours, std::int64_t skew_ms) {
  Refuse refuse;
  if (theirs.version_max < ours.version_min || theirs.version_min > ours.version_max) {
    refuse.reason = "version";
    refuse.text =
        fmt::format("this peer ({}) speaks protocol {} to {}, yours ({}) {} to {}: update the older one", ours.software,
                    ours.version_min, ours.version_max, theirs.software, theirs.version_min, theirs.version_max);
    return refuse;
  }
  if (theirs.run != ours.run) {
    refuse.reason = "run";
    refuse.text = fmt::format("this peer takes part in run \"{}\", yours in \"{}\"", ours.run, theirs.run);
    return refuse;
  }
  if (skew_ms > kSkewMaxMs || skew_ms < -kSkewMaxMs) {
    const double seconds = static_cast<double>(skew_ms < 0 ? -skew_ms : skew_ms) / 1000;
    refuse.reason = "clock";
    refuse.text = fmt::format("your clock is {:.1f} s {} this peer's; set it, at most {} s are tolerated", seconds,
                              skew_ms > 0 ? "ahead of" : "behind", kSkewMaxMs / 1000);
    return refuse;
  }
  return std::nullopt;
}

Refuse refuse_of(const Decision& no, const Result<>& shown) {
  Refuse refuse;
  refuse.text = no.reason;
  switch (no.why) {
    case Denial::token:
      refuse.reason = "token";
      if (!shown) refuse.text = shown.error().message();
      break;
    case Denial::blocked:  // a matter of time
      refuse.reason = "busy";
      refuse.number = static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(no.wait).count());
      break;
    default: refuse.reason = "banned"; break;
  }
  return refuse;
}

std::uint16_t common_version(const Hello& a, const Hello& b) {
  return std::min(a.version_max, b.version_max);
}

Refusal to_refusal(const Refuse& refuse) {
  const std::string text =
      printable(refuse.reason.substr(0, kNameBytesMax) + ": " + refuse.text.substr(0, kRefuseTextMax));
  if (refuse.reason == "busy") return Refusal(Errc::busy, text, refuse.number);
  return Refusal(Errc::denied, text);
}

}  // namespace collab::net
