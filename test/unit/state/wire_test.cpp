#include "state/wire.hpp"

#include "base/frame.hpp"

#include <string>

#include "support/doctest.hpp"

namespace collab::state {
namespace {

Index index_of(std::vector<std::uint64_t> sizes) {
  Index index{3, {}};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    SectionIndex section{"s" + std::to_string(i), sizes[i], {}};
    section.chunks.resize(static_cast<std::size_t>(chunks_of(sizes[i])));
    for (std::size_t c = 0; c < section.chunks.size(); ++c) section.chunks[c][0] = static_cast<unsigned char>(i + c);
    index.sections.push_back(std::move(section));
  }
  return index;
}

Result<wire::Shown> read(const wire::ShowIndex& message, std::size_t hashes) {
  const Bytes payload(hashes * sizeof(Digest));
  return wire::read_index(*frame::encode(wire::Message(message), payload));
}

}  // namespace

TEST_CASE("state wire: an index arrives as it was shown, also the largest") {
  for (const Index& index : {index_of({1, 0, kChunkBytes + 1}), index_of({kIndexedBytesMax}), index_of({0})}) {
    const std::vector<PeerId> sharers(3, PeerId{index.root()});
    const auto got = wire::read_index(*wire::show(index, sharers));
    REQUIRE(got);
    CHECK(got->index == index);
    CHECK(got->index.root() == index.root());
    CHECK(got->sharers == sharers);
  }
}

TEST_CASE("state wire: what a peer has arrives as it was told, and fits the index or is refused") {
  for (const std::size_t chunks : {0U, 1U, 8U, 61U}) {
    std::vector<bool> have(chunks);
    for (std::size_t i = 0; i < chunks; ++i) have[i] = i % 3 == 1;
    const Frame told = wire::tell(have);
    CHECK(wire::read_have(*told, chunks).value() == have);
    CHECK(wire::read_have(*told, chunks + 8).error() == Errc::bad_request);
  }
  const wire::Message chunk(wire::Chunk{0});
  CHECK(wire::read_have(*frame::encode(chunk), 0).error() == Errc::bad_request);
}

TEST_CASE("state wire: an index whose sizes, names or hashes do not fit is refused") {
  const wire::ShowIndex good{3, {{"a", 10}, {"b", 2 * kChunkBytes}}};
  CHECK(read(good, 3));
  CHECK(read(good, 2).error() == Errc::bad_request);
  CHECK(read(good, 4).error() == Errc::bad_request);
  CHECK(read({3, {}}, 0).error() == Errc::bad_request);
  CHECK(read({3, {{"a", 1}, {"a", 1}}}, 2).error() == Errc::bad_request);
  CHECK(read({3, {{std::string(65, 'x'), 1}}}, 1).error() == Errc::bad_request);
  CHECK(read({3, {{"a", ~std::uint64_t(0)}, {"b", 2}}}, 1).error() == Errc::bad_request);
  CHECK(read({3, {{"a", kIndexedBytesMax}, {"b", 1}}}, 1).error() == Errc::bad_request);
  wire::ShowIndex many;
  for (std::size_t i = 0; i <= kSectionsMax; ++i) many.sections.push_back({std::to_string(i), 0});
  CHECK(read(many, 0).error() == Errc::bad_request);
  wire::ShowIndex crowd = good;
  crowd.sharers.resize(wire::kSharersMax + 1);
  CHECK(read(crowd, 3).error() == Errc::bad_request);
  const wire::Message chunk(wire::Chunk{0});
  CHECK(wire::read_index(*frame::encode(chunk)).error() == Errc::bad_request);
}

}  // namespace collab::state
