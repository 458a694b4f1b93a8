#pragma once
// Which HTTP proxy a program dials through.

#include "net/proxy.hpp"

#include <functional>
#include <optional>
#include <string_view>

namespace collab::node {

/// `wish`: the option `proxy`, `[USER:PASSWORD@]HOST:PORT`; "off": none; empty: what https_proxy says, or HTTPS_PROXY.
/// What no_proxy lists, or NO_PROXY, is dialled without it in any case. `variable`: std::getenv, or a test's. Throws
/// `Failure(usage)`, which does not repeat what may hold a password.
std::optional<net::Proxy> choose_proxy(std::string_view wish, const std::function<const char*(const char*)>& variable);

}  // namespace collab::node
