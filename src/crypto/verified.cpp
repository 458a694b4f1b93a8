#include "crypto/verified.hpp"

#include <utility>

namespace collab {

Result<> VerifiedStatements::verify(const Signed& statement, std::string_view run_id) {
  const Bytes encoded = encode(statement);
  const auto letters = [](auto bytes) {
    return std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  };
  const Digest digest =
      Hasher("collab verified").add(letters(std::span(encoded))).add(letters(std::span(run_id))).finish();
  if (recent_.contains(digest) || older_.contains(digest)) return {};
  if (const auto genuine = collab::verify(statement, run_id, scheme_); !genuine) return genuine.error();
  if (recent_.size() >= count_) older_ = std::exchange(recent_, {});
  recent_.insert(digest);
  return {};
}

}  // namespace collab
