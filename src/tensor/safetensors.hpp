#pragma once
// The file format of checkpoints: what transformers and safetensors read and write.
//
//   u64 size of the header, little endian | header: JSON, padded with spaces | data
//
// The header names each tensor's dtype, shape and [begin, end) in the data, and holds "__metadata__", texts by name.
// Format: https://github.com/huggingface/safetensors

#include "base/bytes.hpp"
#include "tensor/schema.hpp"

#include <boost/system/result.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace collab::safetensors {

inline constexpr std::size_t kHeaderBytesMax = 100'000'000;

using Metadata = std::map<std::string, std::string, std::less<>>;

/// One tensor of a file. `data` points into memory of the caller: of a file being read, or of tensors being written.
struct Tensor {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  ///< little endian; as many bytes as shape and dtype say
};

/// What comes before the data, and the order in which the tensors' data follow it, without gaps.
struct Layout {
  Bytes prefix;                    ///< a multiple of 8 bytes
  std::vector<std::size_t> order;  ///< indices: wide types first, else as given, so that all values are aligned
};

/// For writing a file piece by piece, without a copy of the data. Names are distinct, not "__metadata__", and UTF-8;
/// sizes fit the shapes.
Layout lay_out(std::span<const Tensor> tensors, const Metadata& metadata);
/// A whole file in memory.
Bytes write(std::span<const Tensor> tensors, const Metadata& metadata);

/// Why a file is refused.
enum class Fault : std::uint8_t {
  truncated,      ///< shorter than it says
  header_size,    ///< over 100 MB
  not_json,       ///< the header is not one JSON object
  bad_entry,      ///< an entry that does not have exactly dtype, shape and data_offsets, of the right kind
  unknown_dtype,  ///< one that we do not have
  duplicate,      ///< a name or field twice
  overflow,       ///< a shape whose bytes do not fit 63 bits
  wrong_size,     ///< offsets that do not fit dtype and shape
  overlap,        ///< two tensors share bytes
  gap,            ///< bytes of no tensor, also at the end
};

struct Refusal {
  Fault fault;
  std::string detail;  ///< a sentence part for a person: "tensor a.weight: 12 bytes where dtype and shape need 16"
};

/// A file that was checked: every byte of the data belongs to exactly one tensor. Views the bytes given to `read`.
class File {
 public:
  /// In the order of their data.
  std::span<const Tensor> tensors() const noexcept { return tensors_; }
  /// nullptr when there is none of that name.
  const Tensor* find(std::string_view name) const noexcept;
  const Metadata& metadata() const noexcept { return metadata_; }

 private:
  friend boost::system::result<File, Refusal> read(std::span<const std::byte> bytes);

  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  Metadata metadata_;
};

/// Any bytes in; never throws on them. `bytes` outlive the file. Memory: a few times the header.
boost::system::result<File, Refusal> read(std::span<const std::byte> bytes);

/// The tensor's values as float32, whatever floating type it has; `out` has as many as the shape says.
/// Errors: `bad_request` for integers, a wrong size of `out`, or a value that is not finite.
Result<> to_float32(const Tensor& tensor, std::span<float> out);

}  // namespace collab::safetensors
