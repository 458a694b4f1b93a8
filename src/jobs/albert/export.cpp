#include "jobs/albert/export.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "recipes/albert.hpp"
#include "tensor/safetensors.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <system_error>

namespace collab::jobs {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& what, const fs::path& path, int error) {
  throw Failure(ExitCode::machine, what + " " + path.string() + ": " + std::generic_category().message(error),
                "check the permissions, or choose another folder");
}

void write_parameters(const fs::path& path, const std::vector<optim::NamedTensor>& parameters,
                      const std::vector<std::pair<std::string, std::string>>& facts) {
  safetensors::Metadata metadata = {{"format", "pt"}};
  for (const auto& [name, value] : facts) metadata[name] = value;
  std::vector<at::Tensor> kept;  // the bytes below belong to these
  std::vector<safetensors::Tensor> tensors;
  for (const auto& [name, parameter] : parameters) {
    kept.push_back(parameter.detach().cpu().contiguous());
    const auto* values = kept.back().const_data_ptr<float>();
    const auto bytes = std::as_bytes(std::span(values, static_cast<std::size_t>(kept.back().numel())));
    tensors.push_back({name, DType::float32, parameter.sizes().vec(), bytes});
  }
  const Bytes file = safetensors::write(tensors, metadata);
  write_file(path, file);
}

/// Puts `fresh` in the place of `folder`, whether that exists or not, in one step.
void replace_folder(const fs::path& fresh, const fs::path& folder) {
  if (rename(fresh.c_str(), folder.c_str()) == 0) return;  // nothing there, or an empty folder
  if (errno != ENOTEMPTY && errno != EEXIST) refuse("cannot replace", folder, errno);
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0)
    refuse("cannot replace", folder, errno);
  fs::remove_all(fresh);  // the old one, which has the temporary name now
}

}  // namespace

void export_model(const fs::path& folder, const recipes::Recipe& recipe,
                  const std::vector<optim::NamedTensor>& parameters, const std::string& tokenizer,
                  const std::vector<std::pair<std::string, std::string>>& facts) {
  const fs::path target = fs::absolute(folder).lexically_normal();
  const fs::path name = target.has_filename() ? target.filename() : target.parent_path().filename();
  const fs::path parent = target.has_filename() ? target.parent_path() : target.parent_path().parent_path();
  const fs::path place = parent / name, fresh = parent / ("." + name.string() + ".partial");
  try {
    fs::remove_all(fresh);  // of a program that was killed while it wrote
    fs::create_directories(fresh);
    write_parameters(fresh / "model.safetensors", parameters, facts);
    write_file(fresh / "config.json", recipes::config_json(recipe));
    write_file(fresh / "spiece.model", tokenizer);
    write_file(fresh / "tokenizer_config.json", recipes::tokenizer_config_json(recipe));
    sync_folder(fresh);
    replace_folder(fresh, place);
    sync_folder(parent);
  } catch (const fs::filesystem_error& error) {
    refuse("cannot write", error.path1(), error.code().value());
  }
}

}  // namespace collab::jobs
