#pragma once
// What the services of this machine show on D-Bus: the line's, the sessions'.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

struct sd_bus;

namespace collab::jobs {

/// Where a service shows one thing.
struct BusProperty {
  const char* service;
  const char* path;
  const char* interface;
  const char* name;
};

/// A service that does not run is not started for the question. Thread safety: none.
class SystemBus {
 public:
  /// Nothing: no bus (looked for again after half a minute), no such service, or no answer within a fifth of a second.
  std::optional<std::uint32_t> number(const BusProperty& property);
  std::optional<bool> flag(const BusProperty& property);

 private:
  struct Close {
    void operator()(sd_bus* bus) const;
  };

  bool open();
  bool read(const BusProperty& property, char type, void* value);

  std::unique_ptr<sd_bus, Close> bus_;
  std::optional<std::chrono::steady_clock::time_point> failed_at_;
};

}  // namespace collab::jobs
