#pragma once
// The key of a peer as the doctor sees it: whole, for its owner alone, perhaps in use.

#include "crypto/identity.hpp"
#include "doctor/finding.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace collab::doctor {

struct KeyCheck {
  Finding finding;
  bool made = false;                  ///< there is one, whether it can be used or not
  std::optional<Identity> identity;   ///< read, not locked; none: there is none, or it cannot be used
  std::optional<std::string> holder;  ///< "pid 4711": who has it now
};

/// Neither makes nor locks anything. No key is ok: the first start makes it.
KeyCheck check_key(const std::filesystem::path& file);

}  // namespace collab::doctor
