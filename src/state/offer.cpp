#include "state/offer.hpp"

#include "base/error.hpp"
#include "state/mapped_file.hpp"

#include <fmt/format.h>

#include <utility>

namespace collab::state {
namespace {

std::shared_ptr<const Offer> one_section(std::uint64_t epoch, const char* name, std::span<const std::byte> bytes,
                                         std::shared_ptr<const void> owner) {
  auto offer = std::make_shared<Offer>();
  offer->index.epoch = epoch;
  offer->index.sections.push_back(index_section(name, bytes));
  offer->root = offer->index.root();
  offer->sections.push_back(bytes);
  offer->owner = std::move(owner);
  return offer;
}

}  // namespace

std::shared_ptr<const Offer> offer_snapshot(std::shared_ptr<const Snapshot> snapshot) {
  auto offer = std::make_shared<Offer>();
  offer->index = index_snapshot(*snapshot);
  offer->root = offer->index.root();
  for (const Section& section : snapshot->sections) offer->sections.emplace_back(section.bytes);
  offer->owner = std::move(snapshot);
  return offer;
}

std::shared_ptr<const Offer> offer_result(std::uint64_t epoch, Bytes result) {
  auto owner = std::make_shared<const Bytes>(std::move(result));
  const std::span<const std::byte> bytes(*owner);
  return one_section(epoch, "result", bytes, std::move(owner));
}

std::shared_ptr<const Offer> offer_file(const std::filesystem::path& file) {
  auto mapped = std::make_shared<const MappedFile>(file);
  const auto bytes = mapped->bytes();
  if (bytes.size() > kIndexedBytesMax) {
    throw Failure(ExitCode::usage,
                  fmt::format("{} has {:.1f} GiB: peers can be given files of {} GiB", file.string(),
                              static_cast<double>(bytes.size()) / (1U << 30U), kIndexedBytesMax >> 30U),
                  "less text for the run, or peers that bring their own (--data)");
  }
  return one_section(0, "file", bytes, std::move(mapped));
}

}  // namespace collab::state
