#include "node/proxy_choice.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

namespace collab::node {
namespace {

struct Said {
  std::string name;
  std::string value;
};

/// The first of two spellings that is set and not empty.
Said variable_said(const std::function<const char*(const char*)>& variable, const std::array<const char*, 2>& names) {
  for (const char* name : names) {
    const char* value = variable(name);
    if (value != nullptr && *value != '\0') return {name, value};
  }
  return {};
}

}  // namespace

std::optional<net::Proxy> choose_proxy(std::string_view wish, const std::function<const char*(const char*)>& variable) {
  if (wish == "off") return std::nullopt;
  Said said{"--proxy", std::string(wish)};
  if (wish.empty()) said = variable_said(variable, {"https_proxy", "HTTPS_PROXY"});
  if (said.value.empty()) return std::nullopt;
  auto proxy = net::parse_proxy(said.value);
  if (!proxy) {
    throw Failure(ExitCode::usage, fmt::format("what {} says is no HTTP proxy", said.name),
                  "--proxy [USER:PASSWORD@]HOST:PORT, spoken to in plain HTTP; or --proxy off for none");
  }
  proxy->direct = net::parse_no_proxy(variable_said(variable, {"no_proxy", "NO_PROXY"}).value);
  return std::move(*proxy);
}

}  // namespace collab::node
