// odd_manifest HOME RUN FIELD VALUE: gives the manifest in a coordinator's home a field that a newer program might have
// written, and signs it with that home's authority. For doors_test.py.

#include "cli/program.hpp"
#include "crypto/hash.hpp"
#include "crypto/identity.hpp"
#include "node/manifest.hpp"

#include <filesystem>
#include <string>

namespace collab {
namespace {

void replace(std::string& text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  if (at == std::string::npos) throw Failure(ExitCode::usage, what + " is not in the recipe", "another VALUE");
  text.replace(at, what.size(), by);
}

int change(const std::filesystem::path& home, const std::string& run, const std::string& field,
           const std::string& value) {
  const Identity authority = Identity::load_or_create(home / "authority.key");
  const auto file = home / "manifest.signed";
  node::Manifest manifest = node::read_manifest(node::load_manifest(file).value(), run, std::nullopt).value();
  ++manifest.sequence;
  if (field == "codec") manifest.codec = value;
  if (field == "schema") manifest.schema = hash_bytes("of another model", {});
  if (field == "version") manifest.version_min = static_cast<std::uint32_t>(std::stoul(value));
  if (field == "job") replace(manifest.recipe, "\"albert\"", '"' + value + '"');
  if (field == "recipe") manifest.recipe = value;
  node::save_manifest(file, node::sign_manifest(authority, manifest));
  return 0;
}

}  // namespace
}  // namespace collab

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  return collab::cli::run_program("odd_manifest", [&] { return collab::change(argv[1], argv[2], argv[3], argv[4]); });
}
