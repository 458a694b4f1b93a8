// The two files of a checkpoint, as a broken disk or anybody may leave them: damage in words, or a checkpoint that is
// the same when saved and read again. The first byte is even: u16 bytes | the model file | the resume file. Odd: a
// resume file whose hashes are made to fit: pieces (u16 bytes | bytes) in threes, key, position and content.
#include "base/text.hpp"
#include "state/checkpoint_file.hpp"
#include "support.hpp"
#include "tensor/safetensors.hpp"

#include <cstring>
#include <set>
#include <string>

namespace collab::fuzz::checkpoint_target {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kResume = "resume.safetensors";

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void check(const std::filesystem::path& folder) {
  const auto read = state::read_checkpoint(folder);
  if (!read) {
    require(!read.error().what.empty());
    return;
  }
  require(read->parameters.size() == read->schema.values());
  std::set<std::string> names;
  for (const state::Section& section : read->sections)
    require(!section.name.empty() && names.insert(section.name).second);

  static const fuzz::InputFolder copy;
  const state::CheckpointContents contents{read->epoch,      read->run,      read->root, read->schema,
                                           read->parameters, read->sections, {}};
  state::write_checkpoint(copy.path(), contents);
  const auto again = state::read_checkpoint(copy.path());
  require(again && again->epoch == read->epoch && again->run == read->run && again->root == read->root);
  require(again->schema.tensors.size() == read->schema.tensors.size());
  require(same_bits(again->parameters, read->parameters));
  require(again->sections.size() == read->sections.size());
  for (std::size_t i = 0; i < read->sections.size(); ++i) {
    require(again->sections[i].name == read->sections[i].name);
    require(again->sections[i].bytes == read->sections[i].bytes);
  }
}

/// A model file of one value, and its hash as the resume file has to name it.
struct Model {
  Model() {
    static const float value = 1.5F;
    const safetensors::Tensor tensor{"w", DType::float32, {1}, std::as_bytes(std::span(&value, 1))};
    const safetensors::Metadata head{{"epoch", "7"}, {"run", "demo"}, {"root", std::string(64, '0')}};
    bytes = safetensors::write(std::span(&tensor, 1), head);
    const auto raw = std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    hash = to_hex(Hasher("collab.checkpoint.model").add(raw.first(raw.size() - 4)).add(raw.last(4)).finish());
  }
  Bytes bytes;
  std::string hash;
};

bool fits(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = utf8_character_bytes(text.substr(at));
    if (bytes == 0) return false;
    at += bytes;
  }
  return text != "__metadata__";
}

Bytes make_resume(const Model& model, fuzz::Input input) {
  safetensors::Metadata head{{"model", model.hash}};
  std::vector<safetensors::Tensor> tensors;
  std::set<std::string> names;
  while (!input.empty() && tensors.size() < 8) {
    const std::string name(fuzz::text_of(input.piece()));
    const std::string position(fuzz::text_of(input.piece()));
    const auto content = input.piece();
    if (!fits(name) || !fits(position) || !names.insert(name).second) continue;
    tensors.push_back({name, DType::uint8, {static_cast<std::int64_t>(content.size())}, content});
    head["section:" + name] = position + " " + to_hex(state::content_hash(content));
  }
  return safetensors::write(tensors, head);
}

COLLAB_FUZZ_TARGET(checkpoint) {
  static const fuzz::InputFolder folder;
  static const Model model;
  fuzz::Input input(fuzz::bytes_of(data, size));
  if (input.number<std::uint8_t>() % 2 != 0) {
    folder.put(kModel, model.bytes);
    folder.put(kResume, make_resume(model, input));
  } else {
    const auto file = input.piece();
    folder.put(kModel, file);
    folder.put(kResume, input.rest());
  }
  check(folder.path());
  return 0;
}

}  // namespace collab::fuzz::checkpoint_target
