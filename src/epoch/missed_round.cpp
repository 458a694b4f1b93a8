#include "epoch/missed_round.hpp"

#include "averaging/wire.hpp"
#include "base/frame.hpp"
#include "crypto/fields.hpp"
#include "matchmaking/wire.hpp"

#include <utility>
#include <variant>
#include <vector>

namespace collab::epoch {

Bytes encode(const averaging::CommittedRound& round) {
  averaging::wire::Commit commit;
  commit.group = round.group().id;
  commit.proof = round.proof();
  const Frame begin = frame::encode(matchmaking::wire::Header(matchmaking::wire::to_wire(round.group())));
  const Frame proof = frame::encode(averaging::wire::Header(std::move(commit)));
  const std::vector<Frame> averages = round.frames();
  FieldWriter writer;
  writer.add_blob(*begin).add_blob(*proof).add(static_cast<std::uint32_t>(averages.size()));
  for (const Frame& average : averages) writer.add_blob(*average);
  return writer.finish();
}

state::KeptResult kept(std::shared_ptr<const averaging::CommittedRound> round) {
  state::KeptResult result;
  for (const Frame& average : round->frames()) result.size += average->size();
  result.encode = [round = std::move(round)] { return encode(*round); };
  return result;
}

Result<std::shared_ptr<const averaging::CommittedRound>> decode_round(std::span<const std::byte> bytes,
                                                                      std::uint64_t epoch, const Digest& schema,
                                                                      const CodecMap& codecs,
                                                                      const SignatureScheme& scheme) {
  FieldReader reader(bytes);
  const auto begin = frame::decode<matchmaking::wire::Header>(reader.take_blob());
  const auto proof = frame::decode<averaging::wire::Header>(reader.take_blob());
  const auto count = reader.take<std::uint32_t>();
  // every chunk has a unit of its own, the last of a segment perhaps a short one
  if (count > codecs.length() / kUnitValues + matchmaking::kGroupSizeMax) return Errc::bad_request;
  if (!begin || !proof) return Errc::bad_request;
  const auto* body = std::get_if<matchmaking::wire::Begin>(&begin->header);
  const auto* commit = std::get_if<averaging::wire::Commit>(&proof->header);
  if (body == nullptr || commit == nullptr) return Errc::bad_request;
  const auto group = matchmaking::wire::from_wire(*body);
  if (!group) return group.error();
  if (group->epoch != epoch || group->schema != schema || group->id != commit->group) return Errc::bad_request;
  std::vector<Frame> averages;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto average = reader.take_blob();
    averages.push_back(std::make_shared<const Buffer>(average));
  }
  if (!reader.finish()) return Errc::bad_request;
  return averaging::CommittedRound::verify(*group, commit->proof, averages, codecs, scheme);
}

}  // namespace collab::epoch
