#pragma once
// Which network interface a program uses.

#include <string>

namespace collab::node {

/// `wish`: the option `interface`; empty: any. Throws `Failure(usage)` when this machine has none of the name, and says
/// which it has; `Failure(machine)` when this system lets only its administrator choose one.
std::string choose_interface(const std::string& wish);

}  // namespace collab::node
