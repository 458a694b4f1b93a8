#include "optim/member_options.hpp"

#include <fmt/format.h>

namespace collab::optim {

epoch::MemberOptions member_options(const Collaboration::Parts& parts, const Schema& schema,
                                    const std::optional<std::string>& codec) {
  const node::Manifest& manifest = *parts.manifest;
  const std::string codec_name = codec.value_or(manifest.codec);
  const auto known = codec_named(codec_name);
  if (!known) {
    throw Failure(ExitCode::incompatible,
                  fmt::format("this run averages with the codec \"{}\", unknown here", codec_name),
                  "a newer version of collab");
  }
  CodecOptions codecs;
  codecs.gradient = *known;
  epoch::MemberOptions out(CodecMap(schema, codecs));
  out.run_id = manifest.run_id;
  out.target_batch = manifest.target_batch;
  out.commit_fraction = manifest.commit_fraction;
  out.schema = hash_bytes("collab schema", schema.canonical());
  out.group_size_max = manifest.group_size_max;
  const auto grid = matchmaking::parse_grid(manifest.grid);
  if (!grid) {
    throw Failure(ExitCode::incompatible, fmt::format("this run forms groups as \"{}\", unknown here", manifest.grid),
                  "a newer version of collab");
  }
  out.grid = *grid;
  out.incarnation = parts.incarnation;
  if (manifest.schema != Digest() && manifest.schema != out.schema) {
    throw Failure(ExitCode::incompatible,
                  fmt::format("this run trains other tensors: here are {} of {} values in all, first {}",
                              schema.tensors.size(), schema.values(), schema.tensors.front().name),
                  "the model that the run was founded with: same names, order and shapes");
  }
  return out;
}

}  // namespace collab::optim
