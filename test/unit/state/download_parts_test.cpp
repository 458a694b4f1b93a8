// The folder in which an interrupted download leaves what it has.
#include "base/file.hpp"
#include "state/shelf.hpp"
#include "support/temp_folder.hpp"

#include <algorithm>

#include "support/doctest.hpp"

namespace collab::state {
namespace {

Snapshot two_sections() {
  Snapshot snapshot{7, {}};
  snapshot.sections.push_back({"parameters", Bytes(2 * kChunkBytes + 100, std::byte(1))});
  snapshot.sections.push_back({"optimizer", Bytes(kChunkBytes, std::byte(2))});
  return snapshot;
}

ShelfOptions in(const std::filesystem::path& folder) {
  ShelfOptions options;
  options.folder = folder;
  return options;
}

std::span<const std::byte> bytes_of(const Snapshot& snapshot, const ChunkPlace& place) {
  return std::span(snapshot.sections[place.section].bytes).subspan(place.offset, place.bytes);
}

}  // namespace

TEST_CASE("shelf: an interrupted download finds its chunks again, but not those that were damaged") {
  const test::TempFolder folder;
  const Snapshot whole = two_sections();
  const Index index = index_snapshot(whole);
  {
    Shelf shelf(in(folder.path()));
    CHECK(shelf.open(index) == std::vector<bool>(4));
    for (const std::size_t chunk : {1U, 2U, 3U})
      CHECK(shelf.put(index.place(chunk), bytes_of(whole, index.place(chunk))));
    PartFile(shelf.file(), index.bytes()).write(kChunkBytes + 5, std::vector<std::byte>(1));
  }
  write_file(folder.path() / "0123.part", "of another root");
  Shelf shelf(in(folder.path()));
  CHECK(shelf.open(index) == std::vector<bool>{false, false, true, true});
  CHECK_FALSE(std::filesystem::exists(folder.path() / "0123.part"));
  for (const std::size_t chunk : {0U, 1U}) CHECK(shelf.put(index.place(chunk), bytes_of(whole, index.place(chunk))));
  const Snapshot got = shelf.take();
  CHECK(index_snapshot(got) == index);
  CHECK(got.find("optimizer")->bytes == whole.sections[1].bytes);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("shelf: wrong bytes are refused and change nothing") {
  const Snapshot whole = two_sections();
  const Index index = index_snapshot(whole);
  Shelf shelf{ShelfOptions()};
  (void)shelf.open(index);  // nothing can be there
  Bytes wrong(kChunkBytes, std::byte(1));
  wrong[77] = std::byte(9);
  CHECK_FALSE(shelf.put(index.place(0), wrong));
  CHECK_FALSE(shelf.put(index.place(0), std::span<const std::byte>(wrong).first(10)));
  const Bytes left = shelf.take().sections.front().bytes;
  CHECK(std::all_of(left.begin(), left.end(), [](std::byte byte) { return byte == std::byte(0); }));
}

TEST_CASE("shelf: chunks that we hold already need not be fetched") {
  auto ours = std::make_shared<Snapshot>(two_sections());
  ours->sections[0].bytes[kChunkBytes + 1] = std::byte(9);
  const Index index = index_snapshot(two_sections());
  ShelfOptions options;
  options.have = ours;
  Shelf shelf(options);
  CHECK(shelf.open(index) == std::vector<bool>{true, false, true, true});
}

}  // namespace collab::state
