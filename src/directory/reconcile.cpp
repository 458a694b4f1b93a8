#include "directory/reconcile.hpp"

#include "base/frame.hpp"
#include "directory/server.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace collab::directory {
namespace {

net::Answer answer_compare(const Storage& storage, const wire::Compare& compare) {
  if (compare.buckets.size() != kBuckets || compare.first >= kBuckets) return Refusal(Errc::bad_request, "buckets");
  wire::Differing differing;
  std::vector<Version> versions;
  std::size_t bucket = compare.first;
  SlotId after = compare.after;
  for (; bucket < kBuckets; ++bucket, after = {}) {
    if (storage.bucket_hashes()[bucket] == compare.buckets[bucket]) continue;
    const std::size_t room = wire::kVersionsMax - versions.size();
    if (room == 0) break;
    const auto here = storage.versions(bucket, after, room);
    differing.buckets |= std::uint64_t(1) << bucket;
    versions.insert(versions.end(), here.begin(), here.end());
    if (here.size() < room) continue;
    differing.after = here.back().slot;  // there may be more: whoever makes records chooses their buckets
    break;
  }
  differing.next = static_cast<std::uint32_t>(bucket);
  differing.versions = static_cast<std::uint32_t>(versions.size());
  return frame::encode(wire::Header(differing), wire::pack_versions(versions));
}

net::Answer answer_fetch(const Storage& storage, const wire::Fetch& fetch, std::span<const std::byte> payload) {
  if (fetch.slots == 0 || fetch.slots > wire::kFetchMax) return Refusal(Errc::bad_request, "slots");
  const auto slots = wire::unpack_slots(payload, fetch.slots);
  if (!slots) return Refusal(Errc::bad_request, "slots");
  std::vector<const SignedRecord*> records;
  for (const SlotId& slot : *slots) {
    if (const SignedRecord* record = storage.find(slot)) records.push_back(record);
  }
  wire::Fetched fetched;
  fetched.records = static_cast<std::uint32_t>(records.size());
  return frame::encode(wire::Header(fetched), wire::pack_records(records));
}

/// What each side lacks of the buckets that differ, as far as the answer tells.
struct Missing {
  std::vector<SlotId> here;
  std::vector<SlotId> there;
};

Missing missing(const Storage& storage, const wire::Compare& asked, const wire::Differing& differing,
                const std::vector<Version>& theirs) {
  Missing missing;
  std::map<SlotId, Version> there;
  for (const Version& version : theirs) there.emplace(version.slot, version);
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    if ((differing.buckets >> bucket & 1U) == 0) continue;
    const bool cut = bucket == differing.next && differing.after != SlotId();
    for (const Version& mine : storage.versions(bucket, bucket == asked.first ? asked.after : SlotId())) {
      if (cut && mine.slot > differing.after) break;
      const auto found = there.find(mine.slot);
      if (found == there.end() || newer(mine, found->second)) missing.there.push_back(mine.slot);
      // equal, or theirs is older: nothing to take
      if (found != there.end() && !newer(found->second, mine)) there.erase(found);
    }
  }
  for (const auto& [slot, version] : there) missing.here.push_back(slot);
  return missing;
}

/// One call whose answer is a `Message`.
template <class Message>
Task<Result<std::pair<Message, Bytes>>> ask(net::Endpoint& net, PeerId other, std::string_view method, Frame request,
                                            TimePoint deadline) {
  const net::Answer answer = co_await net.call(other, method, std::move(request), deadline);
  if (!answer) co_return answer.error().code;
  auto decoded = frame::decode<wire::Header>(**answer);
  if (!decoded) co_return decoded.error();
  auto* message = std::get_if<Message>(&decoded->header);
  if (message == nullptr) co_return Errc::bad_request;
  co_return std::pair(std::move(*message), Bytes(decoded->payload.begin(), decoded->payload.end()));
}

Task<Result<std::size_t>> take(net::Endpoint& net, Server& server, PeerId other, std::vector<SlotId> slots,
                               TimePoint deadline) {
  std::size_t taken = 0;
  for (std::size_t first = 0; first < slots.size(); first += wire::kFetchMax) {
    const auto batch = std::span(slots).subspan(first, std::min(wire::kFetchMax, slots.size() - first));
    wire::Fetch fetch;
    fetch.slots = static_cast<std::uint32_t>(batch.size());
    Frame request = frame::encode(wire::Header(fetch), wire::pack_slots(batch));
    const auto fetched = co_await ask<wire::Fetched>(net, other, "directory.exchange", std::move(request), deadline);
    if (!fetched) co_return fetched.error();
    if (fetched->first.records > batch.size()) co_return Errc::bad_request;
    std::span<const std::byte> payload(fetched->second);
    auto records = wire::take_records(payload, fetched->first.records);
    if (!records) co_return records.error();
    for (SignedRecord& record : *records) {
      const auto offered = server.accept(std::move(record), Storage::Source::read);
      if (offered.outcome == Storage::Outcome::stored) ++taken;
    }
  }
  co_return taken;
}

Task<Result<std::size_t>> give(net::Endpoint& net, Server& server, PeerId other, std::vector<SlotId> slots,
                               TimePoint deadline) {
  std::size_t given = 0;
  for (std::size_t first = 0; first < slots.size(); first += wire::kPutRecordsMax) {
    std::vector<const SignedRecord*> records;
    for (std::size_t i = first; i < std::min(first + wire::kPutRecordsMax, slots.size()); ++i) {
      if (const SignedRecord* record = server.storage().find(slots[i])) records.push_back(record);
    }
    if (records.empty()) continue;
    wire::Put put;
    put.records = static_cast<std::uint32_t>(records.size());
    put.servers = server.servers_hash();
    given += records.size();
    Frame request = frame::encode(wire::Header(put), wire::pack_records(records));
    const auto stored = co_await ask<wire::Stored>(net, other, "directory.put", std::move(request), deadline);
    if (!stored) co_return stored.error();
  }
  co_return given;
}

}  // namespace

net::Answer answer_exchange(const Storage& storage, std::span<const std::byte> request) {
  const auto decoded = frame::decode<wire::Header>(request);
  if (!decoded) return Refusal(Errc::bad_request, "not a message of this protocol");
  if (const auto* compare = std::get_if<wire::Compare>(&decoded->header)) return answer_compare(storage, *compare);
  if (const auto* fetch = std::get_if<wire::Fetch>(&decoded->header)) {
    return answer_fetch(storage, *fetch, decoded->payload);
  }
  return Refusal(Errc::bad_request, "not a message of this method");
}

Task<Result<Reconciled>> reconcile(net::Endpoint& net, Server& server, PeerId other, TimePoint deadline) {
  Reconciled report;
  wire::Compare compare;
  while (compare.first < kBuckets) {
    const auto& hashes = server.storage().bucket_hashes();
    compare.buckets.assign(hashes.begin(), hashes.end());
    Frame request = frame::encode(wire::Header(compare));
    const auto answer = co_await ask<wire::Differing>(net, other, "directory.exchange", std::move(request), deadline);
    if (!answer) co_return answer.error();
    const wire::Differing& differing = answer->first;
    const bool further =
        differing.next > compare.first || (differing.next == compare.first && differing.after > compare.after);
    if (!further || differing.next > kBuckets) co_return Errc::bad_request;
    const auto theirs = wire::unpack_versions(answer->second, differing.versions);
    if (!theirs) co_return theirs.error();
    Missing lacking = missing(server.storage(), compare, differing, *theirs);

    const auto taken = co_await take(net, server, other, std::move(lacking.here), deadline);
    if (!taken) co_return taken.error();
    const auto given = co_await give(net, server, other, std::move(lacking.there), deadline);
    if (!given) co_return given.error();
    report.taken += *taken;
    report.given += *given;
    compare.first = differing.next;
    compare.after = differing.after;
  }
  co_return report;
}

}  // namespace collab::directory
