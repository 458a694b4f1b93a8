#include "doctor/key.hpp"

#include "crypto/key_file.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <sys/stat.h>
#include <utility>

namespace collab::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKeyName = "key";

std::optional<Identity> read_identity(const fs::path& file) {
  auto seed = key_file::read(file);
  if (!seed) return std::nullopt;
  Identity identity = Identity::generate(*seed);
  sodium_memzero(seed->data(), seed->size());
  return identity;
}

/// What others may do in the folder: the key lies there for its owner alone.
std::optional<Finding> judge_folder(const fs::path& folder) {
  if (const auto problem = key_file::folder_problem(folder)) return fail(kKeyName, *problem);
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || (status.st_mode & (S_IRWXG | S_IRWXO)) == 0) return std::nullopt;
  return warn(kKeyName,
              fmt::format("others may look into {} (mode {:o}), where the key is kept", folder.string(),
                          status.st_mode & 0777U),
              "chmod 700 " + folder.string());
}

/// Of a key that is well.
Finding judge_key(const KeyCheck& check, std::optional<Finding> of_folder) {
  const std::string whose = fmt::format("peer {}", check.identity->id().short_text());
  const std::string use = check.holder ? fmt::format("{}, in use by {}", whose, *check.holder) : "";
  if (of_folder) {
    if (check.holder) of_folder->measured += "; " + use;
    return *of_folder;
  }
  if (!check.holder) return ok(kKeyName, whose + ", for its owner alone");
  return warn(kKeyName, use, "it is all right if that peer is yours; a second one needs another --home");
}

}  // namespace

KeyCheck check_key(const fs::path& file) {
  KeyCheck check;
  try {
    check.identity = read_identity(file);
    check.holder = key_file::holder(file);
  } catch (const Failure& failure) {
    check.made = true;
    check.identity.reset();
    check.finding = fail(kKeyName, failure);
    return check;
  }
  check.made = check.identity.has_value();
  auto of_folder = judge_folder(file.has_parent_path() ? file.parent_path() : fs::path("."));
  if (check.made) {
    check.finding = judge_key(check, std::move(of_folder));
  } else if (of_folder && of_folder->result == Grade::fail) {
    check.finding = std::move(*of_folder);
  } else {
    check.finding = ok(kKeyName, fmt::format("none yet; the first start makes {}", file.string()));
  }
  return check;
}

}  // namespace collab::doctor
