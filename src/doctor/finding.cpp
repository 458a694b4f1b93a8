#include "doctor/finding.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace collab::doctor {
namespace {

constexpr std::size_t kStrangersBytesMax = 200;

/// In the order in which a start meets them.
constexpr std::array kOrder = {ExitCode::bug,          ExitCode::usage,       ExitCode::machine, ExitCode::not_admitted,
                               ExitCode::incompatible, ExitCode::unreachable, ExitCode::data};

}  // namespace

std::string_view name(Grade grade) noexcept {
  constexpr std::array<std::string_view, 3> kNames = {"ok", "warn", "fail"};
  return kNames[static_cast<std::size_t>(grade)];
}

Finding ok(std::string name, std::string measured) {
  return {std::move(name), Grade::ok, std::move(measured), {}, ExitCode::done};
}

Finding warn(std::string name, std::string measured, std::string remedy) {
  return {std::move(name), Grade::warn, std::move(measured), std::move(remedy), ExitCode::done};
}

Finding fail(std::string name, std::string measured, std::string remedy, ExitCode code) {
  return {std::move(name), Grade::fail, std::move(measured), std::move(remedy), code};
}

Finding fail(std::string name, const Failure& failure) {
  return fail(std::move(name), failure.cause(), failure.remedy(), failure.code());
}

std::string words_of_stranger(std::string_view text) {
  return printable(std::string(text.substr(0, kStrangersBytesMax)));
}

Grade worst(std::span<const Finding> findings) noexcept {
  Grade grade = Grade::ok;
  for (const Finding& finding : findings) grade = std::max(grade, finding.result);
  return grade;
}

ExitCode exit_code(std::span<const Finding> findings) noexcept {
  const auto found = std::find_if(kOrder.begin(), kOrder.end(), [&](ExitCode code) {
    return std::any_of(findings.begin(), findings.end(), [code](const Finding& one) { return one.code == code; });
  });
  return found == kOrder.end() ? ExitCode::done : *found;
}

std::string line(const Finding& finding) {
  const std::string remedy =
      finding.remedy.empty() ? ""
                             : fmt::format("{} Try: {}", finding.measured.ends_with('?') ? "" : ".", finding.remedy);
  return fmt::format("{:<4}  {:<26}  {}{}", name(finding.result), finding.name, finding.measured, remedy);
}

std::string to_json(std::span<const Finding> findings) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    checks.push_back({{"name", finding.name},
                      {"result", name(finding.result)},
                      {"measured", finding.measured},
                      {"remedy", finding.remedy},
                      {"code", static_cast<int>(finding.code)}});
  }
  const nlohmann::ordered_json object = {{"version", kJsonVersion},
                                         {"checks", std::move(checks)},
                                         {"worst", name(worst(findings))},
                                         {"exit_code", static_cast<int>(exit_code(findings))}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace collab::doctor
