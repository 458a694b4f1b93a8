#include "averaging/committed_round.hpp"

#include "base/frame.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::averaging {

CommittedRound::CommittedRound(std::shared_ptr<const Shape> shape, wire::Proof proof,
                               std::vector<SegmentResult> results)
    : shape_(std::move(shape)), proof_(std::move(proof)), results_(std::move(results)) {
  assert(results_.size() == proof_.manifest.size());
}

Result<std::shared_ptr<const CommittedRound>> CommittedRound::verify(const matchmaking::Group& group,
                                                                     const wire::Proof& proof,
                                                                     std::span<const Frame> averages,
                                                                     const CodecMap& codecs,
                                                                     const SignatureScheme& scheme) {
  if (group.roster.empty()) return Errc::bad_request;
  if (const auto fits = matchmaking::check(group, group.roster.front().id, codecs.length()); !fits) return fits.error();
  auto shape = Shape::of(group, codecs);
  if (!shape) return shape.error();
  const Members& members = (*shape)->members;
  if (const auto proven = check_proof(proof, members, verified_by(scheme, (*shape)->group)); !proven)
    return proven.error();

  std::vector<SegmentResult> results;
  for (const Rank segment : members.segments) results.emplace_back(**shape, segment);
  for (const Frame& frame : averages) {
    const auto message = frame::decode<wire::Header>(*frame);
    if (!message) return message.error();
    const auto* average = std::get_if<wire::Average>(&message->header);
    if (average == nullptr || average->group != group.id) return Errc::bad_request;
    const std::size_t index = members.index_of(average->segment);
    if (index >= results.size()) return Errc::bad_request;
    if (const auto added = results[index].add(*average, frame, message->payload); !added) return Errc::bad_request;
  }
  for (std::size_t index = 0; index < results.size(); ++index)
    if (!results[index].complete() || results[index].weight() == 0 || results[index].digest() != proof.manifest[index])
      return Errc::bad_request;
  return std::make_shared<const CommittedRound>(std::move(*shape), proof, std::move(results));
}

std::vector<Frame> CommittedRound::frames() const {
  std::vector<Frame> frames;
  for (const SegmentResult& result : results_)
    for (const auto& chunk : result.chunks()) frames.push_back(chunk.frame);
  return frames;
}

std::uint64_t CommittedRound::weight() const noexcept {
  std::uint64_t least = ~std::uint64_t(0);
  for (const SegmentResult& result : results_) least = std::min(least, result.weight());
  return least;
}

Ranks CommittedRound::holders() const noexcept {
  Ranks ranks = 0;
  for (const auto& hold : proof_.holds) ranks |= bit(hold.rank);
  return ranks;
}

RoundWork CommittedRound::work() const {
  std::vector<WorkOfSenders> named;
  for (const SegmentResult& result : results_) named.push_back(result.work());
  return attribute(shape_->members, named);
}

void CommittedRound::apply(std::span<float> values) const {
  for (const SegmentResult& result : results_) result.decode_into(values);
}

Digest manifest_digest(const wire::Manifest& manifest) {
  Hasher hasher("collab manifest");
  for (const Digest& digest : manifest) hasher.add(digest);
  return hasher.finish();
}

Seals signed_by(const Identity& identity, const matchmaking::Group& group) {
  Seals seals = verified_by(identity.scheme(), group);
  seals.sign = [&identity, &group](std::uint32_t view, const wire::Manifest& manifest) {
    return identity.sign(hold_bytes(group.id, view, manifest));
  };
  return seals;
}

Seals verified_by(const SignatureScheme& scheme, const matchmaking::Group& group) {
  Seals seals;
  seals.verify = [&scheme, &group](Rank rank, std::uint32_t view, const wire::Manifest& manifest,
                                   const Signature& signature) {
    return scheme.verify(group.roster[rank].id, hold_bytes(group.id, view, manifest), signature);
  };
  return seals;
}

}  // namespace collab::averaging
