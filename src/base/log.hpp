#pragma once
// Named events with fields. Text for people on stderr, JSON lines for machines in a file.

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace collab {

enum class LogLevel { debug, info, warn, error, off };

/// One fact of an event: a name in the words of the code, and a value. No secrets, no tensors; addresses at debug only.
struct LogField {
  LogField(std::string_view field_name, std::string_view text) : name(field_name), value(std::string(text)) {}
  LogField(std::string_view field_name, const std::string& text) : name(field_name), value(text) {}
  LogField(std::string_view field_name, const char* text) : name(field_name), value(std::string(text)) {}
  LogField(std::string_view field_name, bool truth) : name(field_name), value(truth) {}
  template <std::signed_integral T>
  LogField(std::string_view field_name, T number) : name(field_name), value(static_cast<std::int64_t>(number)) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) LogField(std::string_view field_name, T number)
      : name(field_name), value(static_cast<std::uint64_t>(number)) {}
  template <std::floating_point T>
  LogField(std::string_view field_name, T number) : name(field_name), value(static_cast<double>(number)) {}

  std::string_view name;
  std::variant<std::string, bool, std::int64_t, std::uint64_t, double> value;
};

/// Where the events of one node go. `event` is a stable dotted name such as "averaging.part_late"; tests may rely on
/// it. Thread-safe. A default-made log swallows everything.
class Log {
 public:
  using Fields = std::initializer_list<LogField>;
  /// Sees each event whatever its level: for tests, the dashboard's event stream and `collab-sim --trace`.
  using Observer = std::function<void(LogLevel, std::string_view event, Fields)>;

  Log();
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  struct Options {
    LogLevel stderr_level = LogLevel::info;
    std::string file;                        ///< JSON lines; empty: none
    std::size_t file_bytes_max = 5'000'000;  ///< then it rotates, `files_max` are kept
    std::size_t files_max = 10;
    std::string node;  ///< shown on every line; empty: none
  };
  /// Throws `Failure(machine)` when the file cannot be opened.
  explicit Log(const Options&);

  void debug(std::string_view event, Fields fields = {}) { write(LogLevel::debug, event, fields); }
  void info(std::string_view event, Fields fields = {}) { write(LogLevel::info, event, fields); }
  void warn(std::string_view event, Fields fields = {}) { write(LogLevel::warn, event, fields); }
  void error(std::string_view event, Fields fields = {}) { write(LogLevel::error, event, fields); }
  void write(LogLevel, std::string_view event, Fields fields);

  /// Before the node's loop starts.
  void observe(Observer);

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
};

}  // namespace collab
