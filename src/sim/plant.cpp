#include "sim/plant.hpp"

#include <array>
#include <utility>

namespace collab::sim {
namespace {

constexpr std::array<std::pair<Plant, std::string_view>, 7> kNames = {{{Plant::none, "none"},
                                                                       {Plant::no_quorum, "no_quorum"},
                                                                       {Plant::arrival_order, "arrival_order"},
                                                                       {Plant::keep_partial, "keep_partial"},
                                                                       {Plant::sum_twice, "sum_twice"},
                                                                       {Plant::skip_ledger, "skip_ledger"},
                                                                       {Plant::begin_early, "begin_early"}}};

}  // namespace

std::string_view name(Plant plant) noexcept {
  return kNames[static_cast<std::size_t>(plant)].second;
}

std::optional<Plant> plant_named(std::string_view name) noexcept {
  for (const auto& [plant, known] : kNames) {
    if (known == name) return plant;
  }
  return std::nullopt;
}

void ArrivalOrder::reduce(std::span<const averaging::WeightedPart> parts, std::span<float> out) const {
  const std::size_t first = calls_++ % parts.size();
  for (std::size_t i = 0; i < out.size(); ++i) {
    float sum = 0;
    float weight = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const auto& part = parts[(first + k) % parts.size()];
      sum += static_cast<float>(part.weight) * part.values[i];
      weight += static_cast<float>(part.weight);
    }
    out[i] = sum / weight;
  }
}

}  // namespace collab::sim
