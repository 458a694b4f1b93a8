#include "tensor/safetensors_header.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

namespace collab::safetensors {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kDimensionsMax = 16;
constexpr std::array kDTypes = {DType::float32, DType::float16, DType::bfloat16, DType::int64, DType::uint8};

/// Follows the JSON by events; whatever does not fit the one grammar ends the parse with a refusal.
///
///   { name: { "dtype": text, "shape": [n…], "data_offsets": [n, n] }…, "__metadata__": { name: text… } }
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Header take() { return std::move(header_); }
  Refusal refusal() const { return refusal_.value_or(Refusal{Fault::not_json, "the header is not a JSON object"}); }

  bool start_object(std::size_t /*size*/) override {
    switch (place_) {
      case Place::before: place_ = Place::top; return true;
      case Place::tensor_value: place_ = Place::fields; return true;
      case Place::metadata_value: place_ = Place::metadata; return true;
      default: return bad("an object where none belongs");
    }
  }

  bool key(std::string& name) override {
    key_ = name;
    if (place_ == Place::top) return top_key();
    if (place_ == Place::fields) return field_key();
    // The remaining objects are of texts.
    return header_.metadata.count(name) == 0 || refuse(Fault::duplicate, fmt::format("metadata {:.80} twice", name));
  }

  bool end_object() override {
    if (place_ == Place::fields) {
      if (seen_.size() != 3) return bad("needs dtype, shape and data_offsets");
      header_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::top ? Place::after : Place::top;
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::metadata) {
      header_.metadata.emplace(key_, value);
      return true;
    }
    if (place_ != Place::dtype) return bad("a text where none belongs");
    const auto* const found =
        std::find_if(kDTypes.begin(), kDTypes.end(), [&](DType dtype) { return header_name(dtype) == value; });
    if (found == kDTypes.end())
      return refuse(Fault::unknown_dtype,
                    fmt::format("tensor {:.80}: dtype {:.80} is not known here", entry_.name, value));
    entry_.dtype = *found;
    place_ = Place::fields;
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if ((place_ != Place::shape && place_ != Place::offsets) || std::exchange(in_array_, true))
      return bad("a list where none belongs");
    numbers_.clear();
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (!in_array_) return bad("a number where none belongs");
    if (numbers_.size() == kDimensionsMax) return bad("a list that is too long");
    numbers_.push_back(value);
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    if (place_ == Place::shape) {
      entry_.shape = numbers_;
    } else {
      if (numbers_.size() != 2) return bad("data_offsets are two numbers");
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    }
    place_ = Place::fields;
    return true;
  }

  bool null() override { return bad("null"); }
  bool boolean(bool /*value*/) override { return bad("a boolean"); }
  bool number_integer(std::int64_t /*value*/) override { return bad("a negative number"); }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return bad("a number that is not whole");
  }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return bad("binary data"); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return refuse(Fault::not_json, fmt::format("not JSON at byte {} of the header", position));
  }

 private:
  /// What the next event belongs to.
  enum class Place { before, top, tensor_value, fields, dtype, shape, offsets, metadata_value, metadata, after };

  bool refuse(Fault fault, std::string detail) {
    if (!refusal_) refusal_ = Refusal{fault, std::move(detail)};
    return false;
  }
  bool bad(std::string_view what) {
    if (place_ == Place::before || place_ == Place::after)
      return refuse(Fault::not_json, "the header is not a JSON object");
    return refuse(Fault::bad_entry, fmt::format("entry {:.80}: {}", entry_.name.empty() ? key_ : entry_.name, what));
  }

  bool top_key() {
    if (!names_.insert(key_).second) return refuse(Fault::duplicate, fmt::format("tensor {:.80} twice", key_));
    place_ = key_ == kMetadata ? Place::metadata_value : Place::tensor_value;
    entry_ = HeaderEntry();
    entry_.name = key_;
    seen_.clear();
    return true;
  }
  bool field_key() {
    if (!seen_.insert(key_).second)
      return refuse(Fault::duplicate, fmt::format("tensor {:.80}: {} twice", entry_.name, key_));
    if (key_ == "dtype")
      place_ = Place::dtype;
    else if (key_ == "shape")
      place_ = Place::shape;
    else if (key_ == "data_offsets")
      place_ = Place::offsets;
    else
      return bad("has a field that is not dtype, shape or data_offsets");
    return true;
  }

  Header header_;
  std::optional<Refusal> refusal_;
  Place place_ = Place::before;
  std::string key_;
  std::set<std::string> names_;  // of the top object
  HeaderEntry entry_;
  std::set<std::string> seen_;  // fields of the entry
  std::vector<std::uint64_t> numbers_;
  bool in_array_ = false;
};

}  // namespace

boost::system::result<Header, Refusal> parse_header(std::span<const std::byte> json) {
  HeaderReader reader;
  // The format wants the brace first; JSON itself would allow spaces and a byte order mark.
  if (json.empty() || json.front() != std::byte{'{'}) return reader.refusal();
  const auto* const text = reinterpret_cast<const char*>(json.data());
  if (!nlohmann::json::sax_parse(text, text + json.size(), &reader)) return reader.refusal();
  return reader.take();
}

std::string_view header_name(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return "F32";
    case DType::float16: return "F16";
    case DType::bfloat16: return "BF16";
    case DType::int64: return "I64";
    case DType::uint8: return "U8";
  }
  return "";
}

}  // namespace collab::safetensors
