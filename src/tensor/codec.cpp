#include "tensor/codec.hpp"

#include "tensor/codec_8bit.hpp"
#include "tensor/codec_float.hpp"

#include <algorithm>
#include <cassert>

namespace collab {
namespace {

CodecId by_role(TensorRole role, const CodecOptions& options) {
  switch (role) {
    case TensorRole::gradient: return options.gradient;
    case TensorRole::parameter: return options.parameter;
    case TensorRole::statistic: return options.statistic;
    case TensorRole::extra: return options.extra;
  }
  assert(false);
  return CodecId::float32;
}

CodecId choose(const TensorInfo& tensor, const CodecOptions& options) {
  const CodecId wanted = by_role(tensor.role, options);
  const bool eight_bit = wanted == CodecId::linear8 || wanted == CodecId::dynamic8;
  return eight_bit && tensor.values() < options.eight_bit_values_min ? CodecId::float16 : wanted;
}

void append(Bytes& out, std::uint64_t value) {
  for (unsigned i = 0; i < sizeof(value); ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

}  // namespace

const Codec& codec(CodecId id) noexcept {
  return codec(id, best_level());
}

const Codec& codec(CodecId id, VectorLevel level) noexcept {
  switch (id) {
    case CodecId::float32: return float32_codec(level);
    case CodecId::float16: return float16_codec(level);
    case CodecId::bfloat16: return bfloat16_codec(level);
    case CodecId::linear8: return linear8_codec(level);
    case CodecId::dynamic8: return dynamic8_codec(level);
  }
  assert(false);
  return float32_codec(level);
}

Result<CodecId> codec_named(std::string_view name) {
  for (const CodecId id :
       {CodecId::float32, CodecId::float16, CodecId::bfloat16, CodecId::linear8, CodecId::dynamic8}) {
    if (codec(id).name() == name) return id;
  }
  return Errc::bad_request;
}

CodecMap::CodecMap(const Schema& schema, const CodecOptions& options) {
  std::uint64_t end = 0;
  for (const TensorInfo& tensor : schema.tensors) {
    if (tensor.values() == 0) continue;
    end += tensor.values();
    const CodecId codec = choose(tensor, options);
    if (!runs_.empty() && runs_.back().codec == codec)
      runs_.back().end = end;
    else
      runs_.push_back({end, codec});
  }
}

Bytes CodecMap::canonical() const {
  Bytes out;
  append(out, runs_.size());
  for (const CodecRun& run : runs_) {
    append(out, run.end);
    append(out, static_cast<std::uint64_t>(run.codec));
  }
  return out;
}

template <class Visit>
void CodecMap::for_each_piece(Range range, Visit visit) const {
  assert(range.end() <= length());
  assert(range.begin % kUnitValues == 0 || range.size == 0);
  assert(range.end() % kUnitValues == 0 || range.end() == length());
  auto run = std::upper_bound(runs_.begin(), runs_.end(), range.begin,
                              [](std::size_t begin, const CodecRun& candidate) { return begin < candidate.end; });
  for (std::size_t begin = range.begin; begin < range.end(); ++run) {
    const std::size_t end = std::min<std::size_t>(range.end(), run->end);
    visit(codec(run->codec), Range{begin, end - begin});
    begin = end;
  }
}

std::size_t CodecMap::encoded_bytes(Range range) const {
  std::size_t bytes = 0;
  for_each_piece(range, [&](const Codec& codec, Range piece) { bytes += codec.encoded_bytes(piece); });
  return bytes;
}

Result<> CodecMap::encode(std::span<const float> values, std::size_t offset, EncodeOptions options,
                          std::span<std::byte> out) const {
  const Range range{offset, values.size()};
  assert(out.size() == encoded_bytes(range));
  Result<> result;
  for_each_piece(range, [&](const Codec& codec, Range piece) {
    const std::size_t bytes = codec.encoded_bytes(piece);
    const auto in = values.subspan(piece.begin - offset, piece.size);
    if (result) result = codec.encode(in, piece.begin, options, out.first(bytes));
    out = out.subspan(bytes);
  });
  return result;
}

Result<Bytes> CodecMap::encode(std::span<const float> values, std::size_t offset, EncodeOptions options) const {
  Bytes out(encoded_bytes({offset, values.size()}));
  if (const auto done = encode(values, offset, options, out); !done) return done.error();
  return out;
}

Result<> CodecMap::decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const {
  const Range range{offset, out.size()};
  if (bytes.size() != encoded_bytes(range)) return Errc::bad_request;
  Result<> result;
  for_each_piece(range, [&](const Codec& codec, Range piece) {
    const std::size_t size = codec.encoded_bytes(piece);
    const auto values = out.subspan(piece.begin - offset, piece.size);
    if (result) result = codec.decode(bytes.first(size), piece.begin, values);
    bytes = bytes.subspan(size);
  });
  return result;
}

double CodecMap::error_bound(Range range, double value_max, bool stochastic) const {
  double bound = 0;
  for_each_piece(range, [&](const Codec& codec, Range /*piece*/) {
    bound = std::max(bound, codec.error_bound(value_max, stochastic));
  });
  return bound;
}

}  // namespace collab
