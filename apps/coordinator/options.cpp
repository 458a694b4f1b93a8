#include "options.hpp"

#include "tensor/codec.hpp"

namespace collab::coordinator {

using node::OptionKind;

namespace {

constexpr const char* kKeysTopic = "Keys, tokens, bans";

}  // namespace

node::OptionTable coordinator_options() {
  constexpr double kMany = 1e15;
  const char* run = "Run";
  const char* founding = "Founding a run (--new-run)";
  const char* keys = kKeysTopic;
  const char* net = "Network";
  const char* output = "Output";
  node::OptionTable table = {
      {"run-id", OptionKind::text, run, "NAME", "", "which run: a-z 0-9 . _ - , at most 64"},
      {"home", OptionKind::text, run, "DIR", "", "keys, text, checkpoints; ~/.local/share/collab/coordinator/NAME"},
      {"name", OptionKind::text, run, "TEXT", "coordinator", "shown to others"},
      {"bootstrap", OptionKind::list, run, "ADDR", "", "other members, when this is not the first coordinator"},
      {"checkpoint-every", OptionKind::number, run, "EPOCHS", "50", "0: keep none", 0, kMany},
      {"keep", OptionKind::number, run, "N", "5", "checkpoints kept", 1, 1000},
      {"new-run", OptionKind::toggle, founding, "", "", "found the run, unless this home holds it already"},
      {"job", OptionKind::text, founding, "NAME", "albert",
       "what is trained; a name of your own: a loop or job of yours"},
      {"preset", OptionKind::text, founding, "NAME", "tiny", "of albert: demo, tiny, base or large"},
      {"data", OptionKind::text, founding, "PATH", "",
       "folder of text: .txt, .txt.zst, .jsonl; else what tools/setup unpacked. Of your job: a file that peers get"},
      {"settings", OptionKind::text, founding, "FILE", "", "of your job: a JSON object for it to read"},
      {"target-batch", OptionKind::number, founding, "SAMPLES", "", "per optimizer step; the preset's", 1, 1e9},
      {"epochs", OptionKind::number, founding, "N", "", "length of the run; the preset's", 1, kMany},
      {"seed", OptionKind::number, founding, "N", "", "of first parameters, order and masks", 0, 9e15},
      {"codec", OptionKind::text, founding, "NAME", "float16", kCodecChoices},
      {"group-size-max", OptionKind::number, founding, "N", "64", "peers that average together", 2, 64},
      {"grid", OptionKind::text, founding, "AxB[xC]", "auto", "of groups, once peers fill it; auto: follows them"},
      {"mode", OptionKind::text, founding, "MODE", "synchronous",
       "local or diloco[,inner_steps=100,fragments=4]: steps of one's own"},
      {"commit-fraction", OptionKind::real, founding, "X", "0.5", "of the target batch; a round with less fails", 0.01,
       1},
      {"admission", OptionKind::text, founding, "MODE", "", "open, list or token; must be given, but on loopback"},
      {"allow", OptionKind::text, founding, "FILE", "", "peer ids that may join, one a line; for admission list"},
      {"authority", OptionKind::text, run, "FILE", "", "the run's key; HOME/authority.key"},
      {"token", OptionKind::text, run, "FILE", "", "what this node shows; HOME/token, made when the run's key is here"},
      {"claims", OptionKind::list, keys, "CLAIM", "", "of a token: join contribute reduce directory relay; coordinate"},
      {"for", OptionKind::text, keys, "TIME", "24h", "how long a token (at most 7d) or a ban holds: 30m, 24h, 7d"},
      {"reason", OptionKind::text, keys, "TEXT", "", "of a ban or revocation, for who is hit by it"},
      {"lift", OptionKind::toggle, keys, "", "", "ban: end it now"},
      {"listen", OptionKind::text, net, "ADDR", "[::]:4600", "where peers dial"},
      {"announce", OptionKind::list, net, "ADDR", "",
       "where peers reach it from outside, host:port; kept in the manifest"},
      {"wss-port", OptionKind::number, net, "PORT", "",
       "WebSockets too, 443 as a rule: for peers whose network opens only that", 1, 65535},
      {"proxy", OptionKind::text, net, "ADDR", "",
       "[USER:PASSWORD@]host:port, an HTTP proxy; off: none; else https_proxy"},
      {"interface", OptionKind::text, net, "NAME", "",
       "all connections by that one, eth0 say; else as the system chooses"},
      {"lan", OptionKind::toggle, net, "", "on", "answer peers that look for the run on the local network"},
      {"port-map", OptionKind::toggle, net, "", "on",
       "without --announce, ask the router to let others in (NAT-PMP, UPnP); --no-port-map: never"},
      {"relay", OptionKind::text, net, "WHAT", "bulk",
       "for peers that nobody can dial: off, signal (words only), bulk"},
      {"relay-rate", OptionKind::number, net, "MBIT/S", "20",
       "of relay bulk: for each circuit; for all ten times as much", 1, 1e5},
      {"limit-up", OptionKind::real, net, "MBIT/S", "",
       "of your line, all in all, a fifth of it for relaying; half a Mbit/s at least", 0.5, 1e5},
      {"limit-down", OptionKind::real, net, "MBIT/S", "", "the same of what comes", 0.5, 1e5},
      {"average", OptionKind::toggle, net, "", "on",
       "for peers, while none of them can be dialled; --no-average: never"},
      {"dashboard", OptionKind::text, net, "ADDR", "127.0.0.1:4680", "HTTP: /metrics, /api/v1/state; off: none"},
      {"log-level", OptionKind::text, output, "LEVEL", "warn", "debug, info, warn, error, off: on stderr"},
      {"log-file", OptionKind::text, output, "FILE", "", "JSON lines; HOME/logs/coordinator.jsonl"},
      {"json", OptionKind::toggle, output, "", "", "one JSON object per line on stdout"},
      {"quiet", OptionKind::toggle, output, "", "", "warnings and errors only"},
  };
  for (node::OptionRow& row : table) row.login = row.name == "proxy";
  return table;
}

cli::Synopsis coordinator_synopsis() {
  cli::Synopsis synopsis;
  synopsis.program = "collab-coordinator";
  synopsis.sentence =
      "founds and hosts a run: directory, manifest, files, checkpoints, state over HTTP. Trains nothing.";
  synopsis.commands = {{"run", "host the run until Ctrl+C; peers go on without it"},
                       {"manifest", "what this home's run is, as signed"},
                       {"keys", "create | show | token PEER | revoke SERIAL: who may take part", 2, kKeysTopic},
                       {"ban", "PEER --reason TEXT: close its connections, and admit it no more", 1, kKeysTopic},
                       {"status", "how the coordinator that runs here is doing"},
                       {"config", "each option, its value, and who set it"}};
  synopsis.examples = {"collab-coordinator --new-run --run-id my-run --preset tiny --data my-text --admission open",
                       "collab-coordinator keys token PEER --run-id my-run --for 7d"};
  synopsis.read_on = "doc/operating.md says more";
  return synopsis;
}

}  // namespace collab::coordinator
