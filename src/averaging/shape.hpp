#pragma once
// What all parts and results of one round are measured against.

#include "averaging/members.hpp"
#include "tensor/codec.hpp"
#include "tensor/partition.hpp"

#include <memory>

namespace collab::averaging {

/// What `Group::codec_map` has to be for this map, and not for what it has beside it as coarse().
Digest codec_map_digest(const CodecMap& codecs);

/// What parts of `round` are written by. After round 1 they are averages, of which nobody could owe a rest.
inline const CodecMap& part_codecs(const CodecMap& codecs, std::uint32_t round) noexcept {
  return round == 1 ? codecs.parts() : codecs;
}

struct Shape {
  matchmaking::Group group;
  Members members;
  Partition partition;
  CodecMap codecs;

  const CodecMap& part_codecs() const noexcept { return averaging::part_codecs(codecs, group.round); }

  /// `group` was checked against its own id. Its codecs are `codecs` or what is beside them as coarse(), as it says.
  /// Errors: `bad_request` when its units do not make up the vector, or it was made for another codec map.
  static Result<std::shared_ptr<const Shape>> of(matchmaking::Group group, const CodecMap& codecs);
};

}  // namespace collab::averaging
