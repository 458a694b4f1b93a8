#include "crypto/verified.hpp"

#include <utility>

namespace collab {

Result<> VerifiedStatements::verify(std::span<const std::byte> statement, std::string_view run_id) {
  const auto letters = [](auto bytes) {
    return std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  };
  const Digest digest = Hasher("collab verified").add(letters(statement)).add(letters(std::span(run_id))).finish();
  if (recent_.contains(digest) || older_.contains(digest)) return {};
  const auto decoded = decode_signed(statement);
  if (!decoded) return decoded.error();
  if (const auto genuine = collab::verify(*decoded, run_id, scheme_); !genuine) return genuine.error();
  if (recent_.size() >= count_) older_ = std::exchange(recent_, {});
  recent_.insert(digest);
  return {};
}

}  // namespace collab
