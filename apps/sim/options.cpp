#include "options.hpp"

#include "base/file.hpp"
#include "matchmaking/group_key.hpp"
#include "tensor/codec.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <utility>

namespace collab::sim {
namespace {

using node::OptionKind;

std::uint64_t whole(const node::Config& config, const char* name) {
  return static_cast<std::uint64_t>(config.number(name));
}

/// "5..40" or "20", in milliseconds.
void read_latency(const std::string& text, LinkOptions& links) {
  const auto dots = text.find("..");
  const auto number = [&](std::string_view word) {
    double value = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || !(value >= 0 && value <= 60'000))
      refuse(fmt::format("--latency \"{}\" is neither MS nor MS..MS", text), "--latency 5..40");
    return from_seconds(value / 1000);
  };
  const std::string_view all = text;
  links.latency_min = number(dots == std::string::npos ? all : all.substr(0, dots));
  links.latency_max = dots == std::string::npos ? links.latency_min : number(all.substr(dots + 2));
  if (links.latency_max < links.latency_min) refuse("--latency: the longest is shorter than the shortest", "5..40");
}

/// Lines carry a gradient as if it had so many bytes.
void charge_lines(double model_bytes, SwarmOptions& options) {
  constexpr double kChargeMax = 64;                              // a piece of a stream is then as long as 4 MB
  const double own = 2.0 * static_cast<double>(options.values);  // of float16
  const double charge = model_bytes / own;
  if (charge < 1 || charge > kChargeMax)
    refuse(fmt::format("{:.0f} bytes are {:.2f} times what {} values have", model_bytes, charge, options.values),
           fmt::format("--values between {:.0f} and {:.0f}", model_bytes / 2 / kChargeMax, model_bytes / 2));
  options.links.bulk_charge = charge;
  options.links.queue_bytes = std::max(
      std::size_t(1) << 16U, static_cast<std::size_t>(static_cast<double>(options.links.queue_bytes) / charge));
}

/// Rounds back to back: everybody has a batch at once.
void make_averaging(SwarmOptions& options) {
  constexpr double kInstantly = 4000;
  options.rates.assign(options.peers, kInstantly);
  options.target_batch = options.peers * options.microbatch;
}

}  // namespace

void refuse(const std::string& what, const std::string& remedy) {
  throw Failure(ExitCode::usage, what, remedy);
}

node::OptionTable sim_options() {
  const char* swarm = "Swarm";
  const char* links = "Links";
  const char* grid = "Grid";
  const char* directory = "Directory";
  const char* run = "Run";
  const char* output = "Output";
  return {
      {"peers", OptionKind::number, swarm, "N", "8", "beside the coordinator; of a grid: up to 100000", 1, 100'000},
      {"clients", OptionKind::number, swarm, "N", "0", "of them: dial only, never listen", 0, 100'000},
      {"stand-in", OptionKind::toggle, swarm, "", "", "the coordinator averages where nobody can be dialled"},
      {"contacts", OptionKind::number, swarm, "N", "0", "of them: known to all beside the coordinator", 0, 64},
      {"target-batch", OptionKind::number, swarm, "SAMPLES", "1024", "that make an epoch", 1, 1e9},
      {"microbatch", OptionKind::number, swarm, "SAMPLES", "4", "computed at once by a peer", 1, 65'536},
      {"speed", OptionKind::real, swarm, "SAMPLES/S", "16", "of the median peer; log-normal", 1e-3, 1e6},
      {"spread", OptionKind::real, swarm, "SIGMA", "0.7", "of the logarithm of speeds; 0: all alike", 0, 3},
      {"values", OptionKind::number, swarm, "N", "32768", "of the flat gradient", 1, 1e8},
      {"codec", OptionKind::text, swarm, "NAME", "float16", kCodecChoices},
      {"links", OptionKind::text, links, "KIND", "",
       "lan, dsl, hybrid, mobile, or a table: 1x1000/1000,2x20/100 (shares x Mbit/s up/down)"},
      {"model-bytes", OptionKind::real, links, "N", "", "of a gradient, that lines carry instead of --values", 1, 1e12},
      {"split", OptionKind::text, links, "HOW", "best",
       "of a vector among its averagers: best by their lines, or equal"},
      {"latency", OptionKind::text, links, "MS..MS", "5..40", "one way; drawn for each pair"},
      {"up", OptionKind::real, links, "BYTES/S", "12.5e6", "of each peer's line", 1e3, 1e12},
      {"down", OptionKind::real, links, "BYTES/S", "12.5e6", "of each peer's line", 1e3, 1e12},
      {"loss", OptionKind::real, links, "P", "0", "of a packet: delay on a stream", 0, 0.5},
      {"jitter", OptionKind::real, links, "SHARE", "0.1", "of the latency, drawn for each piece", 0, 1},
      {"grid", OptionKind::text, grid, "AxB[xC]", "auto", "what groups follow from"},
      {"group-size", OptionKind::number, grid, "N", "64", "of training, and of --grid auto: at most", 2, 64},
      {"groups", OptionKind::text, grid, "HOW", "grid",
       "random: A each, drawn anew; without a grid: ring, push_sum, restart"},
      {"weights", OptionKind::text, grid, "WHICH", "both", "plain: rounds to consensus; summed: one pass; both"},
      {"sizes", OptionKind::text, grid, "N..N", "8..2000", "of sweep: numbers of peers"},
      {"failure", OptionKind::real, grid, "P", "0", "of a peer in a round: absent; on a network: dies", 0, 0.9},
      {"window", OptionKind::real, grid, "SECONDS", "5", "of matchmaking: in which all look for a group", 0.5, 600},
      {"joiners", OptionKind::number, swarm, "N", "50", "of state: who fetches it, from --peers donors", 1, 1000},
      {"state-bytes", OptionKind::real, swarm, "N", "16e6", "of state: its size", 1, 1e9},
      {"liars", OptionKind::number, swarm, "N", "0", "of state: donors that give wrong bytes", 0, 1000},
      {"dying", OptionKind::number, swarm, "N", "0", "of state: donors that die meanwhile", 0, 1000},
      {"network", OptionKind::toggle, grid, "", "", "by the real protocol; else arithmetic without one"},
      {"nodes", OptionKind::number, directory, "N", "1024", "that serve it; all know some others at the start", 48,
       16'384},
      {"records", OptionKind::number, directory, "N", "16384", "each under a key of its own; at most 60 a node", 1,
       1e6},
      {"gone", OptionKind::real, directory, "SHARE", "0", "of the nodes die at once, after everything was read once", 0,
       0.9},
      {"seed", OptionKind::number, run, "N", "1", "of everything; the same seed, the same run", 0, 9e15},
      {"seeds", OptionKind::number, run, "N", "1", "that many runs, from --seed on", 1, 1e6},
      {"epochs", OptionKind::number, run, "N", "", "ends then; 20 when --minutes is not given", 1, 1e6},
      {"minutes", OptionKind::real, run, "N", "", "virtual; with --epochs: the budget", 0.1, 1e5},
      {"faults", OptionKind::text, run, "NAME", "calm",
       "calm, home, churn, storm, hostile, soak62, split, orphan, or a TOML file"},
      {"plant", OptionKind::text, run, "BUG", "none",
       "no_quorum, arrival_order, keep_partial, sum_twice, skip_ledger, begin_early"},
      {"boxes", OptionKind::toggle, swarm, "", "", "most peers are behind address translators of usual kinds"},
      {"checkpoint-every", OptionKind::number, swarm, "EPOCHS", "0",
       "a peer that dies goes back to its last; 0: it loses nothing", 0, 1e6},
      {"clock-ahead", OptionKind::real, swarm, "SECONDS", "29", "of a peer's calendar, either way: at most", 0, 59},
      {"drift", OptionKind::real, swarm, "PPM", "200", "of a peer's clock, either way: at most", 0, 1e4},
      {"crypto", OptionKind::text, run, "HOW", "fake", "real, or fake: as many bytes, the same errors, no arithmetic"},
      {"units", OptionKind::number, swarm, "N", "0", "of a pass, which peers lease; 0: each has samples of its own", 0,
       1e12},
      {"until", OptionKind::real, run, "SECONDS", "", "stop there, virtual: to look at a moment", 0.1, 1e7},
      {"shrink", OptionKind::text, output, "FILE", "",
       "of the first seed that breaks: the smallest schedule that still does"},
      {"trace", OptionKind::text, output, "WHAT", "", "events: all, or peer=3,room=averaging; peer=coordinator"},
      {.name = "json",
       .kind = OptionKind::text,
       .topic = output,
       .value = "[FILE]",
       .built_in = "",
       .help = "configuration, series, rounds, faults; without FILE, or -: to stdout",
       .alone = "-"},
      {"svg", OptionKind::text, output, "FILE", "", "throughput, peers and loss over time"},
      {"quiet", OptionKind::toggle, output, "", "", "no table: only what broke"},
  };
}

cli::Synopsis sim_synopsis() {
  cli::Synopsis synopsis;
  synopsis.program = "collab-sim";
  synopsis.sentence =
      "a whole swarm in one thread on virtual time, with the real protocols.\n"
      "The same seed gives the same run, so a failure is a seed. Exit 0: all invariants held, 1: one broke,\n"
      "2: wrong options, 3: stopped before the end, stuck for ever, or no fault of any seed struck";
  synopsis.commands = {{"training", "peers train a formula, epoch after epoch"},
                       {"averaging", "rounds back to back"},
                       {"moshpit", "one pass over a grid: weighted mean; without network also rounds to consensus"},
                       {"estimate", "at once: what so many volunteers on such --links give, without a run"},
                       {"partition", "at once: the best shares for the lines in a FILE; partition --help", 1},
                       {"sweep", "moshpit for every number of peers of --sizes, as arithmetic"},
                       {"deaths", "one pass over a grid with a death in each round: what it costs the others"},
                       {"killed", "groups of 2 to 16, one killed at a random byte of the round"},
                       {"split", "one round on --links: segments by lines against segments of one size"},
                       {"nat", "who reaches whom from behind which boxes; with --seeds N, N times on six ways"},
                       {"directory", "what storing and finding records costs among --nodes"},
                       {"matchmaking", "how soon everybody is in a full group"},
                       {"state", "how soon many joiners have the state of a run"},
                       {"idle", "hours without training: nothing may grow"},
                       {"day", "hours of training, under faults too: nothing may grow"}};
  synopsis.examples = {"collab-sim estimate --peers 200 --links dsl --values 18000000 --target-batch 65536",
                       "collab-sim partition lines.json --json",
                       "collab-sim --peers 24 --links dsl --faults home --minutes 10 --svg run.svg",
                       "collab-sim --faults churn --minutes 10 --seeds 50",
                       "collab-sim --faults churn --minutes 10 --seed 7 --until 95 --trace room=averaging",
                       "collab-sim --boxes --peers 10 --faults home --minutes 10",
                       "collab-sim --faults churn --minutes 10 --plant sum_twice --shrink schedule.toml",
                       "collab-sim directory --nodes 1024 --records 16384 --gone 0.3 --json",
                       "collab-sim moshpit --peers 1024 --grid 32x32 --failure 0.01 --seeds 30 --json"};
  synopsis.read_on =
      "doc/operating.md has the format of fault files; doc/architecture.md the invariants; doc/papers.md figures";
  return synopsis;
}

void read_links(const node::Config& config, LinkOptions& links, LineOptions& line) {
  read_latency(config.text("latency"), links);
  line.up_bytes_per_s = config.real("up");
  line.down_bytes_per_s = config.real("down");
  links.loss = config.real("loss");
  links.jitter = config.real("jitter");
}

namespace {

struct LinkPreset {
  std::string_view name;
  std::string_view table;
  double latency_min_ms, latency_max_ms;
  double loss;
};
constexpr std::array<LinkPreset, 4> kPresets = {{{"lan", "1x1000/1000", 0.2, 1, 0},
                                                 {"dsl", "1x20/100", 5, 40, 0},
                                                 {"hybrid", "1x1000/1000,2x100/200", 5, 40, 0},  // DeDLOC, setup C
                                                 {"mobile", "1x10/40", 20, 60, 0.002}}};
constexpr double kMbit = 1e6 / 8;
constexpr double kSharesMax = 1e6;

/// The number at the start of `text`, which loses it and `after`.
double cut_number(std::string_view& text, char after, const std::string& all) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const bool follows = after == '\0' ? text.empty() : text.starts_with(after);
  if (error != std::errc() || !follows || !(value > 0 && value <= kSharesMax))
    refuse(fmt::format("--links \"{}\" is none of lan, dsl, hybrid, mobile, and no table", all),
           "--links 1x1000/1000,2x20/100: of three peers one has 1000 Mbit/s, two 20 up and 100 down");
  if (after != '\0') text.remove_prefix(1);
  return value;
}

}  // namespace

std::vector<LineOptions> read_lines(const node::Config& config, std::size_t peers, LinkOptions& links) {
  if (!config.has("links")) return {};
  std::string table = config.text("links");
  for (const LinkPreset& preset : kPresets) {
    if (preset.name != table) continue;
    table = preset.table;
    links.latency_min = from_seconds(preset.latency_min_ms / 1000);
    links.latency_max = from_seconds(preset.latency_max_ms / 1000);
    links.loss = preset.loss;
    break;
  }
  std::vector<std::pair<double, LineOptions>> rows;
  double shares = 0;
  std::string_view rest = table;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    more = comma != std::string_view::npos;
    std::string_view row = rest.substr(0, comma);
    if (more) rest.remove_prefix(comma + 1);
    shares += cut_number(row, 'x', table);
    const double up = kMbit * cut_number(row, '/', table);
    rows.push_back({shares, LineOptions{up, kMbit * cut_number(row, '\0', table)}});
  }
  std::vector<LineOptions> lines;
  for (std::size_t i = 0, row = 0; i < peers; ++i) {
    const double place = shares * (static_cast<double>(i) + 0.5) / static_cast<double>(peers);
    while (row + 1 < rows.size() && place > rows[row].first) ++row;
    lines.push_back(rows[row].second);
  }
  return lines;
}

std::vector<std::uint32_t> read_grid(const node::Config& config, std::size_t peers) {
  auto radices = matchmaking::parse_grid(config.text("grid"));
  if (!radices)
    refuse(fmt::format("--grid \"{}\" is neither auto nor up to 8 numbers of 2 to 64", config.text("grid")),
           "--grid 32x32");
  if (radices->empty()) return matchmaking::radices_for(peers, static_cast<std::size_t>(config.number("group-size")));
  return *radices;
}

bool is_quiet(const node::Config& config) {
  return config.toggle("quiet") || (config.has("json") && config.text("json") == "-");
}

void write_json(const node::Config& config, const nlohmann::json& result) {
  if (!config.has("json")) return;
  const std::string file = config.text("json");
  if (file == "-") {
    fmt::print("{}\n", result.dump());
  } else {
    write_file(file, result.dump(1) + "\n");
  }
}

Crypto crypto_of(const node::Config& config) {
  const auto crypto = crypto_named(config.text("crypto"));
  if (!crypto) refuse(fmt::format("--crypto \"{}\"", config.text("crypto")), "real or fake");
  return *crypto;
}

SwarmOptions swarm_options(const std::string& workload, const node::Config& config) {
  SwarmOptions options;
  options.seed = whole(config, "seed");
  options.peers = whole(config, "peers");
  if (options.peers > kNetworkPeersMax)
    refuse(fmt::format("connections are real, of at most {} peers", kNetworkPeersMax), "--peers 64");
  options.clients = whole(config, "clients");
  options.contacts = whole(config, "contacts");
  options.coordinator_averages = config.toggle("stand-in");
  if (options.clients > options.peers) refuse("more clients than peers", "--clients, at most --peers");
  if (options.clients == options.peers && !options.coordinator_averages)
    refuse("somebody must be reachable", "--clients below --peers, or --stand-in");
  options.target_batch = whole(config, "target-batch");
  options.group_size_max = static_cast<std::size_t>(config.number("group-size"));
  if (config.text("grid") != "auto") options.grid = read_grid(config, options.peers);
  options.microbatch = whole(config, "microbatch");
  options.units_per_pass = whole(config, "units");
  options.samples_per_s = config.real("speed");
  options.spread = config.real("spread");
  options.values = whole(config, "values");
  options.codec_by_lines = config.text("codec") == kAutoCodec;
  const auto codec = options.codec_by_lines ? CodecId::float16 : codec_named(config.text("codec"));
  if (!codec) refuse(fmt::format("there is no codec {}", config.text("codec")), "see --help");
  options.codec = *codec;
  read_links(config, options.links, options.line);
  options.lines = read_lines(config, options.peers, options.links);
  if (config.text("split") != "best" && config.text("split") != "equal")
    refuse(fmt::format("--split \"{}\"", config.text("split")), "best or equal");
  options.equal_split = config.text("split") == "equal";
  if (config.has("model-bytes")) charge_lines(config.real("model-bytes"), options);
  if (config.has("minutes")) options.length = from_seconds(60 * config.real("minutes"));
  if (config.has("epochs")) options.epochs = whole(config, "epochs");
  if (options.epochs == 0 && options.length == Duration()) options.epochs = 20;
  options.boxes = config.toggle("boxes");
  options.checkpoint_every = whole(config, "checkpoint-every");
  options.crypto = crypto_of(config);
  options.clock_ahead_max = from_seconds(config.real("clock-ahead"));
  options.drift_ppm_max = config.real("drift");
  options.faults = load_faults(config.text("faults"));
  const auto plant = plant_named(config.text("plant"));
  if (!plant) refuse(fmt::format("there is no bug {} to plant", config.text("plant")), "see --help");
  options.plant = *plant;
  if (workload == "averaging") make_averaging(options);
  return options;
}

bool TraceFilter::shows(const TraceLine& line) const {
  if (peer && line.peer != *peer) return false;
  return room.empty() || line.event.starts_with(room + ".");
}

TraceFilter parse_trace(const std::string& text) {
  TraceFilter filter;
  if (text == "all") return filter;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word.starts_with("room=")) {
      filter.room = word.substr(5);
      continue;
    }
    if (word == "peer=coordinator") {
      filter.peer = kCoordinator;
      continue;
    }
    std::size_t peer = 0;
    const auto digits = word.starts_with("peer=") ? word.substr(5) : std::string_view();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), peer);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
      refuse(fmt::format("--trace does not know \"{}\"", word),
             "--trace peer=3,room=averaging, --trace peer=coordinator, or --trace all");
    filter.peer = peer;
  }
  return filter;
}

}  // namespace collab::sim
