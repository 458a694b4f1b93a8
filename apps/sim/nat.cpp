#include "nat.hpp"

#include "nat_matrix.hpp"
#include "options.hpp"
#include "sim/nat_pairs.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace collab::sim {
namespace {

char letter(std::size_t kind) {
  return static_cast<char>('a' + kind);
}

char sign_of(const NatPair& pair) {
  if (pair.a_dials) return '>';
  if (pair.b_dials) return '<';
  if (pair.punched) return 'p';
  if (pair.led_on) return 't';
  return pair.relayed ? 'r' : '.';
}

/// One who can only dial and is not dialled is a client; two of them take part in one round by way of a third.
const char* means(const NatPair& pair) {
  if (pair.a_dials) return "first dials second";
  if (pair.punched) return "punched";
  if (pair.led_on) return "led on";
  if (pair.relayed) return "relayed";
  return pair.b_dials ? "second dials first" : "not reachable: both are clients";
}

/// As a member's record says it.
std::string_view state_of(const NatFacts& facts, std::size_t kind) {
  const bool kept = facts.states[kind] == nat::State::relayed && nat::can_be_punched(facts.mappings[kind]);
  return kept ? "punchable" : name(facts.states[kind]);
}

std::string text_of(const NatFacts& facts) {
  std::string out = fmt::format("{:<52} {:<16} {}\n", "", "it finds", "with the second:");
  out += fmt::format("{:<69} ", "the first is");
  for (std::size_t kind = 0; kind < facts.kinds.size(); ++kind) out += fmt::format(" {}", letter(kind));
  out += "\n";
  for (std::size_t a = 0; a < facts.kinds.size(); ++a) {
    out += fmt::format("{} {:<50} {:<16} ", letter(a), facts.kinds[a].name,
                       fmt::format("{}{}", state_of(facts, a), facts.sure[a] ? "" : "?"));
    for (std::size_t b = 0; b < a; ++b) out += "  ";
    for (const NatPair& pair : facts.pairs)
      if (pair.a == a) out += fmt::format(" {}", sign_of(pair));
    out += "\n";
  }
  return out +
         "> the first dials the second, < the second dials the first, p a relay led from one to the other, until they\n"
         "dialled each other at once, r a relay leads there, t one leads there and carries tensors too, . nothing "
         "does.\n"
         "In p, r and . both are clients, and own no segment; a round takes them in by those whom both dial. ? judged\n"
         "by fewer than three\n";
}

nlohmann::json to_json(const NatFacts& facts) {
  nlohmann::json out;
  for (std::size_t kind = 0; kind < facts.kinds.size(); ++kind)
    out["kinds"].push_back({{"kind", facts.kinds[kind].name},
                            {"state", name(facts.states[kind])},
                            {"mapping", name(facts.mappings[kind])},
                            {"sure", bool(facts.sure[kind])}});
  for (const NatPair& pair : facts.pairs)
    out["pairs"].push_back({{"first", facts.kinds[pair.a].name},
                            {"second", facts.kinds[pair.b].name},
                            {"means", means(pair)},
                            {"took_s", to_seconds(pair.took)},
                            {"punched_in_s", pair.punched ? nlohmann::json(to_seconds(pair.punched_in)) : nullptr}});
  out["hidden_dials"] = facts.hidden_dials;
  out["virtual_s"] = to_seconds(facts.length);
  out["fingerprint"] = fmt::format("{:016x}", facts.fingerprint);
  return out;
}

}  // namespace

int run_nat(const node::Config& config, const std::string& command) {
  if (config.number("seeds") > 1) return run_nat_matrix(config, command);
  NatPairsOptions options;
  options.seed = static_cast<std::uint64_t>(config.number("seed"));
  options.crypto = crypto_of(config);
  const NatFacts facts = run_nat_pairs(options);
  const std::vector<std::string> lies = nat_lies(facts);
  if (!is_quiet(config)) fmt::print("{}", text_of(facts));
  for (const std::string& lie : lies) fmt::print(stderr, "broke nat: {}\n", lie);
  nlohmann::json out = to_json(facts);
  out["workload"] = "nat";
  out["command"] = fmt::format("{} --seed {}", command, options.seed);
  out["held"] = lies.empty();
  write_json(config, out);
  return lies.empty() ? 0 : 1;
}

}  // namespace collab::sim
