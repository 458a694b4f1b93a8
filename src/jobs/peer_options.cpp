#include "jobs/peer_options.hpp"

#include "node/run_name.hpp"

namespace collab::jobs {

using node::OptionKind;

namespace {

constexpr const char* kKeysTopic = "Keys and tokens";
constexpr const char* kExportTopic = "Export";

}  // namespace

node::OptionTable peer_options() {
  constexpr double kMany = 1e15;
  const char* run = "Run";
  const char* work = "Work";
  const char* net = "Network";
  const char* keys = kKeysTopic;
  const char* output = "Output";
  node::OptionTable table = {
      {"run-id", OptionKind::text, run, "NAME[#KEY]", "", "which run; #KEY pins the key of its authority"},
      {"bootstrap", OptionKind::list, run, "ADDR", "", "host:port of any member; else run book, contacts, LAN"},
      {"home", OptionKind::text, run, "DIR", "", "key, cache, checkpoints; ~/.local/share/collab/NAME"},
      {"name", OptionKind::text, run, "TEXT", "", "shown to others; from the peer id"},
      {"token", OptionKind::text, run, "FILE", "", "from the run's host, to be admitted; HOME/token"},
      {"epochs", OptionKind::number, run, "N", "", "stop by itself at this epoch; the recipe's end", 0, kMany},
      {"to", OptionKind::text, kExportTopic, "DIR", "", "where to write"},
      {"role", OptionKind::text, work, "ROLE", "trainer", "or aux: averages for others; monitor: only looks"},
      {"data", OptionKind::text, work, "DIR", "", "text of your own for the run's; checked by hash"},
      {"device", OptionKind::text, work, "NAME", "auto", "cpu, cuda or auto"},
      {"threads", OptionKind::number, work, "N", "", "for computing; cores - 1", 1, 1024},
      {"cpu-percent", OptionKind::number, work, "N", "100", "of the time it computes; in the rest the machine is yours",
       1, 100},
      {"nice", OptionKind::number, work, "N", "10", "to what else runs: 0 not at all, 19 takes what nobody wants", 0,
       19},
      {"hours", OptionKind::text, work, "SPANS", "",
       "when it takes part: 22:00-07:00, \"mon-fri 18:00-24:00; sat,sun\" [always]"},
      {"rest-on", OptionKind::text, work, "WHAT", "battery,metered",
       "while it shows: battery, metered (line), user, load (of others); or none"},
      {"microbatch", OptionKind::number, work, "SAMPLES", "", "computed at once; the recipe's, fewer where it takes over 2 s", 1, 65536},
      {"delay", OptionKind::text, work, "WHAT", "none", "step or gradients: compute on during an epoch's end"},
      {"offload", OptionKind::toggle, work, "", "", "parameters and moments of the step in main memory, apart"},
      {"mode", OptionKind::text, work, "MODE", "", "take part only in a run of this mode, such as synchronous"},
      {"checkpoint-every", OptionKind::number, work, "EPOCHS", "100", "0: only when leaving", 0, kMany},
      {"keep", OptionKind::number, work, "N", "5", "checkpoints kept, beside the best", 1, 1000},
      {"no-evaluate", OptionKind::toggle, work, "", "", "leave evaluation to others"},
      {"listen", OptionKind::text, net, "ADDR", "", "where others dial; [::]:4600, busy: the next ports"},
      {"wss-port", OptionKind::number, net, "PORT", "",
       "WebSockets too, 443 as a rule: for peers whose network opens only that", 1, 65535},
      {"client", OptionKind::toggle, net, "", "", "dial only, never listen"},
      {"proxy", OptionKind::text, net, "ADDR", "",
       "[USER:PASSWORD@]host:port, an HTTP proxy; off: none; else https_proxy"},
      {"interface", OptionKind::text, net, "NAME", "",
       "all connections by that one, eth0 say; else as the system chooses"},
      {"allow", OptionKind::text, net, "FILE", "", "enforce the list of a run that admits a list, one id a line"},
      {"lan", OptionKind::toggle, net, "", "on", "ask the local network for the run; --no-lan: never"},
      {"port-map", OptionKind::toggle, net, "", "on",
       "ask the router to let others in (NAT-PMP, UPnP); --no-port-map: never"},
      {"relay", OptionKind::text, net, "WHAT", "signal",
       "for peers that nobody can dial: off, signal (words only), bulk"},
      {"relay-rate", OptionKind::number, net, "MBIT/S", "20",
       "of relay bulk: for each circuit; for all ten times as much", 1, 1e5},
      {"limit-up", OptionKind::real, net, "MBIT/S", "",
       "of your line, all in all, relaying too; half a Mbit/s at least", 0.5, 1e5},
      {"limit-down", OptionKind::real, net, "MBIT/S", "", "the same of what comes", 0.5, 1e5},
      {"limit-day", OptionKind::real, net, "GB", "", "both ways; at the whole it leaves, and is back the next day",
       0.001, 1e9},
      {"limit-month", OptionKind::real, net, "GB", "", "the same of a calendar month", 0.001, 1e9},
      {"patience", OptionKind::number, net, "SECONDS", "300", "for finding the run, then exit 3", 1, 1e9},
      {"authority", OptionKind::text, keys, "FILE", "", "the run's key, for who may give tokens"},
      {"claims", OptionKind::list, keys, "CLAIM", "", "of a token: join contribute reduce directory relay; coordinate"},
      {"for", OptionKind::text, keys, "TIME", "24h", "how long a token holds, at most 7d: 30m, 24h"},
      {"reason", OptionKind::text, keys, "TEXT", "", "of a revocation"},
      {"log-level", OptionKind::text, output, "LEVEL", "warn", "debug, info, warn, error, off: on stderr"},
      {"log-file", OptionKind::text, output, "FILE", "", "JSON lines; HOME/logs/peer.jsonl"},
      {"json", OptionKind::toggle, output, "", "", "one JSON object per line on stdout"},
      {"quiet", OptionKind::toggle, output, "", "", "warnings and errors only"},
  };
  for (node::OptionRow& row : table) row.login = row.name == "proxy";
  return table;
}

cli::Synopsis peer_synopsis() {
  cli::Synopsis synopsis;
  synopsis.program = "collab-peer";
  synopsis.sentence = "trains a model together with others: joins a run, computes, averages, keeps the model.";
  synopsis.commands = {
      {"run", "join and train; the same command resumes"},
      {"status", "how the peer that runs here is doing"},
      {"leave", "ask the peer that runs here to leave as planned"},
      {"pause", "[TIME], 2h say: leave as planned, and come back then or at resume", 1},
      {"resume", "end the pause"},
      {"export", "newest checkpoint as a folder that transformers opens", 0, kExportTopic},
      {"eval", "loss of the newest checkpoint on held-out text"},
      {"keys", "create | show | token PEER | revoke SERIAL: this peer's id; the run's key", 2, kKeysTopic},
      {"doctor", "what keeps this machine from the run, and what to do about it"},
      {"config", "each option, its value, and who set it"}};
  synopsis.examples = {"collab-peer --run-id sahajbert",
                       "collab-peer --run-id sahajbert --bootstrap host:4600 --threads 4",
                       "collab-peer export --run-id sahajbert --to my-model"};
  synopsis.read_on = "README.md and doc/operating.md say more";
  synopsis.argument = "LINK";
  return synopsis;
}

std::string run_id_of(const node::Config& config) {
  return node::parse_run_name(config.text("run-id")).run_id;
}

std::filesystem::path home_of(const node::Config& config) {
  return config.has("home") ? std::filesystem::path(config.text("home")) : node::default_home(run_id_of(config));
}

}  // namespace collab::jobs
