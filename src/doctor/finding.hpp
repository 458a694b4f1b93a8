#pragma once
// What one check of the doctor found, and what a program makes of all of them.

#include "base/error.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace collab::doctor {

enum class Grade : std::uint8_t {
  ok,
  warn,  ///< it works, but worse than it could, or not for long
  fail,  ///< a peer would not start, or not take part
};
std::string_view name(Grade) noexcept;

struct Finding {
  std::string name;  ///< stable, "disk", or with what was looked at: "bootstrap host:4600"
  Grade result = Grade::ok;
  std::string measured;            ///< a phrase for a person, with numbers; never a secret
  std::string remedy;              ///< empty when ok
  ExitCode code = ExitCode::done;  ///< what a peer would end with; `done` unless `fail`
};

Finding ok(std::string name, std::string measured);
Finding warn(std::string name, std::string measured, std::string remedy);
Finding fail(std::string name, std::string measured, std::string remedy, ExitCode code);
/// What stopped a check would stop a peer as well.
Finding fail(std::string name, const Failure& failure);

/// What somebody else says, cut and fit for a terminal.
std::string words_of_stranger(std::string_view text);

/// The worst grade; `ok` of none.
Grade worst(std::span<const Finding> findings) noexcept;
/// `done` unless something failed; else what a start would end with first: wrong usage, this machine, not admitted,
/// incompatible, unreachable, data.
ExitCode exit_code(std::span<const Finding> findings) noexcept;

/// "warn  clock                       6.1 s behind the others. Try: set the clock", without a newline.
std::string line(const Finding& finding);

/// Of the object below; fields are added, never changed.
inline constexpr int kJsonVersion = 1;
/// {"version","checks":[{"name","result","measured","remedy","code"}],"worst","exit_code"} on one line; `worst` is a
/// grade. Bytes that are no UTF-8 become U+FFFD.
std::string to_json(std::span<const Finding> findings);

}  // namespace collab::doctor
