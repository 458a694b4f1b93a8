#include "sim/disk.hpp"

#include <utility>

namespace collab::sim {

TimePoint Disk::save(SavedState state, TimePoint now) {
  if (full_) {
    ++refused_;
    return now;
  }
  saved_.push_back({std::move(state), now + sync_time_, false});
  // the oldest goes when a newer one is there to stay
  while (saved_.size() > kKept && saved_[saved_.size() - kKept].stays_from <= now) saved_.pop_front();
  return now + sync_time_;
}

void Disk::died(TimePoint now) {
  std::erase_if(saved_, [now](const Saved& one) { return one.stays_from > now; });
}

void Disk::tear() {
  if (!saved_.empty()) saved_.back().torn = true;
}

std::optional<SavedState> Disk::load() {
  while (!saved_.empty() && saved_.back().torn) {
    ++damaged_;
    saved_.pop_back();
  }
  if (saved_.empty()) return std::nullopt;
  return saved_.back().state;
}

}  // namespace collab::sim
