#include "tensor/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

using safetensors::Fault;
using safetensors::Tensor;

Bytes file_of(const std::string& header, std::size_t data_bytes, std::uint64_t declared) {
  Bytes file;
  for (unsigned i = 0; i < 8; ++i) file.push_back(static_cast<std::byte>(declared >> (8 * i)));
  const auto text = std::as_bytes(std::span(header));
  file.insert(file.end(), text.begin(), text.end());
  file.resize(file.size() + data_bytes);
  return file;
}

Bytes file_of(const std::string& header, std::size_t data_bytes) {
  return file_of(header, data_bytes, header.size());
}

std::string entry(const std::string& name, const std::string& shape, std::size_t begin, std::size_t end,
                  const std::string& dtype = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

/// Refuses the file for this reason, and says something about it.
void check_refused(const Bytes& file, Fault fault) {
  const auto read = safetensors::read(file);
  REQUIRE(read.has_error());
  CHECK(read.error().fault == fault);
  CHECK(!read.error().detail.empty());
}

}  // namespace

TEST_CASE("safetensors: reads what it wrote, bytes, shapes, types and metadata") {
  std::vector<float> weights(12);
  std::iota(weights.begin(), weights.end(), 0.5F);
  const std::vector<std::byte> flags(3, std::byte{7});
  const std::vector<std::int64_t> steps = {1234567890123};
  const std::vector<Tensor> tensors = {
      {"flags", DType::uint8, {3}, flags},
      {"dense.weight", DType::float32, {3, 4}, std::as_bytes(std::span(weights))},
      {"empty", DType::float32, {0, 2}, {}},
      {"steps", DType::int64, {}, std::as_bytes(std::span(steps))},
  };
  const safetensors::Metadata metadata = {{"format", "pt"}, {"run", "বাংলা \"quoted\""}};
  const Bytes bytes = safetensors::write(tensors, metadata);

  const auto file = safetensors::read(bytes);
  REQUIRE(file.has_value());
  CHECK(file->metadata() == metadata);
  CHECK(file->tensors().size() == tensors.size());
  for (const Tensor& tensor : tensors) {
    const Tensor* found = file->find(tensor.name);
    REQUIRE(found);
    CHECK(found->dtype == tensor.dtype);
    CHECK(found->shape == tensor.shape);
    CHECK(std::equal(found->data.begin(), found->data.end(), tensor.data.begin(), tensor.data.end()));
    CHECK(static_cast<std::size_t>(found->data.data() - bytes.data()) % dtype_bytes(tensor.dtype) == 0);
  }
  CHECK(file->find("other") == nullptr);
  CHECK(file->find("__metadata__") == nullptr);

  const auto layout = safetensors::lay_out(tensors, metadata);
  CHECK(layout.prefix.size() % 8 == 0);
  CHECK(layout.order == std::vector<std::size_t>{3, 1, 2, 0});  // int64, then float32 as given, then uint8
  CHECK(std::equal(layout.prefix.begin(), layout.prefix.end(), bytes.begin()));
}

TEST_CASE("safetensors: floating tensors of any width become float32, others and non-finite values do not") {
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc000};
  const std::vector<std::uint16_t> not_finite = {0x7c00, 0x3c00};
  const auto bytes = std::as_bytes(std::span(halves));
  std::vector<float> out(2);
  CHECK(safetensors::to_float32({"a", DType::float16, {2}, bytes}, out));
  CHECK(out == std::vector<float>{1, -2});
  CHECK(safetensors::to_float32({"a", DType::bfloat16, {2}, bytes}, out));
  CHECK(out == std::vector<float>{0x1p-7F, -2});
  CHECK(safetensors::to_float32({"a", DType::uint8, {4}, bytes}, out).error() == Errc::bad_request);
  CHECK(safetensors::to_float32({"a", DType::float32, {1}, bytes}, out).error() == Errc::bad_request);
  const Tensor infinite = {"a", DType::float16, {2}, std::as_bytes(std::span(not_finite))};
  CHECK(safetensors::to_float32(infinite, out).error() == Errc::bad_request);
}

TEST_CASE("safetensors: reads a file as other programs write it") {
  // No metadata, keys in another order, padding by spaces and newlines, tensors not in the order of their data.
  const std::string header =
      R"({"b":{"data_offsets":[4,8],"shape":[1],"dtype":"F32"}, "a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}   )"
      "\n";
  const Bytes bytes = file_of(header, 8);
  const auto file = safetensors::read(bytes);
  REQUIRE(file.has_value());
  CHECK(file->tensors()[0].name == "a");
  CHECK(file->tensors()[1].name == "b");
  CHECK(file->metadata().empty());
  CHECK(safetensors::read(file_of("{}", 0)).has_value());
}

TEST_CASE("safetensors: refuses a file that is cut short or has a header too large") {
  for (std::size_t size = 0; size < 8; ++size) check_refused(Bytes(size), Fault::truncated);
  const Bytes whole = file_of("{" + entry("a", "[2]", 0, 8) + "}", 8);
  REQUIRE(safetensors::read(whole).has_value());
  for (std::size_t size = 0; size < whole.size(); ++size)
    check_refused(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), Fault::truncated);
  check_refused(file_of("{}", 0, 100'000'001), Fault::header_size);
  check_refused(file_of("{}", 0, ~std::uint64_t(0)), Fault::header_size);
}

TEST_CASE("safetensors: refuses a header that is not one JSON object") {
  for (const char* header :
       {"", " {}", "[]", "null", "{", "{}{}", "{} x", "{\"a\":}", "{\"a\" 1}", "{\"\xff\":1}", "\xef\xbb\xbf{}"})
    check_refused(file_of(header, 0), Fault::not_json);
}

TEST_CASE("safetensors: refuses entries with fields missing, unknown, twice or of a wrong kind") {
  const auto refused = [](const std::string& value, Fault fault) {
    CAPTURE(value);
    check_refused(file_of("{\"a\":" + value + "}", 4), fault);
  };
  refused("1", Fault::bad_entry);
  refused("\"F32\"", Fault::bad_entry);
  refused("null", Fault::bad_entry);
  refused("[]", Fault::bad_entry);
  refused("{}", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":[1]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","data_offsets":[0,4]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":["1"],"data_offsets":[0,4]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":[[1]],"data_offsets":[0,4]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":{},"data_offsets":[0,4]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":[true],"data_offsets":[0,4]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})", Fault::bad_entry);
  refused(R"({"dtype":"F32","shape":[1],"data_offsets":[0,99999999999999999999]})", Fault::bad_entry);
  refused(R"({"dtype":4,"shape":[1],"data_offsets":[0,4]})", Fault::bad_entry);
  refused(R"({"dtype":["F32"],"shape":[1],"data_offsets":[0,4]})", Fault::bad_entry);
  refused(R"({"dtype":"F31","shape":[1],"data_offsets":[0,4]})", Fault::unknown_dtype);
  refused(R"({"dtype":"","shape":[1],"data_offsets":[0,4]})", Fault::unknown_dtype);
  refused(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})", Fault::duplicate);
  check_refused(file_of(R"({"__metadata__":"x"})", 0), Fault::bad_entry);
  check_refused(file_of(R"({"__metadata__":{"epoch":3}})", 0), Fault::bad_entry);
  check_refused(file_of(R"({"__metadata__":{"a":{}}})", 0), Fault::bad_entry);
  check_refused(file_of(R"({"__metadata__":{"a":"1","a":"1"}})", 0), Fault::duplicate);
  check_refused(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), Fault::duplicate);
}

TEST_CASE("safetensors: a deep header is refused without a stack of its depth") {
  check_refused(file_of("{\"a\":" + std::string(2'000'000, '['), 0), Fault::bad_entry);
  check_refused(file_of("{\"a\":{\"shape\":" + std::string(2'000'000, '['), 0), Fault::bad_entry);
}

TEST_CASE("safetensors: refuses two tensors of one name, and places that overlap, leave gaps or do not fit") {
  const auto refused = [](const std::string& header, std::size_t data_bytes, Fault fault) {
    CAPTURE(header);
    check_refused(file_of("{" + header + "}", data_bytes), fault);
  };
  refused(entry("a", "[1]", 0, 4) + "," + entry("a", "[1]", 4, 8), 8, Fault::duplicate);
  refused(entry("a", "[2]", 0, 8) + "," + entry("b", "[1]", 4, 8), 8, Fault::overlap);
  refused(entry("a", "[1]", 0, 4) + "," + entry("b", "[1]", 0, 4), 4, Fault::overlap);
  refused(entry("a", "[1]", 0, 4) + "," + entry("b", "[1]", 8, 12), 12, Fault::gap);
  refused(entry("a", "[1]", 4, 8), 8, Fault::gap);
  refused(entry("a", "[1]", 0, 4), 5, Fault::gap);
  refused("", 1, Fault::gap);
  refused(entry("a", "[1]", 0, 4), 3, Fault::truncated);
  refused(entry("a", "[2]", 0, 4), 4, Fault::wrong_size);
  refused(entry("a", "[2]", 0, 4, "U8"), 4, Fault::wrong_size);
  refused(entry("a", "[1]", 8, 4), 8, Fault::wrong_size);
  refused(entry("a", "[0]", 0, 4), 4, Fault::wrong_size);
}

TEST_CASE("safetensors: refuses shapes whose size overflows") {
  const std::string two62 = "4611686018427387904";
  for (const std::string& shape :
       {"[" + two62 + ",4]", "[" + two62 + "," + two62 + "]", std::string("[18446744073709551615]")})
    check_refused(file_of("{" + entry("a", shape, 0, 0) + "}", 0), Fault::overflow);
  CHECK(safetensors::read(file_of("{" + entry("a", "[0," + two62 + "]", 0, 0) + "}", 0))
            .has_value());  // no values: 0 bytes
}

}  // namespace collab
