#include "epoch/missed_round.hpp"

#include "averaging/wire.hpp"
#include "base/frame.hpp"
#include "crypto/fields.hpp"
#include "matchmaking/wire.hpp"

#include <utility>
#include <variant>
#include <vector>

namespace collab::epoch {
namespace {

constexpr Duration kResultTime = std::chrono::minutes(10);          // for fetching one missed round, on a slow line
constexpr Duration kResultGrace = std::chrono::milliseconds(100);   // signatures say what it is worth, not who shows it
constexpr Duration kRefusedGrace = std::chrono::milliseconds(500);  // "no such round yet" is what most say in time
constexpr std::uint64_t kResultBytesPerValue = 8;                   // float32 has 4, and frames have heads
constexpr std::uint64_t kResultBytesMin = 1U << 20U;

}  // namespace

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

Task<boost::system::result<FetchedRound, Refusal>> fetch_round(state::Context context, WantedRound wanted,
                                                               std::vector<PeerId> donors) {
  const auto verified = std::make_shared<std::shared_ptr<const averaging::CommittedRound>>();
  state::WantedResult result;
  result.epoch = wanted.epoch;
  result.first_group = wanted.first_group;
  result.wait = wanted.wait;
  result.deadline = context.clock.now() + kResultTime;
  result.bytes_max = kResultBytesPerValue * wanted.codecs.length() + kResultBytesMin;
  result.check = [verified, epoch = wanted.epoch, is_it = wanted.is_it, schema = wanted.schema, codecs = wanted.codecs,
                  &scheme = wanted.scheme](const auto bytes) {
    auto round = decode_round(bytes, epoch, schema, codecs, scheme);
    const bool good = round && (!is_it || is_it((*round)->group()));
    if (good) *verified = std::move(*round);
    return good;
  };
  state::FetchOptions options;
  options.grace = kResultGrace;
  options.refused_grace = kRefusedGrace;
  if (wanted.first_group) {  // any one of its members may be the only one that has it, and not soon
    options.donors_max = donors.size();
    options.refused_grace = wanted.wait + kRefusedGrace;
  }
  auto fetched = co_await state::download_result(context, std::move(result), std::move(donors), options);
  if (!fetched) co_return fetched.error();
  co_return FetchedRound{std::move(*verified), std::move(fetched->silent)};
}

}  // namespace collab::epoch
