#pragma once
// Who works on which units: records under `lease/<pass>`, one of each owner, whose overlap the storers refuse.

#include "base/bytes.hpp"
#include "base/work.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace collab::directory {

inline constexpr std::string_view kLeasePrefix = "lease/";
/// Of one record: nobody needs more ahead, and nobody may keep a whole pass to himself.
inline constexpr std::uint64_t kLeaseUnitsMax = 65'536;

std::string lease_key(std::uint64_t pass);
bool is_lease_key(std::string_view key) noexcept;

/// Whether one record can name all of it: kWorkRangesMax ranges, kLeaseUnitsMax units.
bool fits_lease(const Work& work) noexcept;
/// Of what does not fit the first ranges, for a lease is advice. `work` is not empty. Fits a record's value.
Bytes encode_lease(const Work& work);
/// From any bytes. Errors: `bad_request` for anything that `encode_lease` does not make.
Result<Work> decode_lease(std::span<const std::byte> value);

}  // namespace collab::directory
