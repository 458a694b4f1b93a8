// What an interrupted download has left on disk: whatever the part file holds, only chunks whose hash fits are taken
// from it, and the download ends with the bytes that the index names.
//
// u8 sections | for each: u8 how often | u16 bytes | a pattern; the rest: what the part file holds, from u32 on.
#include "base/text.hpp"
#include "state/offer.hpp"
#include "state/shelf.hpp"
#include "support.hpp"

#include <algorithm>
#include <cstring>

namespace collab::fuzz::part_file_target {

using namespace state;

constexpr std::size_t kSectionBytesMax = kChunkBytes + 1000;
constexpr std::size_t kManyTimes = 240;  // from there on a short pattern fills a chunk, which takes ten times as long

/// Copies of copies: byte by byte, with a check behind each, this and the comparison would be most of an input's time.
Bytes repeat(std::span<const std::byte> pattern, std::size_t times) {
  if (pattern.empty() || pattern.size() > kSectionBytesMax) return {};
  if (times >= kManyTimes) times *= 64;
  Bytes bytes(std::min(times, kSectionBytesMax / pattern.size()) * pattern.size());
  for (std::size_t done = 0; done < bytes.size();) {
    const std::byte* from = done == 0 ? pattern.data() : bytes.data();
    const std::size_t size = std::min(done == 0 ? pattern.size() : done, bytes.size() - done);
    std::memcpy(bytes.data() + done, from, size);
    done += size;
  }
  return bytes;
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

Snapshot wanted(fuzz::Input& input) {
  Snapshot snapshot;
  const std::size_t sections = 1 + input.number<std::uint8_t>() % 2U;
  for (std::size_t i = 0; i < sections; ++i) {
    const auto times = input.number<std::uint8_t>();
    snapshot.sections.push_back({std::string(1, static_cast<char>('a' + i)), repeat(input.piece(), times)});
  }
  return snapshot;
}

/// The part file as it was left: zeros, and what the input says from some place on.
Bytes left_over(const Index& index, fuzz::Input& input) {
  const std::uint64_t begin = input.number<std::uint32_t>() % (index.bytes() + 1);
  Bytes bytes(static_cast<std::size_t>(begin));
  bytes.insert(bytes.end(), input.rest().begin(), input.rest().end());
  return bytes;
}

COLLAB_FUZZ_TARGET(part_file) {
  static const fuzz::InputFolder folder;
  fuzz::Input input(fuzz::bytes_of(data, size));
  const Snapshot snapshot = wanted(input);
  const Index index = index_snapshot(snapshot);
  const auto offered = offer_snapshot(std::make_shared<const Snapshot>(snapshot));
  require(offered->index == index && offered->root == index.root());

  const std::string name = to_hex(index.root()) + ".part";
  Bytes left = left_over(index, input);
  folder.put(name.c_str(), left);
  require(offer_file(folder.path() / name)->index.bytes() == left.size());
  folder.put("another.part", left);
  left.resize(static_cast<std::size_t>(index.bytes()));

  ShelfOptions options;
  options.folder = folder.path();
  Shelf shelf(options);
  const std::vector<bool> here = shelf.open(index);
  require(here.size() == index.chunks() && !std::filesystem::exists(folder.path() / "another.part"));
  std::size_t before = 0;
  for (std::size_t chunk = 0; chunk < here.size(); ++chunk) {
    const ChunkPlace place = index.place(chunk);
    const auto true_bytes = offered->chunk(place);
    const auto on_disk = std::span(left).subspan(before, place.bytes);
    before += place.bytes;
    require(here[chunk] == same(on_disk, true_bytes));
    Bytes wrong(true_bytes.begin(), true_bytes.end());
    wrong.back() ^= std::byte(1);
    require(!shelf.put(place, wrong));
    if (!here[chunk]) require(shelf.put(place, true_bytes));
  }
  const Snapshot fetched = shelf.take();
  require(fetched.sections.size() == snapshot.sections.size());
  for (std::size_t i = 0; i < snapshot.sections.size(); ++i)
    require(same(fetched.sections[i].bytes, snapshot.sections[i].bytes));
  require(std::filesystem::is_empty(folder.path()));
  return 0;
}

}  // namespace collab::fuzz::part_file_target
