// A configuration file: any bytes are refused as the user's mistake, or leave every option at a value of its kind and
// range.
#include "node/config.hpp"
#include "support.hpp"

#include <cmath>

namespace collab::fuzz::config_target {

node::OptionTable table() {
  using node::OptionKind;
  node::OptionTable rows(5);
  rows[0].name = "run-id";
  rows[1].name = "target-batch";
  rows[1].kind = OptionKind::number;
  rows[1].built_in = "128";
  rows[1].min = 1;
  rows[1].max = 1e9;
  rows[2].name = "learning-rate";
  rows[2].kind = OptionKind::real;
  rows[2].built_in = "0.5";
  rows[3].name = "client";
  rows[3].kind = OptionKind::toggle;
  rows[4].name = "bootstrap";
  rows[4].kind = OptionKind::list;
  return rows;
}

COLLAB_FUZZ_TARGET(config) {
  static fuzz::InputFile file;
  file.put(fuzz::bytes_of(data, size));
  node::Config config(table());
  try {
    config.read_file(file.path(), node::Origin::config_file);
  } catch (const Failure& failure) {
    require(failure.code() == ExitCode::usage && !std::string_view(failure.what()).empty());
  }
  const std::int64_t number = config.number("target-batch");
  require(number >= 1 && number <= 1'000'000'000);
  require(!std::isnan(config.real("learning-rate")));
  if (config.has("client")) (void)config.toggle("client");
  for (const std::string& item : config.list("bootstrap")) require(item.size() <= 2 * size + 32);
  (void)config.describe();
  return 0;
}

}  // namespace collab::fuzz::config_target
