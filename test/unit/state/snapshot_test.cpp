#include "state/snapshot.hpp"

#include "base/error.hpp"
#include "state/offer.hpp"
#include "state/result_keeper.hpp"
#include "support/temp_folder.hpp"

#include <cstring>
#include <fstream>
#include <numeric>

#include "support/doctest.hpp"

namespace collab::state {
namespace {

Bytes numbered(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

Snapshot example() {
  Snapshot snapshot{7, {}};
  snapshot.sections.push_back({"parameters", numbered(2 * kChunkBytes + 100)});
  snapshot.sections.push_back({"schedule", {}});
  snapshot.sections.push_back({"optimizer", numbered(kChunkBytes)});
  return snapshot;
}

}  // namespace

TEST_CASE("offer: a file that no index can name is refused before anybody asks for it") {
  const test::TempFolder folder;
  const auto file = folder.path() / "prepared";
  std::ofstream(file).put('a');
  std::filesystem::resize_file(file, kIndexedBytesMax + 1);  // sparse: takes no place
  CHECK_THROWS_WITH_AS((void)offer_file(file), doctest::Contains("4.0 GiB"), Failure);
}

TEST_CASE("snapshot: the hash of the parameters is that of their section") {
  std::vector<float> parameters(100'000);
  std::iota(parameters.begin(), parameters.end(), 0.5F);
  Bytes bytes(parameters.size() * sizeof(float));
  std::memcpy(bytes.data(), parameters.data(), bytes.size());
  const SectionIndex section = index_section("parameters", bytes);
  CHECK(section.chunks.size() == 2);
  CHECK(section.hash() == parameter_hash(parameters));
  CHECK(content_hash(bytes) == parameter_hash(parameters));
  parameters.back() += 1;
  CHECK(section.hash() != parameter_hash(parameters));
}

TEST_CASE("snapshot: chunks cover every section, and places say where they lie") {
  const Index index = index_snapshot(example());
  REQUIRE(index.chunks() == 4);
  CHECK(index.bytes() == 3 * kChunkBytes + 100);
  CHECK(index.place(0).section == 0);
  CHECK(index.place(2).offset == 2 * kChunkBytes);
  CHECK(index.place(2).bytes == 100);
  CHECK(index.place(3).section == 2);  // the empty section in between has no chunk
  CHECK(index.place(3).offset == 0);
  CHECK(index.place(3).hash == chunk_hash(example().sections[2].bytes));
}

TEST_CASE("snapshot: the root changes with the epoch, a name, the order and any byte") {
  const Digest root = index_snapshot(example()).root();
  CHECK(index_snapshot(example()).root() == root);
  Snapshot other = example();
  other.epoch = 8;
  CHECK(index_snapshot(other).root() != root);
  other = example();
  other.sections[1].name = "ledger";
  CHECK(index_snapshot(other).root() != root);
  other = example();
  std::swap(other.sections[1], other.sections[2]);
  CHECK(index_snapshot(other).root() != root);
  other = example();
  other.sections[2].bytes.back() ^= std::byte(1);
  CHECK(index_snapshot(other).root() != root);
  other = example();
  other.sections[1].bytes.push_back({});
  CHECK(index_snapshot(other).root() != root);
}

TEST_CASE("result keeper: old results go when the budget is spent, two stay whatever their size") {
  ResultKeeper keeper(100);
  const auto result = [](std::size_t bytes) { return KeptResult{bytes, [] { return Bytes(); }}; };
  for (std::uint64_t epoch = 1; epoch <= 5; ++epoch) keeper.keep(epoch, result(30), {});
  CHECK(keeper.epochs() == 3);
  CHECK(keeper.find(2) == nullptr);
  CHECK(keeper.find(3) != nullptr);
  CHECK(keeper.epochs_kept(30) == 3);
  CHECK(keeper.epochs_kept(500) == ResultKeeper::kEpochsMin);
  CHECK(keeper.epochs_kept(0) == ResultKeeper::kEpochsMax);
  keeper.keep(6, result(500), {});
  keeper.keep(7, result(500), {});
  CHECK(keeper.epochs() == 2);
  CHECK(keeper.bytes() == 1000);
  keeper.keep(7, result(10), {});
  CHECK(keeper.bytes() == 510);
}

TEST_CASE("state: of results however small those of the last epochs are kept") {
  ResultKeeper keeper(1 << 20);
  for (std::uint64_t epoch = 0; epoch < 1000; ++epoch) keeper.keep(epoch, {1, [] { return Bytes(); }}, {});
  CHECK(keeper.epochs() == ResultKeeper::kEpochsMax);
  CHECK(keeper.bytes() == ResultKeeper::kEpochsMax);
  CHECK(keeper.find(999) != nullptr);
  CHECK(keeper.find(999 - ResultKeeper::kEpochsMax) == nullptr);
}

TEST_CASE("state: results of long epochs go after a while, but for the last two") {
  ResultKeeper keeper(1 << 20);
  TimePoint now{};
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    now += ResultKeeper::kAgeMax / 4;
    keeper.keep(epoch, {1, [] { return Bytes(); }}, now);
  }
  CHECK(keeper.epochs() == 5);
  CHECK(keeper.bytes() == 5);
  keeper.keep(20, {1, [] { return Bytes(); }}, now + 2 * ResultKeeper::kAgeMax);
  CHECK(keeper.epochs() == ResultKeeper::kEpochsMin);
  CHECK(keeper.find(19) != nullptr);
}

}  // namespace collab::state
