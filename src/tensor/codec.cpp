#include "tensor/codec.hpp"

#include "tensor/codec_8bit.hpp"
#include "tensor/codec_float.hpp"
#include "tensor/codec_powersgd.hpp"
#include "tensor/codec_topk.hpp"

#include <algorithm>
#include <cassert>

namespace collab {
namespace {

enum class Use : std::uint8_t { average, part };

CodecId by_role(TensorRole role, const CodecOptions& options, Use use) {
  switch (role) {
    case TensorRole::gradient:
      return use == Use::part ? options.gradient_parts.value_or(options.gradient) : options.gradient;
    case TensorRole::parameter: return options.parameter;
    case TensorRole::statistic: return options.statistic;
    case TensorRole::extra: return options.extra;
  }
  assert(false);
  return CodecId::float32;
}

CodecId choose(const TensorInfo& tensor, const CodecOptions& options, Use use) {
  const CodecId wanted = by_role(tensor.role, options, use);
  assert(use == Use::part || !owes(wanted));
  const bool coarse = wanted == CodecId::linear8 || wanted == CodecId::dynamic8 || owes(wanted);
  return coarse && tensor.values() < options.coarse_values_min ? CodecId::float16 : wanted;
}

std::vector<CodecRun> runs_of(const Schema& schema, const CodecOptions& options, Use use) {
  std::vector<CodecRun> runs;
  std::uint64_t end = 0;
  for (const TensorInfo& tensor : schema.tensors) {
    if (tensor.values() == 0) continue;
    end += tensor.values();
    const CodecId codec = choose(tensor, options, use);
    if (!runs.empty() && runs.back().codec == codec)
      runs.back().end = end;
    else
      runs.push_back({end, codec});
  }
  return runs;
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
    case CodecId::topk: return topk_codec(level);
    case CodecId::powersgd: return powersgd_codec(level);
  }
  assert(false);
  return float32_codec(level);
}

Result<CodecId> codec_named(std::string_view name) {
  for (const CodecId id : kCodecIds)
    if (codec(id).name() == name) return id;
  return Errc::bad_request;
}

void CodecOptions::gradients_as(CodecId codec) {
  gradient = collab::owes(codec) ? CodecId::float16 : codec;
  gradient_parts = collab::owes(codec) ? std::optional(codec) : std::nullopt;
}

void CodecOptions::choose_gradients() {
  gradients_as(CodecId::float16);
  gradient_coarse = CodecId::linear8;
}

CodecOptions CodecOptions::all(CodecId codec) {
  CodecOptions options;
  options.gradients_as(codec);
  options.parameter = options.statistic = options.extra = options.gradient;
  return options;
}

CodecMap::CodecMap(const Schema& schema, const CodecOptions& options) : runs_(runs_of(schema, options, Use::average)) {
  auto parts = runs_of(schema, options, Use::part);
  if (parts != runs_) parts_ = std::make_shared<const CodecMap>(CodecMap(std::move(parts)));
  if (!options.gradient_coarse) return;
  CodecOptions coarse = options;
  coarse.gradient = *std::exchange(coarse.gradient_coarse, std::nullopt);
  auto runs = runs_of(schema, coarse, Use::average);
  if (runs != runs_) coarse_ = std::make_shared<const CodecMap>(CodecMap(std::move(runs)));
}

bool CodecMap::owes() const noexcept {
  const auto does = [](const CodecRun& run) { return collab::owes(run.codec); };
  return std::any_of(parts().runs_.begin(), parts().runs_.end(), does);
}

Bytes CodecMap::canonical() const {
  Bytes out;
  for (const CodecMap* map : {this, parts_.get()}) {
    if (map == nullptr) continue;
    append(out, map->runs_.size());
    for (const CodecRun& run : map->runs_) {
      append(out, run.end);
      append(out, static_cast<std::uint64_t>(run.codec));
    }
  }
  if (!coarse_) return out;
  append(out, 0);  // as many runs as no map has
  const Bytes coarse = coarse_->canonical();
  out.insert(out.end(), coarse.begin(), coarse.end());
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
  auto rest = out;
  Result<> result;
  for_each_piece(range, [&](const Codec& codec, Range piece) {
    const std::size_t bytes = codec.encoded_bytes(piece);
    const auto in = values.subspan(piece.begin - offset, piece.size);
    if (result) result = codec.encode(in, piece.begin, options, rest.first(bytes));
    rest = rest.subspan(bytes);
  });
  if (!result) std::ranges::fill(out, std::byte(0));  // what lay there is nobody's business
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
