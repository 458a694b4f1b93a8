#include "state/checkpoint.hpp"

#include "base/file.hpp"
#include "base/text.hpp"
#include "support/temp_folder.hpp"
#include "tensor/safetensors.hpp"

#include <array>
#include <csignal>
#include <numeric>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/doctest.hpp"

namespace {

/// Counts down at every call that makes something last; at zero this process is killed. Negative: never.
int steps_left = -1;

void step() {
  if (steps_left == 0) ::raise(SIGKILL);
  if (steps_left > 0) --steps_left;
}

}  // namespace

// in front of the system's own, for this program
extern "C" int fsync(int descriptor) {
  step();
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  step();
  return static_cast<int>(::syscall(SYS_rename, from, to));
}
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned int flags) noexcept {
  step();
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

namespace collab::state {
namespace {

/// A small run; `size` values of parameters.
struct Example {
  explicit Example(std::uint64_t at_epoch, std::int64_t size = 1000) : epoch(at_epoch) {
    schema.tensors.push_back({"a.weight", DType::float32, {size - 10, 1}, TensorRole::parameter});
    schema.tensors.push_back({"a.bias", DType::float32, {10}, TensorRole::parameter});
    parameters.resize(static_cast<std::size_t>(size));
    std::iota(parameters.begin(), parameters.end(), static_cast<float>(epoch));
    sections.push_back({"optimizer", Bytes(static_cast<std::size_t>(size) * 8, static_cast<std::byte>(epoch))});
    sections.push_back({"schedule", {}});
    sections.push_back({"ledger", {}});  // two empty ones beside each other keep their order
    files.push_back({"config.json", Bytes(30, std::byte('x'))});
    root[0] = static_cast<unsigned char>(epoch);
  }
  CheckpointContents contents() const { return {epoch, "bn", root, schema, parameters, sections, files}; }

  std::uint64_t epoch;
  Digest root{};
  Schema schema;
  std::vector<float> parameters;
  std::vector<Section> sections;
  std::vector<NamedFile> files;
};

void check_equal(const Checkpoint& got, const Example& saved) {
  CHECK(got.epoch == saved.epoch);
  CHECK(got.run == "bn");
  CHECK(got.root == saved.root);
  CHECK(first_difference(got.schema, saved.schema).empty());
  CHECK(got.parameters == saved.parameters);
  REQUIRE(got.sections.size() == saved.sections.size());
  for (std::size_t i = 0; i < got.sections.size(); ++i) {
    CHECK(got.sections[i].name == saved.sections[i].name);
    CHECK(got.sections[i].bytes == saved.sections[i].bytes);
  }
}

/// Changes one byte, counted from the end when negative; or cuts the file there.
void damage(const std::filesystem::path& file, double where, bool cut) {
  Bytes bytes = read_file(file, 1U << 30U);
  const auto at = static_cast<std::size_t>(where * static_cast<double>(bytes.size() - 1));
  if (cut) {
    bytes.resize(at);
  } else {
    bytes[at] ^= std::byte(4);
  }
  write_file(file, bytes);
}

}  // namespace

TEST_CASE("checkpoint: what was saved is loaded again, and others can read the model") {
  const test::TempFolder temp;
  Log log;
  Checkpoints checkpoints(temp.path() / "checkpoints", log);
  const Example example(123);
  const auto folder = checkpoints.save(example.contents());
  CHECK(folder == temp.path() / "checkpoints/epoch-000123");
  const auto loaded = checkpoints.load_newest("bn");
  REQUIRE(loaded.has_value());
  check_equal(*loaded, example);
  const Bytes model = read_file(folder / "model.safetensors", 1U << 20U);
  const auto file = safetensors::read(model);
  REQUIRE(file.has_value());
  CHECK(file->metadata().at("format") == "pt");
  CHECK(file->metadata().at("epoch") == "123");
  CHECK(file->metadata().at("run") == "bn");
  CHECK(file->metadata().at("root") == to_hex(example.root));
  CHECK(file->find("a.bias")->shape == std::vector<std::int64_t>{10});
  CHECK(read_file(folder / "config.json", 100) == example.files[0].bytes);
  CHECK_FALSE(checkpoints.load_newest("other run"));
}

TEST_CASE("checkpoint: the last five stay, and the best") {
  const test::TempFolder temp;
  Log log;
  Checkpoints checkpoints(temp.path(), log);
  for (std::uint64_t epoch = 1; epoch <= 9; ++epoch) {
    checkpoints.save(Example(epoch).contents());
    if (epoch == 2) CHECK(checkpoints.mark_best(2, 1.5));
    if (epoch == 3) CHECK_FALSE(checkpoints.mark_best(3, 1.6));
  }
  CHECK(checkpoints.epochs() == std::vector<std::uint64_t>{2, 5, 6, 7, 8, 9});
  CHECK_FALSE(checkpoints.mark_best(4, 0.1));  // there is none of that epoch
  CHECK(checkpoints.mark_best(8, 1.2));
  checkpoints.save(Example(10).contents());
  CHECK(checkpoints.epochs() == std::vector<std::uint64_t>{6, 7, 8, 9, 10});
  CHECK(Checkpoints(temp.path(), log).best() == 8);
}

TEST_CASE("checkpoint: one of the same epoch is replaced") {
  const test::TempFolder temp;
  Log log;
  Checkpoints checkpoints(temp.path(), log);
  Example example(5);
  checkpoints.save(example.contents());
  example.parameters[3] = -1;
  checkpoints.save(example.contents());
  check_equal(checkpoints.load_newest("bn").value(), example);
  CHECK(checkpoints.epochs().size() == 1);
}

TEST_CASE("checkpoint: a damaged one is reported, left aside, and the one before it loaded") {
  for (const std::string file : {"model.safetensors", "resume.safetensors", "config.json"}) {
    for (const double where : {0.0, 0.02, 0.3, 0.7, 1.0}) {
      for (const bool cut : {false, true}) {
        CAPTURE(file);
        CAPTURE(where);
        CAPTURE(cut);
        const test::TempFolder temp;
        Log log;
        std::vector<std::string> events;
        log.observe([&](LogLevel, std::string_view event, Log::Fields) { events.emplace_back(event); });
        Checkpoints checkpoints(temp.path(), log);
        const Example older(7);
        checkpoints.save(older.contents());
        damage(checkpoints.save(Example(8).contents()) / file, where, cut);
        const auto loaded = checkpoints.load_newest("bn");
        REQUIRE(loaded.has_value());
        check_equal(*loaded, older);
        CHECK(events.back() == "state.checkpoint_damaged");
        CHECK(std::filesystem::exists(temp.path() / "epoch-000008.damaged" / file));
        CHECK(checkpoints.epochs() == std::vector<std::uint64_t>{7});
      }
    }
  }
}

TEST_CASE("checkpoint: a disk that is full at any byte fails the save and nothing else") {
  const test::TempFolder temp;
  Log log;
  Checkpoints checkpoints(temp.path(), log);
  const Example older(7);
  checkpoints.save(older.contents());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  for (const rlim_t limit : {rlim_t(0), rlim_t(20), rlim_t(300), rlim_t(4100), rlim_t(5000), rlim_t(8100)}) {
    CAPTURE(limit);
    rlimit full = before;
    full.rlim_cur = limit;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
    ExitCode code = ExitCode::done;
    try {
      checkpoints.save(Example(8).contents());
    } catch (const Failure& failure) {
      code = failure.code();
    }
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(code == ExitCode::machine);
    CHECK(std::distance(std::filesystem::directory_iterator(temp.path()), {}) == 1);
  }
  check_equal(checkpoints.load_newest("bn").value(), older);
}

TEST_CASE("checkpoint: after kill -9 at any step of saving the newest whole one loads") {
  const test::TempFolder temp;
  Log log;
  Checkpoints checkpoints(temp.path(), log, 1);  // so that a save also removes
  checkpoints.save(Example(1).contents());
  std::uint64_t newest = 1;
  int steps = 0;
  for (bool finished = false; !finished; ++steps) {
    REQUIRE(steps < 200);
    const Example next(newest + 1);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      steps_left = steps;
      checkpoints.save(next.contents());
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    finished = WIFEXITED(status);
    const auto loaded = checkpoints.load_newest("bn");
    REQUIRE(loaded.has_value());
    CHECK((loaded->epoch == newest || loaded->epoch == newest + 1));
    check_equal(*loaded, Example(loaded->epoch));
    newest = loaded->epoch;
  }
  CHECK(steps > 10);
  CHECK(checkpoints.epochs() == std::vector<std::uint64_t>{newest});
  CHECK(std::distance(std::filesystem::directory_iterator(temp.path()), {}) ==
        1);  // nothing damaged, nothing left over
}

}  // namespace collab::state
