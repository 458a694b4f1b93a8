#include "base/event_queue.hpp"

#include <algorithm>
#include <cassert>
#include <functional>

namespace collab {
namespace {

constexpr int kBucketBits = 27;            // of nanoseconds: an eighth of a second
constexpr std::size_t kOffKept = 1 << 10;  // entries that were called off, and as many as are set

std::int64_t bucket_of(TimePoint when) {
  return when.time_since_epoch().count() >> kBucketBits;
}

}  // namespace

void Event::set(TimePoint when) {
  assert(!slot_);
  if (queue_ != nullptr && when != TimePoint::max()) queue_->add(*this, when);
}

void Event::call_off() {
  if (slot_) queue_->remove(*this);
}

EventQueue::~EventQueue() {
  for (const Slot& slot : slots_) {
    if (slot.event == nullptr) continue;
    slot.event->slot_.reset();
    slot.event->queue_ = nullptr;
  }
}

void EventQueue::add(Event& event, TimePoint when) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const Entry entry{std::max(when, past_), next_ticket_++, free_.back()};
  free_.pop_back();
  slots_[entry.slot] = {&event, entry.ticket};
  event.slot_ = entry.slot;
  ++entries_;
  if (const std::int64_t bucket = bucket_of(entry.when); bucket >= near_end_) {
    far_[bucket].push_back(entry);
  } else {
    near_.push_back(entry);
    std::push_heap(near_.begin(), near_.end(), std::greater());
  }
}

void EventQueue::remove(Event& event) {
  slots_[*event.slot_] = {};
  free_.push_back(*event.slot_);
  event.slot_.reset();
  if (entries_ > 2 * size() + kOffKept) drop_those_off();
}

/// A deadline hours away would else be kept until then, once for each time that it was set.
void EventQueue::drop_those_off() {
  const auto off = [this](const Entry& entry) { return is_off(entry); };
  std::erase_if(near_, off);
  std::make_heap(near_.begin(), near_.end(), std::greater());
  entries_ = near_.size();
  for (auto next = far_.begin(); next != far_.end();) {
    auto& entries = next->second;
    std::erase_if(entries, off);
    entries_ += entries.size();
    next = entries.empty() ? far_.erase(next) : std::next(next);
  }
}

std::optional<TimePoint> EventQueue::next() {
  for (;;) {
    while (!near_.empty() && is_off(near_.front())) {
      std::pop_heap(near_.begin(), near_.end(), std::greater());
      near_.pop_back();
      --entries_;
    }
    if (!near_.empty()) return near_.front().when;
    if (far_.empty()) return std::nullopt;
    near_end_ = far_.begin()->first + 1;
    near_ = std::move(far_.begin()->second);
    far_.erase(far_.begin());
    entries_ -= std::erase_if(near_, [this](const Entry& entry) { return is_off(entry); });
    std::make_heap(near_.begin(), near_.end(), std::greater());
  }
}

void EventQueue::happen_next() {
  const auto when = next();
  assert(when);
  past_ = *when;
  Event& event = *slots_[near_.front().slot].event;
  event.call_off();  // its entry is dropped with the next look
  event.happen();
}

}  // namespace collab
