#include "state/shelf.hpp"

#include "base/file.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <utility>

namespace collab::state {
namespace {

void remove_other_parts(const std::filesystem::path& folder, const std::filesystem::path& file) {
  std::error_code ignored;  // a left-over that cannot be removed is no reason to fail
  std::vector<std::filesystem::path> others;
  for (std::filesystem::directory_iterator at(folder, ignored), end; at != end; at.increment(ignored)) {
    if (at->path().extension() == ".part" && at->path() != file) others.push_back(at->path());
  }
  for (const auto& other : others) std::filesystem::remove(other, ignored);
}

}  // namespace

std::vector<bool> Shelf::open(const Index& index) {
  snapshot_->epoch = index.epoch;
  std::uint64_t offset = 0;
  for (const SectionIndex& section : index.sections) {
    section_offset_.push_back(offset);
    offset += section.bytes;
    Bytes bytes(options_.memory ? static_cast<std::size_t>(section.bytes) : 0);
    snapshot_->sections.push_back({section.name, std::move(bytes)});
    const Section* have = options_.have ? options_.have->find(section.name) : nullptr;
    have_.push_back(have != nullptr && have->bytes.size() == section.bytes ? have : nullptr);
  }
  bool resumed = false;
  if (!options_.folder.empty()) {
    file_ = options_.folder / (to_hex(index.root()) + ".part");
    remove_other_parts(options_.folder, file_);
    std::error_code absent;
    resumed = std::filesystem::exists(file_, absent);
    part_.emplace(file_, offset);
  }
  if (!resumed && !options_.have) return std::vector<bool>(index.chunks());
  std::vector<bool> here;
  Bytes buffer;
  for (std::size_t chunk = 0; chunk < index.chunks(); ++chunk) here.push_back(recall(index.place(chunk), buffer));
  return here;
}

/// Whether the chunk could be put without fetching it.
bool Shelf::recall(const ChunkPlace& place, Bytes& buffer) {
  if (const Section* have = have_[place.section]) {
    const auto bytes = std::span<const std::byte>(have->bytes).subspan(place.offset, place.bytes);
    if (put(place, bytes)) return true;
  }
  if (!part_) return false;
  buffer.resize(place.bytes);
  part_->read(section_offset_[place.section] + place.offset, buffer);
  if (chunk_hash(buffer) != place.hash) return false;
  keep_in_memory(place, buffer);
  return true;
}

bool Shelf::put(const ChunkPlace& place, std::span<const std::byte> bytes) {
  if (bytes.size() != place.bytes || chunk_hash(bytes) != place.hash) return false;
  if (part_) part_->write(section_offset_[place.section] + place.offset, bytes);
  keep_in_memory(place, bytes);
  return true;
}

void Shelf::keep_in_memory(const ChunkPlace& place, std::span<const std::byte> bytes) {
  if (!options_.memory) return;
  const auto at = static_cast<std::ptrdiff_t>(place.offset);
  std::copy(bytes.begin(), bytes.end(), snapshot_->sections[place.section].bytes.begin() + at);
}

Snapshot Shelf::take() {
  remove_file();
  return std::move(*snapshot_);
}

std::shared_ptr<const Snapshot> Shelf::take_shared() {
  remove_file();
  return snapshot_;
}

Offer Shelf::offer(const Index& index, std::vector<bool> here) const {
  Offer offer;
  offer.index = index;
  offer.root = index.root();
  for (const Section& section : snapshot_->sections) offer.sections.emplace_back(section.bytes);
  offer.owner = snapshot_;
  offer.here = std::move(here);
  return offer;
}

void Shelf::name_file(const std::filesystem::path& target) {
  part_->finish(target);
  part_.reset();
}

void Shelf::remove_file() {
  if (part_) part_->remove();
  part_.reset();
}

}  // namespace collab::state
