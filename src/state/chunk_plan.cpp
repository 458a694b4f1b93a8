#include "state/chunk_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace collab::state {

ChunkPlan::ChunkPlan(const std::vector<bool>& here, Random* shuffled_by)
    : chunks_(here.size(), Chunk::wanted), turn_(here.size()), chunk_(here.size()) {
  std::iota(chunk_.begin(), chunk_.end(), std::size_t(0));
  for (std::size_t left = chunk_.size(); shuffled_by != nullptr && left > 1; --left)
    std::swap(chunk_[left - 1], chunk_[shuffled_by->below(left)]);
  for (std::size_t turn = 0; turn < chunk_.size(); ++turn) turn_[chunk_[turn]] = turn;
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (here[i]) {
      chunks_[i] = Chunk::here;
      ++here_;
    } else {
      missing_.insert(turn_[i]);
    }
  }
}

std::optional<std::size_t> ChunkPlan::take(std::size_t donor, TimePoint now, const std::vector<bool>* has) {
  std::optional<std::size_t> chunk;
  const auto next = std::find_if(missing_.begin(), missing_.end(),
                                 [&](std::size_t turn) { return has == nullptr || (*has)[chunk_[turn]]; });
  if (next != missing_.end()) {
    chunk = chunk_[*next];
    missing_.erase(next);
  } else if (missing_.empty()) {
    for (const Asked& one : asked_) {
      if (now - one.since < patience() || !may_repeat(one, donor, has)) continue;
      chunk = one.chunk;
      break;
    }
  }
  if (chunk) asked_.push_back({*chunk, donor, now});
  return chunk;
}

TimePoint ChunkPlan::next_repeat(std::size_t donor, const std::vector<bool>* has) const noexcept {
  TimePoint next = TimePoint::max();
  for (const Asked& one : asked_) {
    if (missing_.empty() && may_repeat(one, donor, has)) next = std::min(next, one.since + patience());
  }
  return next;
}

bool ChunkPlan::may_repeat(const Asked& one, std::size_t donor, const std::vector<bool>* has) const noexcept {
  return one.donor != donor && chunks_[one.chunk] == Chunk::wanted && asked_of(one.chunk) == 1 &&
         (has == nullptr || (*has)[one.chunk]);
}

bool ChunkPlan::lacks_any(const std::vector<bool>& has) const noexcept {
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk)
    if (has[chunk] && chunks_[chunk] != Chunk::here) return true;
  return false;
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
    missing_.insert(turn_[chunk]);
  }
}

void ChunkPlan::give_back(std::size_t chunk, std::size_t donor) {
  forget(chunk, donor);
  if (chunks_[chunk] == Chunk::wanted && asked_of(chunk) == 0) missing_.insert(turn_[chunk]);
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
