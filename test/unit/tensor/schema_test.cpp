#include "tensor/schema.hpp"

#include <set>
#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

Schema small() {
  return {{{"dense.weight", DType::float32, {3, 4}, TensorRole::gradient},
           {"dense.bias", DType::float32, {3}, TensorRole::gradient},
           {"steps", DType::float32, {}, TensorRole::statistic}}};
}

}  // namespace

TEST_CASE("schema: the flat vector holds the values of all tensors, a scalar's one and an empty tensor's none") {
  Schema schema = small();
  CHECK(schema.values() == 12 + 3 + 1);
  schema.tensors.push_back({"empty", DType::float32, {0, 5}, TensorRole::extra});
  CHECK(schema.values() == 16);
}

TEST_CASE("schema: canonical bytes differ whenever anything that matters differs") {
  std::vector<Schema> variants(9, small());
  variants[1].tensors[0].name = "dense.weigh";
  variants[2].tensors[0].shape = {4, 3};
  variants[3].tensors[0].shape = {12};
  variants[4].tensors[1].dtype = DType::bfloat16;
  variants[5].tensors[1].role = TensorRole::parameter;
  std::swap(variants[6].tensors[0], variants[6].tensors[1]);
  variants[7].tensors.pop_back();
  variants[8].tensors[2].shape = {1};
  std::set<Bytes> all;
  for (const Schema& schema : variants) all.insert(schema.canonical());
  CHECK(all.size() == variants.size());
  CHECK(small().canonical() == small().canonical());
  // Length, then the field, little endian: "schema", then the count.
  const Bytes bytes = small().canonical();
  CHECK(bytes[0] == std::byte{6});
  CHECK(bytes[8] == std::byte{'s'});
  CHECK(bytes[14] == std::byte{8});
  CHECK(bytes[22] == std::byte{3});
}

TEST_CASE("schema: a difference is told in words, the first one only") {
  const Schema here = small();
  CHECK(first_difference(here, here).empty());
  Schema there = here;
  there.tensors[1].shape = {4};
  there.tensors[2].name = "later";
  CHECK(first_difference(here, there) == "tensor 1: dense.bias is [3] here and [4] there");
  there = here;
  there.tensors[0].name = "other";
  CHECK(first_difference(here, there) == "tensor 0: dense.weight here and other there");
  there = here;
  there.tensors[0].dtype = DType::float16;
  CHECK(first_difference(here, there) == "tensor 0: dense.weight is float32 here and float16 there");
  there = here;
  there.tensors[2].role = TensorRole::extra;
  CHECK(first_difference(here, there) == "tensor 2: steps is a statistic here and an extra there");
  there = here;
  there.tensors.pop_back();
  CHECK(first_difference(here, there) == "tensor 2: steps is only here");
  CHECK(first_difference(there, here) == "tensor 2: steps is only there");
}

}  // namespace collab
