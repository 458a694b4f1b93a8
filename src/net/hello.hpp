#pragma once
// Whether two peers fit together: what one says in its hello, judged by the other.

#include "crypto/access.hpp"
#include "net/wire.hpp"

#include <optional>
#include <string>

namespace collab::net {

inline constexpr std::int64_t kSkewMaxMs = 60'000;

/// Errors: `bad_request` for a hello that no correct peer sends: a field outside the bounds that wire.hpp names.
Result<Hello> decode_hello(std::span<const std::byte> head);

/// `skew_ms`: their clock minus ours, at the same moment. Nothing: they fit. Else what to send back. Judged in the
/// order version, run, clock; whether the peer is welcome is for the caller to ask.
std::optional<Refuse> judge(const Hello& theirs, const Hello& ours, std::int64_t skew_ms);

/// What to tell a peer that is not admitted. `shown`: what came of the token in its hello.
Refuse refuse_of(const Decision& no, const Result<>& shown);

/// The highest version both speak. Only for hellos that fit.
std::uint16_t common_version(const Hello& a, const Hello& b);

/// What a refusal means to who asked for the connection.
Refusal to_refusal(const Refuse&);

}  // namespace collab::net
