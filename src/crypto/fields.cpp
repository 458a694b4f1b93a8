#include "crypto/fields.hpp"

#include <cassert>
#include <limits>

namespace collab {

FieldWriter& FieldWriter::add_raw(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

FieldWriter& FieldWriter::add_text(std::string_view text) {
  assert(text.size() <= std::numeric_limits<std::uint8_t>::max());
  add(static_cast<std::uint8_t>(text.size()));
  return add_raw(std::as_bytes(std::span(text)));
}

FieldWriter& FieldWriter::add_blob(std::span<const std::byte> bytes) {
  assert(bytes.size() <= std::numeric_limits<std::uint32_t>::max());
  add(static_cast<std::uint32_t>(bytes.size()));
  return add_raw(bytes);
}

std::span<const std::byte> FieldReader::take_raw(std::size_t bytes) noexcept {
  if (failed_ || bytes > rest_.size()) {
    failed_ = true;
    return {};
  }
  const auto field = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return field;
}

std::string_view FieldReader::take_text() noexcept {
  const auto bytes = take_raw(take<std::uint8_t>());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> FieldReader::take_blob() noexcept {
  return take_raw(take<std::uint32_t>());
}

Result<> FieldReader::finish() const {
  if (failed_ || !rest_.empty()) return Errc::bad_request;
  return {};
}

}  // namespace collab
