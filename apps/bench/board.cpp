#include "board.hpp"

#include "base/bytes.hpp"

#include <charconv>
#include <utility>

namespace collab::bench {
namespace {

constexpr const char* kKey = "bench/board";
constexpr Duration kBoardPatience = std::chrono::seconds(20);
constexpr Duration kSettled = std::chrono::seconds(2);  // a claim waits a second when who serves has just changed
constexpr Duration kTtl = std::chrono::seconds(60);

Bytes value_of(std::size_t version) {
  const std::string text = std::to_string(version);
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

std::size_t version_of(const Bytes& value) {
  std::size_t version = 0;
  const auto* text = reinterpret_cast<const char*>(value.data());
  std::from_chars(text, text + value.size(), version);
  return version;
}

}  // namespace

Task<Result<Posted>> Board::post(std::size_t records, Duration every) {
  Posted posted;
  const TimePoint start = clock_.now() + kSettled;
  for (std::size_t version = 1; version <= records; ++version) {
    co_await clock_.sleep_until(start + version * every);
    const TimePoint begun = clock_.now();
    written_[version] = to_seconds(begun.time_since_epoch());
    const auto stored = co_await directory_.claim(kKey, "", value_of(version), kTtl, begun + kBoardPatience);
    if (!stored) co_return stored.error();
    const TimePoint there = clock_.now();
    posted.stored_s.push_back(to_seconds(there - begun));
    const auto found = co_await directory_.get(kKey, there + kBoardPatience);
    if (!found) co_return found.error();
    posted.found_s.push_back(to_seconds(clock_.now() - there));
    bool own = false;
    for (const directory::Record& record : *found)
      own = own || (record.owner == self_ && version_of(record.value) >= version);
    posted.missing += own ? 0 : 1;
  }
  co_return posted;
}

Task<> Board::watch() {
  const auto watch = directory_.watch(kKey);
  for (;;) {
    const double now = to_seconds(clock_.now().time_since_epoch());
    for (const directory::Record& record : watch->records())
      if (record.owner != self_) seen_[record.owner].emplace(version_of(record.value), now);
    co_await watch->changed_until(clock_.now() + kBoardPatience);
  }
}

}  // namespace collab::bench
