#pragma once
// The asking side of the status socket, for programs without a loop.

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

namespace collab::monitor {

/// Sends "status" or "leave" to the node that runs in `home` and returns its line of JSON. Blocks for `patience` at
/// most between two bytes. Throws `Failure(unreachable)` when no node runs there or it does not answer in time.
std::string ask_node(const std::filesystem::path& home, std::string_view command,
                     std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace collab::monitor
