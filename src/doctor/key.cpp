#include "doctor/key.hpp"

#include "crypto/identity.hpp"
#include "crypto/key_file.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <sys/stat.h>

namespace collab::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "key";

std::optional<Identity> read_identity(const fs::path& file) {
  auto seed = key_file::read(file);
  if (!seed) return std::nullopt;
  Identity identity = Identity::generate(*seed);
  sodium_memzero(seed->data(), seed->size());
  return identity;
}

/// What others may do in the folder: the key lies there for its owner alone.
std::optional<Finding> judge_folder(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return std::nullopt;
  const std::string remedy = "chmod 700 " + folder.string();
  const bool others_write = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0;
  if (others_write)
    return fail(kName, fmt::format("others may write to {}, where the key is kept", folder.string()), remedy,
                ExitCode::machine);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return warn(kName,
                fmt::format("others may look into {} (mode {:o}), where the key is kept", folder.string(),
                            status.st_mode & 0777U),
                remedy);
  return std::nullopt;
}

}  // namespace

KeyCheck check_key(const fs::path& file) {
  KeyCheck check;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  try {
    check.identity = read_identity(file);
  } catch (const Failure& failure) {
    check.finding = fail(kName, failure);
    return check;
  }
  check.made = check.identity.has_value();
  check.holder = key_file::holder(file);
  const auto of_folder = judge_folder(folder);
  if (!check.identity) {
    check.finding = ok(kName, fmt::format("none yet; the first start makes {}", file.string()));
    if (of_folder && of_folder->result == Grade::fail) check.finding = *of_folder;
    return check;
  }
  const std::string whose = fmt::format("peer {}", check.identity->id().short_text());
  check.finding = ok(kName, fmt::format("{}, for its owner alone", whose));
  if (check.holder)
    check.finding = warn(kName, fmt::format("{}, in use by {}", whose, *check.holder),
                         "it is all right if that peer is yours; a second one needs another --home");
  if (of_folder) check.finding = *of_folder;
  return check;
}

}  // namespace collab::doctor
