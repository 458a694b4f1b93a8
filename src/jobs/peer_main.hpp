#pragma once
// collab-peer as a function, so that a program with jobs of its own is six lines.

#include "jobs/registry.hpp"

namespace collab::jobs {

/// Runs collab-peer with `jobs` and returns its exit code. Installs signal handlers.
int peer_main(const Registry& jobs, int argc, char** argv);

}  // namespace collab::jobs
