#include "averaging/shape.hpp"

#include <utility>
#include <vector>

namespace collab::averaging {

Digest codec_map_digest(const CodecMap& codecs) {
  const Bytes bytes = codecs.canonical();
  return Hasher("collab codec map")
      .add(std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()))
      .finish();
}

Result<std::shared_ptr<const Shape>> Shape::of(matchmaking::Group group, const CodecMap& codecs) {
  if (group.codec_map != codec_map_digest(codecs)) {
    return codecs.coarse() != nullptr ? of(std::move(group), *codecs.coarse()) : Errc::bad_request;
  }
  std::vector<std::uint32_t> units;
  for (const auto& member : group.roster) units.push_back(member.units);
  auto partition = Partition::cut(codecs.length(), units, group.chunk_units);
  if (!partition) return partition.error();
  Members members = Members::of(group);
  return std::make_shared<const Shape>(Shape{std::move(group), std::move(members), std::move(*partition), codecs});
}

}  // namespace collab::averaging
