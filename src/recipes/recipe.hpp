#pragma once
// The job part of a manifest: everything that decides what is computed, known without torch.

#include <boost/system/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace collab::recipes {

/// ALBERT's sizes (arXiv:1909.11942): one layer's parameters, used `layers` times.
struct ModelSizes {
  std::uint32_t vocabulary = 4000;  ///< of the tokenizer as trained, which small texts leave below the nominal size
  std::uint32_t embedding = 128;
  std::uint32_t hidden = 128;  ///< a multiple of `heads`
  std::uint32_t layers = 2;
  std::uint32_t heads = 4;
  std::uint32_t intermediate = 512;
  std::uint32_t positions = 64;
  double init = 0.04;  ///< standard deviation of the first weights
  bool operator==(const ModelSizes&) const = default;
};

/// LAMB (arXiv:1904.00962) with a bound on the norm of a tensor, and on that of the averaged gradient.
struct LambSettings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  double clamp = 1e4;
  double grad_norm_max = 1.0;
  bool operator==(const LambSettings&) const = default;
};

/// Learning rate by epoch: linear up to `learning_rate`, then linear down to 0.
struct Schedule {
  double learning_rate = 7e-3;
  std::uint64_t warmup_epochs = 10;  ///< epoch `warmup_epochs - 1` is the first with the full rate
  std::uint64_t total_epochs = 600;  ///< from here on the rate is 0: the run is over
  /// Only sums, products and quotients of doubles, so every machine gets the same bits.
  double at(std::uint64_t epoch) const noexcept;
  bool operator==(const Schedule&) const = default;
};

struct DataSettings {
  std::uint32_t sequence = 64;         ///< tokens of a sample, specials included
  std::uint32_t held_out_one_in = 10;  ///< documents whose hash modulo this is 0 are never trained on
  std::uint64_t evaluate_every = 10;   ///< epochs between two evaluations on the held-out text
  bool operator==(const DataSettings&) const = default;
};

inline constexpr std::string_view kAlbert = "albert";

/// Of another job than ALBERT `model`, `optimizer` and most of `schedule` and `data` mean nothing and are not written:
/// it has `schedule.total_epochs`, `data.evaluate_every`, the last three, and `settings`.
struct Recipe {
  std::string job = std::string(kAlbert);  ///< the registry's name of what computes the gradients
  ModelSizes model;
  LambSettings optimizer;
  Schedule schedule;
  DataSettings data;
  std::uint64_t target_batch = 128;  ///< samples that make an epoch, of all peers together
  std::uint32_t microbatch = 16;     ///< samples computed at once: memory of a peer
  std::uint64_t seed = 1;  ///< of first parameters, order, masks; below 2^53, so that any JSON reader keeps it
  /// All other fields, as a JSON object for the job to read; as `to_json` writes them. Empty for ALBERT.
  std::string settings = {};
  bool operator==(const Recipe&) const = default;
};

/// Why a recipe is refused: one sentence for a person that names the field, "model.heads is 700; allowed: 1 to 128".
struct Refusal {
  std::string why;
};
template <class T>
using Checked = boost::system::result<T, Refusal>;

inline constexpr std::size_t kRecipeTextMax = 64 * 1024;         ///< bytes
inline constexpr std::uint64_t kParameterValuesMax = 1U << 30U;  ///< 4 GiB as float32
inline constexpr std::uint64_t kMicrobatchTokensMax = 1U << 16U;

/// float32 values that computing one microbatch keeps for the way back, without the output layer: an estimate.
std::uint64_t activation_values(const Recipe&) noexcept;

/// The recipe itself when every field is in its range and the fields fit together. The ranges are tight enough that a
/// recipe from a stranger cannot ask for absurd memory: `kParameterValuesMax`, `kMicrobatchTokensMax` and at most
/// 2^33 values of activations.
Checked<Recipe> check(Recipe recipe);

/// The fields in a fixed order, so equal recipes give equal text.
std::string to_json(const Recipe&);

/// Strict: a key that is missing or there twice, a wrong type and a value that `check` refuses are errors, and so is a
/// key that is unknown, unless the job is one that is not known here: then it goes to `settings`.
Checked<Recipe> from_json(std::string_view text);

}  // namespace collab::recipes
