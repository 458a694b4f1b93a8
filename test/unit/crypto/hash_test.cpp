#include "crypto/hash.hpp"

#include "base/text.hpp"

#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

// What another implementation of BLAKE3 (the Rust crate's, by its Python package) made of the same bytes: each field
// with its length before it, all numbers in 8 bytes, the lowest first.
TEST_CASE("hash: fields are hashed as BLAKE3 of their lengths and bytes") {
  const std::array<unsigned char, 3> field = {1, 2, 3};
  const Digest few = Hasher("test").add(field).add(std::uint64_t(7)).finish();
  CHECK(to_hex(few) == "05c1efe8a39b78ccf111fb9875f4c507db356fe3063b59d8e57645c7745a173c");

  std::vector<std::byte> bytes(100'000);  // takes the wide code of this processor
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i % 251);
  CHECK(to_hex(hash_bytes("big", bytes)) == "327ab432c18792b9b0a7da320371f3a476c5e80e2795b876330421dc2aac249b");
}

TEST_CASE("hash: what stands in one field or in two, or in another domain, has another hash") {
  const std::array<unsigned char, 4> all = {1, 2, 3, 4};
  const std::span<const unsigned char> bytes(all);
  const Digest one = Hasher("test").add(bytes).finish();
  CHECK(one != Hasher("test").add(bytes.first(2)).add(bytes.last(2)).finish());
  CHECK(one != Hasher("test 2").add(bytes).finish());
}

}  // namespace
}  // namespace collab
