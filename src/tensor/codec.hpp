#pragma once
// How values travel: what a codec is, the list of them, and which one writes which part of the flat vector.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "tensor/partition.hpp"
#include "tensor/schema.hpp"
#include "tensor/vector_level.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace collab {

/// Numbers are part of the protocol: never reused.
enum class CodecId : std::uint8_t { float32, float16, bfloat16, linear8, dynamic8, topk, powersgd };
inline constexpr std::array kCodecIds = {CodecId::float32,  CodecId::float16, CodecId::bfloat16, CodecId::linear8,
                                         CodecId::dynamic8, CodecId::topk,    CodecId::powersgd};

/// topk and powersgd write little of what they are given. They are for parts only: their sender owes the rest, and
/// sends it with later ones (epoch/feedback.hpp); for the rest of an average nobody could be asked.
constexpr bool owes(CodecId id) noexcept {
  return id == CodecId::topk || id == CodecId::powersgd;
}

struct EncodeOptions {
  /// dynamic8 only: round to a neighbour by chance, so that the mean over many seeds is the value itself.
  bool stochastic = false;
  /// Of the chance, and of where powersgd begins to look; who may know it and when is the protocol's business.
  std::uint64_t seed = 0;
};

/// One way to write float32 values as bytes, little endian.
///
/// `encode` is a pure function of (values, absolute offset, options): equal inputs give equal bytes on every machine.
/// Codecs with blocks scale each block by its largest value. A block is a unit of the flat vector, cut where a run of
/// tensors with one codec begins or ends. So every range given here begins at a unit border or at the beginning of its
/// run, and ends likewise; `CodecMap` sees to that. Codecs have no state and may be used from any thread.
class Codec {
 public:
  virtual ~Codec() = default;
  Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  virtual std::string_view name() const noexcept = 0;
  virtual std::size_t encoded_bytes(Range range) const noexcept = 0;

  /// `values` begin at `offset` of the flat vector; `out` has exactly encoded_bytes of that range, and holds what it
  /// held before: all of it is written. Errors: `bad_request` when a value is NaN or infinite; `out` is then partly
  /// written.
  virtual Result<> encode(std::span<const float> values, std::size_t offset, EncodeOptions options,
                          std::span<std::byte> out) const = 0;

  /// The values that `bytes`, from anybody, stand for: `out` begins at `offset` of the flat vector. What is decoded is
  /// finite. Errors: `bad_request` for a wrong size, a value or a scale that is not finite, or a code that encode never
  /// writes; `out` is then partly written.
  virtual Result<> decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const = 0;

  /// How far a decoded value may be from the one encoded, where no |value| of the block exceeds `value_max`.
  virtual double error_bound(double value_max, bool stochastic) const noexcept = 0;
};

const Codec& codec(CodecId id) noexcept;
/// The same by the instructions of `level`, which works here: equal bytes and values, at another speed.
const Codec& codec(CodecId id, VectorLevel level) noexcept;

/// All names, as a flag that takes one tells them.
inline constexpr const char* kCodecNames = "float32, float16, bfloat16, linear8, dynamic8, topk, powersgd";

/// By the name used in manifests and flags, "float16". Errors: `bad_request` for an unknown name.
Result<CodecId> codec_named(std::string_view name);

/// What a run may have instead of one codec: float16, and linear8 where lines are slow.
inline constexpr std::string_view kAutoCodec = "auto";
inline constexpr const char* kCodecChoices =
    "auto (8 bits on slow lines), float32, float16, bfloat16, linear8, dynamic8, topk, powersgd";

/// By role. Tensors under `coarse_values_min` values (norms, biases: little to save, much to lose) use float16 where
/// their role says a codec of 8 bits, topk or powersgd.
struct CodecOptions {
  CodecId gradient = CodecId::float16;  ///< not one that `owes`: see `gradients_as`
  CodecId parameter = CodecId::float16;
  CodecId statistic = CodecId::float16;
  CodecId extra = CodecId::float16;
  std::size_t coarse_values_min = 65'536;
  std::optional<CodecId> gradient_parts = {};   ///< what senders write, if not what owners write: any codec
  std::optional<CodecId> gradient_coarse = {};  ///< of CodecMap::coarse(), where it is another one; not one that `owes`

  /// `codec` for gradients; where it `owes`, of parts, and averages are float16.
  void gradients_as(CodecId codec);
  /// Those of the choice `kAutoCodec`.
  void choose_gradients();
  /// One codec for all roles; `all(CodecId::float32)` makes an exact map. One that `owes`: for parts of
  /// gradients, and all else is float16.
  static CodecOptions all(CodecId codec);
};

struct CodecRun {
  std::uint64_t end = 0;  ///< where the next run begins, in values
  CodecId codec = CodecId::float32;
  bool operator==(const CodecRun&) const = default;
};

/// The codecs of a flat vector, as few runs as possible. A payload is the encodings of the runs inside its range, in
/// order and without gaps. The map itself is that of averages, and of all else that travels but parts: those are
/// written by `parts()`, which may be another map.
///
/// Ranges are runs of whole units (segments, chunks, the vector itself), so a vector encoded whole or in any such
/// pieces gives the same bytes. Immutable; may be used from any thread.
class CodecMap {
 public:
  CodecMap(const Schema& schema, const CodecOptions& options);

  std::size_t length() const noexcept { return runs_.empty() ? 0 : runs_.back().end; }
  std::span<const CodecRun> runs() const noexcept { return runs_; }
  /// What senders write; this map where it is no other.
  const CodecMap& parts() const noexcept { return parts_ ? *parts_ : *this; }
  /// Whether a codec of parts does.
  bool owes() const noexcept;
  /// What a group with slow lines may use instead, parts included; null: nothing else. Has no other itself.
  const CodecMap* coarse() const noexcept { return coarse_.get(); }
  /// The same bytes on every machine, parts and the coarse map included: what the group hashes beside the schema.
  Bytes canonical() const;

  /// Bytes of the payload of `range`: a run of whole units inside the vector.
  std::size_t encoded_bytes(Range range) const;

  /// `values` begin at `offset`; `out` has exactly encoded_bytes, and all of it is written. Pure: see `Codec`.
  /// Errors: `bad_request` when a value is NaN or infinite; `out` is then zeros.
  Result<> encode(std::span<const float> values, std::size_t offset, EncodeOptions options,
                  std::span<std::byte> out) const;
  /// As above into bytes of its own.
  Result<Bytes> encode(std::span<const float> values, std::size_t offset, EncodeOptions options) const;

  /// Any bytes in, finite values out. Errors: `bad_request` as `Codec::decode`; `out` is then partly written.
  Result<> decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const;

  /// How far decoded values of `range` may be from those encoded, where no |value| of it exceeds `value_max`.
  double error_bound(Range range, double value_max, bool stochastic) const;

 private:
  /// Calls visit(codec, piece) for the pieces of `range`, one per run.
  template <class Visit>
  void for_each_piece(Range range, Visit visit) const;

  explicit CodecMap(std::vector<CodecRun> runs) : runs_(std::move(runs)) {}

  std::vector<CodecRun> runs_;
  std::shared_ptr<const CodecMap> parts_;   // null: this one
  std::shared_ptr<const CodecMap> coarse_;  // null: none
};

}  // namespace collab
