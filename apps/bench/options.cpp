#include "options.hpp"

#include "tensor/codec.hpp"

namespace collab::bench {

using node::OptionKind;

node::OptionTable bench_options() {
  const char* what = "What is averaged";
  const char* carried = "What is carried (transport, relay)";
  const char* fetched = "What is fetched (state)";
  const char* training = "What is trained (overhead)";
  const char* hosting = "Who is hosted (coordinator)";
  const char* output = "Output";
  return {
      {"peers", OptionKind::number, what, "N", "",
       "processes, each a peer with its own loop [4; any-moment: up to 8; matchmaking, directory, moshpit 16; overhead "
       "2]",
       2, 64},
      {"floats", OptionKind::number, what, "N", "",
       "of the vector [18000000; any-moment 500000; codec 10000000], of each tensor [small-tensors 100; moshpit 60769]",
       1, 1e9},
      {"tensors", OptionKind::number, what, "N", "", "[small-tensors 500; moshpit 39]", 1, 100'000},
      {"group-size", OptionKind::number, what, "N", "4",
       "of moshpit: at most, where a grid of that many peers allows it", 2, 64},
      {"codec", OptionKind::text, what, "NAME", "float32", kCodecNames},
      {"rounds", OptionKind::number, what, "N", "",
       "that count, after one to warm up [7; kill, freeze, state 5; directory 50; any-moment, matchmaking 100]; of "
       "moshpit passes, none to warm up [5]",
       1, 10'000},
      {"shape", OptionKind::text, what, "TABLE", "",
       "Mbit/s up and down of the peers' lines, and ms of a round trip, as 20/100, 50/50/80 or 1x2/10,3x20/100; needs "
       "root [loopback; not in matchmaking, moshpit]"},
      {"split", OptionKind::text, what, "HOW", "best",
       "of the vector among owners on lines: best by their rates, or equal"},
      {"queue", OptionKind::number, what, "MS", "200", "that the routers of such lines hold back before they drop", 1,
       10'000},
      {"plaintext", OptionKind::toggle, what, "", "",
       "without encryption, which only this program can do: all-reduce, small-tensors, transport"},
      {"seed", OptionKind::number, what, "N", "1", "of values and keys: equal seeds, equal digests", 0, 9e15},
      {"for", OptionKind::number, carried, "SECONDS", "10", "that it is sent", 2, 86'400},
      {"quota", OptionKind::number, carried, "MBIT/S", "0", "that the relay lets through; 0: what it can", 0, 1e5},
      {"both-ways", OptionKind::toggle, carried, "", "", "each to the other"},
      {"frame", OptionKind::number, carried, "BYTES", "262144", "sent at once", 2, 4e6},
      {"joiners", OptionKind::number, fetched, "N", "1", "that fetch the state at once; the other peers hold it", 1,
       63},
      {"preset", OptionKind::text, training, "NAME", "demo", "demo, tiny, base or large"},
      {"data", OptionKind::text, training, "DIR", "", "text: .txt, .txt.zst, .jsonl; else what tools/setup unpacked"},
      {"target-batch", OptionKind::number, training, "SAMPLES", "512", "per optimizer step", 1, 1e9},
      {"steps", OptionKind::number, training, "N", "8", "in a slice", 1, 1e6},
      {"casts", OptionKind::number, training, "N", "5", "times all is done, each with new processes", 1, 100},
      {"slices", OptionKind::number, training, "N", "1",
       "of one peer that count, after one to warm up; of several thrice", 1, 10'000},
      {"threads", OptionKind::number, training, "N", "1", "for computing, of each process", 1, 1024},
      {"hosted", OptionKind::number, hosting, "N", "200", "peers beside the coordinator, all in one process", 1, 1000},
      {"seconds", OptionKind::number, hosting, "N", "60", "measured, when all have joined", 1, 86'400},
      {"epoch-seconds", OptionKind::number, hosting, "N", "60", "that peers take for an epoch", 1, 86'400},
      {"dashboards", OptionKind::number, hosting, "N", "1", "open in browsers", 0, 64},
      {"json", OptionKind::toggle, output, "", "", "one JSON line instead of a table"},
      {"plot", OptionKind::text, output, "FILE", "", "an SVG picture of all repetitions is written there too"},
      {"log-level", OptionKind::text, output, "LEVEL", "warn",
       "debug, info, warn, error, off: of the peers, on stderr"},
  };
}

cli::Synopsis bench_synopsis() {
  cli::Synopsis synopsis;
  synopsis.program = "collab-bench";
  synopsis.sentence =
      "measures what averaging and training together cost, with real processes that talk TLS on this machine";
  synopsis.commands = {{"all-reduce", "one large vector"},
                       {"small-tensors", "many small tensors, packed into one vector"},
                       {"kill", "a peer is killed in the middle of a round: what it costs the others"},
                       {"freeze", "a peer is stopped in the middle of a round, and goes on later"},
                       {"any-moment", "groups of 2 to 8 in which a peer is killed anywhere in a round: all or nothing"},
                       {"matchmaking", "how soon a group begins once all have declared"},
                       {"moshpit", "passes over a grid of small groups, matchmaking included"},
                       {"transport", "what one connection carries, and what small questions take beside it"},
                       {"relay", "the same of two who meet by a relay only, and what it costs there"},
                       {"state", "how soon joiners have the state of a run"},
                       {"directory", "how soon a record is stored, found, and seen by who watches"},
                       {"codec", "encoding and decoding with each codec on one core: speed, and what is lost"},
                       {"overhead", "training as peers, against bare loops: same gradients, same LAMB, no collab"},
                       {"coordinator", "hosting a run: the coordinator's processor time and memory"}};
  synopsis.examples = {"collab-bench all-reduce --peers 4 --floats 18000000 --codec float32 --rounds 7 --json",
                       "collab-bench all-reduce --peers 8 --floats 4500000 --codec float16 --shape 1x2/10,3x20/100",
                       "collab-bench small-tensors --peers 4 --tensors 500 --floats 100",
                       "collab-bench any-moment --rounds 100 --json",
                       "collab-bench transport --shape 100/100 --both-ways",
                       "collab-bench relay --shape 100/100/10 --for 20",
                       "collab-bench state --shape 100/100",
                       "collab-bench directory --plot directory.svg",
                       "collab-bench codec --json",
                       "collab-bench overhead --preset demo --json",
                       "collab-bench coordinator --hosted 200 --json"};
  synopsis.read_on =
      "apps/bench/all_reduce.hpp, faults.hpp, meeting.hpp, transport.hpp, state_speed.hpp, "
      "directory_speed.hpp, codec_speed.hpp, overhead.hpp and hosting.hpp say what each figure means, "
      "shaped_lines.hpp what lines are";
  return synopsis;
}

}  // namespace collab::bench
