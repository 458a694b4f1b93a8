#pragma once
// What a run leaves on disk: a model for people, and everything needed to go on.
//
//   checkpoints/epoch-000123/model.safetensors   float32, names of the exported model; __metadata__: format, epoch,
//   run, root
//                            resume.safetensors  the other sections of the state as bytes; hashes of all that is here
//                            config.json, …      files given by the owner
//   checkpoints/best                             "epoch 120\nloss 1.2345\n"
//
// A folder appears by rename when every file in it is on disk: a crash at any moment leaves the older ones and perhaps
// a left-over ".new-…" that the next save removes.

#include "base/log.hpp"
#include "state/snapshot.hpp"
#include "tensor/schema.hpp"

#include <boost/system/result.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace collab::state {

/// For people and other programs: config.json, spiece.model, tokenizer_config.json. `name`: a file name, no path.
struct NamedFile {
  std::string name;
  Bytes bytes;
};

/// What is saved; everything is borrowed while `save` runs.
struct CheckpointContents {
  std::uint64_t epoch = 0;  ///< the parameters are those at its begin
  std::string_view run;
  Digest root{};  ///< of the state, as joiners know it
  const Schema& schema;
  std::span<const float> parameters;  ///< `schema.values()` of them
  std::span<const Section> sections;  ///< optimizer, schedule, random states, …; without "parameters"
  std::span<const NamedFile> files;
};

/// What was read back, checked against the hashes in it.
struct Checkpoint {
  std::filesystem::path folder;
  std::uint64_t epoch = 0;
  std::string run;
  Digest root{};
  Schema schema;  ///< names and shapes, in the order of the flat vector; roles are `parameter`
  std::vector<float> parameters;
  std::vector<Section> sections;  ///< in the order in which they were saved
};

/// Why a folder is no checkpoint, in words for a person: "model.safetensors: has changed since it was saved".
struct Damage {
  std::string what;
};

/// Any bytes may be in the folder's files.
boost::system::result<Checkpoint, Damage> read_checkpoint(const std::filesystem::path& folder);

/// The checkpoints of one run. Used from one thread at a time; saving takes as long as the disk, so not on the loop.
class Checkpoints {
 public:
  /// `folder`: this run's alone; made by the first save. `keep`: newest ones that stay, at least 1; the best stays too.
  Checkpoints(std::filesystem::path folder, Log& log, std::size_t keep = 5);

  /// Saves, then removes what is too old. A checkpoint of the same epoch is replaced. Returns its folder.
  /// Throws `Failure(machine)` when the disk is full or refuses; older checkpoints are untouched then.
  std::filesystem::path save(const CheckpointContents& contents);

  /// `loss`: of held-out text. Remembers it when it is the lowest so far and there is a checkpoint of that epoch; true
  /// then. Throws `Failure(machine)`.
  bool mark_best(std::uint64_t epoch, double loss);
  std::optional<std::uint64_t> best() const;

  /// The newest that is whole and of `run`; none when there is none. A damaged one is reported
  /// ("state.checkpoint_damaged"), renamed to "epoch-000123.damaged" and left for its owner.
  std::optional<Checkpoint> load_newest(std::string_view run);

  std::vector<std::uint64_t> epochs() const;  ///< rising
  std::filesystem::path folder_of(std::uint64_t epoch) const;

 private:
  struct Best {
    std::uint64_t epoch = 0;
    double loss = 0;
  };
  std::optional<Best> read_best() const;
  void put_in_place(const std::filesystem::path& made, const std::filesystem::path& place) const;
  void remove_old();
  void remove_left_overs();

  std::filesystem::path folder_;
  Log& log_;
  std::size_t keep_;
};

}  // namespace collab::state
