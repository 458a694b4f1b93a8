#pragma once
// What is to happen when: the order of time below every clock.

#include "base/duration.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace collab {

class EventQueue;

/// Something that happens once at a moment, unless it is called off or destroyed before.
class Event {
 public:
  explicit Event(EventQueue& queue) : queue_(&queue) {}
  virtual ~Event() { call_off(); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// At `when`, or next of all if that has passed; TimePoint::max(): never. Not while it is set.
  void set(TimePoint when);
  void call_off();

 private:
  friend class EventQueue;
  virtual void happen() = 0;

  EventQueue* queue_;  // null: gone before its event
  std::optional<std::uint32_t> slot_;
};

/// Events by time; those of one moment in the order in which they were set. Most are deadlines that are called off
/// before they come, so setting and calling off are cheap: what lies ahead is in heaps of `kBucket` each, unsorted
/// until its time has come, and what was called off is dropped when it is met there. Belongs to one loop.
class EventQueue {
 public:
  EventQueue() = default;
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  /// When the earliest of those that are set happens; none: nothing is set.
  std::optional<TimePoint> next();
  /// Lets the earliest happen. There is one.
  void happen_next();
  /// Of those that are set.
  std::size_t size() const noexcept { return slots_.size() - free_.size(); }

 private:
  friend class Event;
  struct Entry {
    TimePoint when;
    std::uint64_t ticket;
    std::uint32_t slot;
    bool operator>(const Entry& other) const { return when != other.when ? when > other.when : ticket > other.ticket; }
  };
  struct Slot {
    Event* event = nullptr;    // null: free
    std::uint64_t ticket = 0;  // of the entry that means it; any other was called off
  };

  void add(Event& event, TimePoint when);
  void remove(Event& event);
  bool is_off(const Entry& entry) const { return slots_[entry.slot].ticket != entry.ticket; }
  void drop_those_off();

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<Entry> near_;  // a heap: all before `near_end_`, in buckets
  std::int64_t near_end_ = 0;
  std::map<std::int64_t, std::vector<Entry>> far_;  // by bucket
  std::size_t entries_ = 0;
  TimePoint past_{};  // the moment of what happened last
  std::uint64_t next_ticket_ = 1;
};

}  // namespace collab
