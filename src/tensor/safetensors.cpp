#include "tensor/safetensors.hpp"

#include "tensor/codec.hpp"
#include "tensor/safetensors_header.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

namespace collab::safetensors {
namespace {

constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kAlignment = 8;

Refusal refuse(Fault fault, std::string detail) {
  return {fault, std::move(detail)};
}

/// Bytes that dtype and shape need; none when they do not fit 63 bits.
std::optional<std::uint64_t> bytes_of(const HeaderEntry& entry) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = dtype_bytes(entry.dtype);
  for (const std::uint64_t extent : entry.shape) {
    if (extent > most || (extent != 0 && bytes > most / extent)) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

/// Checks sizes, overlaps and gaps; sorts by place.
std::optional<Refusal> check(std::vector<HeaderEntry>& entries, std::uint64_t data_bytes) {
  for (const HeaderEntry& entry : entries) {
    const auto needed = bytes_of(entry);
    if (!needed) return refuse(Fault::overflow, fmt::format("tensor {:.80}: its shape is too large", entry.name));
    if (entry.begin > entry.end || entry.end - entry.begin != *needed)
      return refuse(Fault::wrong_size,
                    fmt::format("tensor {:.80}: offsets {} to {} where dtype and shape need {} bytes", entry.name,
                                entry.begin, entry.end, *needed));
    if (entry.end > data_bytes)
      return refuse(Fault::truncated,
                    fmt::format("tensor {:.80}: ends at byte {} of {}", entry.name, entry.end, data_bytes));
  }
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t next = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin < next)
      return refuse(Fault::overlap, fmt::format("tensor {:.80}: begins inside the one before", entry.name));
    if (entry.begin > next)
      return refuse(Fault::gap,
                    fmt::format("tensor {:.80}: {} unused bytes before it", entry.name, entry.begin - next));
    next = entry.end;
  }
  if (next < data_bytes) return refuse(Fault::gap, fmt::format("{} unused bytes at the end", data_bytes - next));
  return std::nullopt;
}

}  // namespace

boost::system::result<File, Refusal> read(std::span<const std::byte> bytes) {
  if (bytes.size() < kPrefixBytes)
    return refuse(Fault::truncated, fmt::format("{} bytes are less than the size of a header", bytes.size()));
  std::uint64_t header_bytes = 0;
  for (unsigned i = 0; i < kPrefixBytes; ++i) header_bytes |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  if (header_bytes > kHeaderBytesMax)
    return refuse(Fault::header_size, fmt::format("a header of {} bytes, {} allowed", header_bytes, kHeaderBytesMax));
  if (header_bytes > bytes.size() - kPrefixBytes)
    return refuse(Fault::truncated, fmt::format("a header of {} bytes in a file of {}", header_bytes, bytes.size()));
  auto header = parse_header(bytes.subspan(kPrefixBytes, header_bytes));
  if (!header) return header.error();
  const auto data = bytes.subspan(kPrefixBytes + header_bytes);
  if (auto refusal = check(header->entries, data.size())) return std::move(*refusal);

  File file;
  file.metadata_ = std::move(header->metadata);
  for (HeaderEntry& entry : header->entries) {
    file.by_name_.emplace(entry.name, file.tensors_.size());
    file.tensors_.push_back({std::move(entry.name), entry.dtype,
                             std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end()),
                             data.subspan(entry.begin, entry.end - entry.begin)});
  }
  return file;
}

const Tensor* File::find(std::string_view name) const noexcept {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

Layout lay_out(std::span<const Tensor> tensors, const Metadata& metadata) {
  Layout layout;
  layout.order.resize(tensors.size());
  std::iota(layout.order.begin(), layout.order.end(), std::size_t(0));
  std::stable_sort(layout.order.begin(), layout.order.end(), [&](std::size_t a, std::size_t b) {
    return dtype_bytes(tensors[a].dtype) > dtype_bytes(tensors[b].dtype);
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t begin = 0;
  std::set<std::string_view> names = {"__metadata__"};
  for (const std::size_t i : layout.order) {
    const Tensor& tensor = tensors[i];
    [[maybe_unused]] const bool distinct = names.insert(tensor.name).second;
    assert(distinct);
    [[maybe_unused]] const TensorInfo info = {tensor.name, tensor.dtype, tensor.shape};
    assert(tensor.data.size() == info.values() * dtype_bytes(tensor.dtype));
    header[tensor.name] = {{"dtype", header_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, begin + tensor.data.size()}}};
    begin += tensor.data.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  assert(text.size() <= kHeaderBytesMax);

  layout.prefix.resize(kPrefixBytes + text.size());
  for (unsigned i = 0; i < kPrefixBytes; ++i) layout.prefix[i] = static_cast<std::byte>(text.size() >> (8 * i));
  std::memcpy(layout.prefix.data() + kPrefixBytes, text.data(), text.size());
  return layout;
}

Bytes write(std::span<const Tensor> tensors, const Metadata& metadata) {
  Layout layout = lay_out(tensors, metadata);
  Bytes file = std::move(layout.prefix);
  for (const std::size_t i : layout.order) file.insert(file.end(), tensors[i].data.begin(), tensors[i].data.end());
  return file;
}

Result<> to_float32(const Tensor& tensor, std::span<float> out) {
  switch (tensor.dtype) {
    case DType::float32: return codec(CodecId::float32).decode(tensor.data, 0, out);
    case DType::float16: return codec(CodecId::float16).decode(tensor.data, 0, out);
    case DType::bfloat16: return codec(CodecId::bfloat16).decode(tensor.data, 0, out);
    case DType::int64:
    case DType::uint8: break;
  }
  return Errc::bad_request;
}

}  // namespace collab::safetensors
