#pragma once
// Every option of a program in one table, and what each is set to and by whom.

#include "base/error.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace collab::node {

enum class OptionKind : std::uint8_t {
  text,
  number,  ///< a whole number
  real,
  toggle,  ///< on or off; the bare flag means on
  list,    ///< of texts; on the command line the flag may be given several times, in TOML it is an array
};

/// One row feeds the flag `--run-id`, the variable `COLLAB_RUN_ID`, the TOML key `run_id`, `--help` and the reference
/// page.
struct OptionRow {
  std::string name;  ///< words joined by hyphens
  OptionKind kind = OptionKind::text;
  std::string topic;                                      ///< heading in --help
  std::string value;                                      ///< placeholder in --help, "SECONDS"; empty for a toggle
  std::string built_in;                                   ///< default as text; empty: none
  std::string help;                                       ///< one line
  double min = -std::numeric_limits<double>::infinity();  ///< of a number, real
  double max = std::numeric_limits<double>::infinity();
  std::string alone = {};  ///< what the flag means without a value; empty: it needs one
  bool login = false;  ///< an HTTP proxy, or "off": its text may begin with `USER:PASSWORD@`, which is shown nowhere
};
using OptionTable = std::vector<OptionRow>;

/// Who set a value; a later one beats an earlier one.
enum class Origin : std::uint8_t { built_in, manifest, system_file, run_file, config_file, environment, flag };
std::string_view name(Origin) noexcept;

/// What may be shown of a value: with `login` not what stands before its last `@`, and nothing of what is no proxy.
std::string shown(const OptionRow& row, const std::string& value);

/// The values of all options of one program. What is set is checked at once.
class Config {
 public:
  explicit Config(OptionTable table);

  /// Keeps the value unless one of a higher origin is there. Throws `Failure(usage)`, naming option, value, origin and
  /// what is allowed; for an unknown name, the nearest known one.
  void set(std::string_view name, std::string_view value, Origin origin, std::string_view where = {});
  /// Sets each key of a TOML file; hyphens and underscores are one. Throws `Failure(usage)`.
  void read_file(const std::filesystem::path& file, Origin origin);
  /// Sets each COLLAB_… variable that belongs to a row. `variable`: std::getenv, or a test's.
  void read_environment(const std::function<const char*(const char*)>& variable);

  std::string text(std::string_view name) const;
  std::int64_t number(std::string_view name) const;
  double real(std::string_view name) const;
  bool toggle(std::string_view name) const;
  std::vector<std::string> list(std::string_view name) const;
  /// Whether anybody gave a value; a built-in one counts.
  bool has(std::string_view name) const;
  Origin origin(std::string_view name) const;

  const OptionTable& table() const noexcept { return table_; }
  /// `collab-peer config`: name, value and origin of each option, a line each.
  std::string describe() const;

 private:
  struct Value {
    std::vector<std::string> texts;  ///< one, but for lists
    Origin origin = Origin::built_in;
    std::string where;  ///< file or variable
  };
  const OptionRow& row(std::string_view name) const;
  const Value* find(std::string_view name) const;

  OptionTable table_;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace collab::node
