#pragma once
// The option table of collab-bench.

#include "cli/options.hpp"
#include "node/config.hpp"

namespace collab::bench {

node::OptionTable bench_options();
cli::Synopsis bench_synopsis();

}  // namespace collab::bench
