#include "state/checkpoint_file.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "state/mapped_file.hpp"
#include "tensor/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cstring>
#include <utility>

namespace collab::state {
namespace {

using safetensors::Metadata;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kResumeFile = "resume.safetensors";
constexpr std::string_view kSectionKey = "section:";  // value: "<position> <content hash>"
constexpr std::string_view kFileKey = "file:";        // value: content hash

/// Over the two parts of a safetensors file, so that writing needs no copy of it.
Digest file_hash(std::span<const std::byte> prefix, std::span<const std::byte> data) {
  const auto raw = [](std::span<const std::byte> bytes) {
    return std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  };
  return Hasher("collab.checkpoint.model").add(raw(prefix)).add(raw(data)).finish();
}

Metadata head_of(const CheckpointContents& contents) {
  Metadata head;
  head["format"] = "pt";
  head["epoch"] = std::to_string(contents.epoch);
  head["run"] = contents.run;
  head["root"] = to_hex(contents.root);
  return head;
}

Digest write_model(const std::filesystem::path& file, const CheckpointContents& contents) {
  assert(contents.parameters.size() == contents.schema.values());
  const auto data = std::as_bytes(contents.parameters);
  std::vector<safetensors::Tensor> tensors;
  std::size_t at = 0;
  for (const TensorInfo& info : contents.schema.tensors) {
    const std::size_t bytes = info.values() * sizeof(float);
    tensors.push_back({info.name, DType::float32, info.shape, data.subspan(at, bytes)});
    at += bytes;
  }
  // all have one type, so their data lie in the order of the flat vector
  const safetensors::Layout layout = safetensors::lay_out(tensors, head_of(contents));
  const std::array<std::span<const std::byte>, 2> pieces{layout.prefix, data};
  write_file(file, pieces);
  return file_hash(layout.prefix, data);
}

void write_resume(const std::filesystem::path& file, const CheckpointContents& contents, const Digest& model) {
  Metadata head = head_of(contents);
  head["model"] = to_hex(model);
  std::vector<safetensors::Tensor> tensors;
  for (const Section& section : contents.sections) {
    head[std::string(kSectionKey) + section.name] =
        fmt::format("{} {}", tensors.size(), to_hex(content_hash(section.bytes)));
    const auto bytes = static_cast<std::int64_t>(section.bytes.size());
    tensors.push_back({section.name, DType::uint8, {bytes}, section.bytes});
  }
  for (const NamedFile& named : contents.files)
    head[std::string(kFileKey) + named.name] = to_hex(content_hash(named.bytes));
  const safetensors::Layout layout = safetensors::lay_out(tensors, head);
  std::vector<std::span<const std::byte>> pieces = {layout.prefix};
  for (const std::size_t tensor : layout.order) pieces.push_back(tensors[tensor].data);
  write_file(file, pieces);
}

// ---- reading: what is not right is thrown as a sentence and becomes the error of read_checkpoint ----

[[noreturn]] void damaged(std::string_view file, std::string_view why) {
  throw Damage{fmt::format("{}: {}", file, why)};
}

safetensors::File parse(const char* name, std::span<const std::byte> bytes) {
  auto file = safetensors::read(bytes);
  if (!file) damaged(name, file.error().detail);
  return std::move(*file);
}

const std::string& field(const char* file, const Metadata& head, std::string_view name) {
  const auto found = head.find(name);
  if (found == head.end()) damaged(file, fmt::format("does not say its {}", name));
  return found->second;
}

Digest digest(const char* file, std::string_view text) {
  const auto bytes = from_hex(text);
  Digest result;
  if (!bytes || bytes->size() != result.size()) damaged(file, "a hash is not one");
  std::copy(bytes->begin(), bytes->end(), result.begin());
  return result;
}

std::uint64_t number(const char* file, std::string_view text) {
  std::uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) damaged(file, "a number is not one");
  return value;
}

/// Fills in what the model file says; returns its hash.
Digest read_model(Checkpoint& checkpoint) {
  const MappedFile mapped(checkpoint.folder / kModelFile);
  const safetensors::File file = parse(kModelFile, mapped.bytes());
  checkpoint.epoch = number(kModelFile, field(kModelFile, file.metadata(), "epoch"));
  checkpoint.run = field(kModelFile, file.metadata(), "run");
  checkpoint.root = digest(kModelFile, field(kModelFile, file.metadata(), "root"));
  std::size_t data_bytes = 0;
  for (const safetensors::Tensor& tensor : file.tensors()) {
    if (tensor.dtype != DType::float32) damaged(kModelFile, tensor.name + " is not float32");
    checkpoint.schema.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, TensorRole::parameter});
    data_bytes += tensor.data.size();
  }
  const auto prefix = mapped.bytes().first(mapped.bytes().size() - data_bytes);
  const auto data = mapped.bytes().last(data_bytes);
  checkpoint.parameters.resize(data_bytes / sizeof(float));
  if (data_bytes > 0) std::memcpy(checkpoint.parameters.data(), data.data(), data_bytes);
  return file_hash(prefix, data);
}

void read_section(Checkpoint& checkpoint, const safetensors::File& file, std::string_view name,
                  std::string_view value) {
  const auto space = std::min(value.find(' '), value.size() - 1);
  const std::uint64_t position = number(kResumeFile, value.substr(0, space));
  const safetensors::Tensor* tensor = file.find(name);
  if (name.empty()) damaged(kResumeFile, "a section has no name");  // an empty one is a place not yet filled
  if (tensor == nullptr || position >= checkpoint.sections.size() || !checkpoint.sections[position].name.empty())
    damaged(kResumeFile, fmt::format("section {} is not there", name));
  if (content_hash(tensor->data) != digest(kResumeFile, value.substr(space + 1)))
    damaged(kResumeFile, fmt::format("section {} has changed since it was saved", name));
  checkpoint.sections[position] = Section{std::string(name), Bytes(tensor->data.begin(), tensor->data.end())};
}

void check_named_file(const Checkpoint& checkpoint, std::string_view name, std::string_view hash) {
  if (name.find('/') != name.npos) damaged(kResumeFile, "names a file elsewhere");
  const MappedFile mapped(checkpoint.folder / name);
  if (content_hash(mapped.bytes()) != digest(kResumeFile, hash)) damaged(name, "has changed since it was saved");
}

void read_resume(Checkpoint& checkpoint, const Digest& model) {
  const MappedFile mapped(checkpoint.folder / kResumeFile);
  const safetensors::File file = parse(kResumeFile, mapped.bytes());
  const Metadata& head = file.metadata();
  if (digest(kResumeFile, field(kResumeFile, head, "model")) != model)
    damaged(kModelFile, "has changed since it was saved");
  checkpoint.sections.resize(file.tensors().size());
  std::size_t sections = 0;
  for (const auto& [key, value] : head) {
    const std::string_view name(key);
    if (name.starts_with(kSectionKey)) {
      read_section(checkpoint, file, name.substr(kSectionKey.size()), value);
      ++sections;
    }
    if (name.starts_with(kFileKey)) check_named_file(checkpoint, name.substr(kFileKey.size()), value);
  }
  if (sections != checkpoint.sections.size()) damaged(kResumeFile, "has sections that it does not name");
}

}  // namespace

void write_checkpoint(const std::filesystem::path& folder, const CheckpointContents& contents) {
  const Digest model = write_model(folder / kModelFile, contents);
  for (const NamedFile& named : contents.files) write_file(folder / named.name, named.bytes);
  write_resume(folder / kResumeFile, contents, model);
}

boost::system::result<Checkpoint, Damage> read_checkpoint(const std::filesystem::path& folder) {
  Checkpoint checkpoint;
  checkpoint.folder = folder;
  try {
    const Digest model = read_model(checkpoint);
    read_resume(checkpoint, model);
  } catch (const Damage& damage) {
    return damage;
  } catch (const Failure& failure) {  // a file that is missing or cannot be read
    return Damage{failure.cause()};
  }
  return checkpoint;
}

}  // namespace collab::state
