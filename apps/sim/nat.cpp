#include "nat.hpp"

#include "options.hpp"
#include "sim/nat_pairs.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace collab::sim {
namespace {

char letter(std::size_t kind) {
  return static_cast<char>('a' + kind);
}

/// One who can only dial and is not dialled is a client; two of them take part in one round by way of a third.
const char* means(const NatPair& pair) {
  if (pair.a_dials) return "first dials second";
  if (pair.relayed) return "relayed";
  return pair.b_dials ? "second dials first" : "not reachable: both are clients";
}

std::string text_of(const NatFacts& facts) {
  std::string out = fmt::format("{:<52} {:<16} {}\n", "", "it finds", "with the second:");
  out += fmt::format("{:<69} ", "the first is");
  for (std::size_t kind = 0; kind < facts.kinds.size(); ++kind) out += fmt::format(" {}", letter(kind));
  out += "\n";
  for (std::size_t a = 0; a < facts.kinds.size(); ++a) {
    out += fmt::format("{} {:<50} {:<16} ", letter(a), facts.kinds[a].name,
                       fmt::format("{}{}", name(facts.states[a]), facts.sure[a] ? "" : "?"));
    for (std::size_t b = 0; b < a; ++b) out += "  ";
    for (const NatPair& pair : facts.pairs)
      if (pair.a == a) out += pair.a_dials ? " >" : pair.b_dials ? " <" : pair.relayed ? " r" : " .";
    out += "\n";
  }
  return out +
         "> the first dials the second, < the second dials the first, r a relay leads from one to the other, . "
         "nothing\n"
         "does. In r and . both are clients, and own no segment; a round takes them in by those whom both dial. ? "
         "judged\n"
         "by fewer than three\n";
}

nlohmann::json to_json(const NatFacts& facts) {
  nlohmann::json out;
  for (std::size_t kind = 0; kind < facts.kinds.size(); ++kind)
    out["kinds"].push_back(
        {{"kind", facts.kinds[kind].name}, {"state", name(facts.states[kind])}, {"sure", bool(facts.sure[kind])}});
  for (const NatPair& pair : facts.pairs)
    out["pairs"].push_back({{"first", facts.kinds[pair.a].name},
                            {"second", facts.kinds[pair.b].name},
                            {"means", means(pair)},
                            {"took_s", to_seconds(pair.took)}});
  out["hidden_dials"] = facts.hidden_dials;
  out["virtual_s"] = to_seconds(facts.length);
  out["fingerprint"] = fmt::format("{:016x}", facts.fingerprint);
  return out;
}

}  // namespace

int run_nat(const node::Config& config, const std::string& command) {
  NatPairsOptions options;
  options.seed = static_cast<std::uint64_t>(config.number("seed"));
  options.crypto = crypto_of(config);
  const NatFacts facts = run_nat_pairs(options);
  const std::vector<std::string> lies = nat_lies(facts);
  const bool quiet = config.toggle("quiet") || (config.has("json") && config.text("json") == "-");
  if (!quiet) fmt::print("{}", text_of(facts));
  for (const std::string& lie : lies) fmt::print(stderr, "broke nat: {}\n", lie);
  nlohmann::json out = to_json(facts);
  out["workload"] = "nat";
  out["command"] = fmt::format("{} --seed {}", command, options.seed);
  out["held"] = lies.empty();
  write_json(config, out);
  return lies.empty() ? 0 : 1;
}

}  // namespace collab::sim
