#include "epoch/manifest_options.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

namespace collab::epoch {

namespace {

std::span<const unsigned char> raw(const std::string& text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

}  // namespace

node::Mode mode_of(const node::Manifest& manifest, const std::optional<node::Mode>& wanted) {
  const auto mode = node::parse_mode(manifest.mode);
  if (!mode) {
    throw Failure(ExitCode::incompatible,
                  fmt::format("this run trains in the mode \"{}\", unknown here", manifest.mode),
                  "a newer version of collab");
  }
  if (wanted && *wanted != *mode) {
    throw Failure(
        ExitCode::incompatible,
        fmt::format("this run trains in the mode \"{}\", not \"{}\"", node::to_string(*mode), node::to_string(*wanted)),
        "leave the mode to the run, or found another run in yours");
  }
  return *mode;
}

Digest schema_in_mode(const Digest& schema, const node::Mode& mode) {
  if (mode == node::Mode()) return schema;
  return Hasher("collab mode").add(schema).add(raw(node::to_string(mode))).finish();
}

Schema round_schema(const Schema& tensors, const node::Mode& mode) {
  Schema parameters;
  Schema extras;
  for (const TensorInfo& tensor : tensors.tensors) {
    const bool extra = tensor.role == TensorRole::extra;
    (extra ? extras : parameters).tensors.push_back(tensor);
  }
  const auto part = [](const char* name, std::size_t values, TensorRole role) {
    return TensorInfo{name, DType::float32, {static_cast<std::int64_t>(values)}, role};
  };
  Schema carried = parameters;
  for (TensorInfo& tensor : carried.tensors) tensor.role = TensorRole::gradient;
  const std::size_t fragment = Fragments(parameters.values(), mode.fragments).length();
  if (mode.fragments > 1) carried.tensors = {part("fragment", fragment, TensorRole::gradient)};
  const std::size_t statistics = statistics_carried(parameters.values(), mode);
  if (statistics > 0) carried.tensors.push_back(part("statistics", statistics, TensorRole::statistic));
  carried.tensors.insert(carried.tensors.end(), extras.tensors.begin(), extras.tensors.end());
  return carried;
}

MemberOptions member_options(const node::Manifest& manifest, const Schema& schema,
                             const std::optional<std::string>& codec) {
  const std::string codec_name = codec.value_or(manifest.codec);
  const auto known = codec_name == kAutoCodec ? CodecId::float16 : codec_named(codec_name);
  if (!known) {
    throw Failure(ExitCode::incompatible,
                  fmt::format("this run averages with the codec \"{}\", unknown here", codec_name),
                  "a newer version of collab");
  }
  const node::Mode mode = mode_of(manifest);
  if (owes(*known) && mode.average != node::Mode::Average::gradients) {
    throw Failure(ExitCode::incompatible,
                  fmt::format("the codec \"{}\" writes gradients, and this run averages moves", codec_name),
                  "float16, or the mode \"synchronous\"");
  }
  CodecOptions codecs;
  codecs.gradients_as(*known);
  if (codec_name == kAutoCodec) codecs.choose_gradients();
  codecs.statistic = *known == CodecId::float32 ? CodecId::float32 : CodecId::bfloat16;
  codecs.extra = CodecId::float32;
  MemberOptions out(CodecMap(round_schema(schema, mode), codecs));
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
  if (manifest.schema != Digest() && manifest.schema != out.schema) {
    throw Failure(ExitCode::incompatible,
                  fmt::format("this run trains other tensors: here are {} of {} values in all, first {}",
                              schema.tensors.size(), schema.values(), schema.tensors.front().name),
                  "the model that the run was founded with: same names, order and shapes");
  }
  out.schema = schema_in_mode(out.schema, mode);
  return out;
}

}  // namespace collab::epoch
