// collab-peer: joins a run and trains. What needs no model is done here; the rest by collab-trainer, in the same
// process.

#include "cli/program.hpp"
#include "jobs/peer_front.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace collab {
namespace {

namespace fs = std::filesystem;

/// Beside this program, where it was built; else where `meson install` puts it. Throws `Failure(machine)`.
fs::path trainer() {
  std::error_code ignored;  // what cannot be seen is not there
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path installed = (here / COLLAB_LIBEXEC / "collab-trainer").lexically_normal();
  for (const fs::path& place : {here / "collab-trainer", installed})
    if (fs::exists(place, ignored)) return place;
  throw Failure(ExitCode::machine,
                fmt::format("collab-trainer, which computes for it, is neither in {} nor at {}", here.string(),
                            installed.string()),
                "install collab again");
}

/// Returns only by throwing `Failure(machine)`.
int become_trainer(char** argv) {
  const fs::path program = trainer();
  ::execv(program.c_str(), argv);
  throw Failure(ExitCode::machine, fmt::format("cannot start {}: {}", program.string(), std::strerror(errno)),
                "install collab again");
}

}  // namespace
}  // namespace collab

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return collab::cli::run_program("collab-peer", [&] {
    return collab::jobs::peer_front(arguments, [&](const auto&, const auto&) { return collab::become_trainer(argv); });
  });
}
