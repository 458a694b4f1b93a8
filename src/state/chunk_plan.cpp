#include "state/chunk_plan.hpp"

#include <algorithm>

namespace collab::state {

ChunkPlan::ChunkPlan(const std::vector<bool>& here) : chunks_(here.size(), Chunk::wanted) {
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (here[i]) {
      chunks_[i] = Chunk::here;
      ++here_;
    } else {
      missing_.insert(i);
    }
  }
}

std::optional<std::size_t> ChunkPlan::take(std::size_t donor, TimePoint now) {
  std::optional<std::size_t> chunk;
  if (!missing_.empty()) {
    chunk = missing_.extract(missing_.begin()).value();
  } else {
    for (const Asked& one : asked_) {
      if (one.donor == donor || now - one.since < patience() || chunks_[one.chunk] != Chunk::wanted) continue;
      if (asked_of(one.chunk) > 1) continue;
      chunk = one.chunk;
      break;
    }
  }
  if (chunk) asked_.push_back({*chunk, donor, now});
  return chunk;
}

TimePoint ChunkPlan::next_repeat(std::size_t donor) const noexcept {
  TimePoint next = TimePoint::max();
  for (const Asked& one : asked_) {
    if (one.donor == donor || chunks_[one.chunk] != Chunk::wanted || asked_of(one.chunk) > 1) continue;
    next = std::min(next, one.since + patience());
  }
  return next;
}

bool ChunkPlan::arrived(std::size_t chunk, std::size_t donor, TimePoint now) {
  for (const Asked& one : asked_) {
    if (one.chunk != chunk || one.donor != donor) continue;
    const Duration took = now - one.since;
    usual_ = usual_ == Duration() ? took : usual_ + (took - usual_) / 8;
  }
  forget(chunk, donor);
  if (chunks_[chunk] != Chunk::wanted) return false;
  chunks_[chunk] = Chunk::checking;
  return true;
}

void ChunkPlan::checked(std::size_t chunk, bool good) {
  chunks_[chunk] = good ? Chunk::here : Chunk::wanted;
  if (good) {
    ++here_;
  } else if (asked_of(chunk) == 0) {
    missing_.insert(chunk);
  }
}

void ChunkPlan::give_back(std::size_t chunk, std::size_t donor) {
  forget(chunk, donor);
  if (chunks_[chunk] == Chunk::wanted && asked_of(chunk) == 0) missing_.insert(chunk);
}

std::size_t ChunkPlan::asked_of(std::size_t chunk) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(asked_.begin(), asked_.end(), [&](const Asked& one) { return one.chunk == chunk; }));
}

void ChunkPlan::forget(std::size_t chunk, std::size_t donor) {
  std::erase_if(asked_, [&](const Asked& one) { return one.chunk == chunk && one.donor == donor; });
}

Duration ChunkPlan::patience() const noexcept {
  if (usual_ == Duration()) return std::chrono::seconds(1);
  return std::max<Duration>(3 * usual_, std::chrono::milliseconds(200));
}

}  // namespace collab::state
