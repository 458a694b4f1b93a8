#include "directory/storage.hpp"

#include "crypto/hash.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

namespace collab::directory {
namespace {

constexpr const char* kLeased = "leased by another peer";

std::span<const unsigned char> letters(const std::string& text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

std::size_t bucket_of(const SlotId& slot) {
  return slot[0] / (256 / kBuckets);
}

Version version_of(const SlotId& slot, const Record& record) {
  return {slot, record.sequence, record.expires_ms};
}

/// Summed over a bucket, so that one change costs one addition.
std::uint64_t hash_of(const Version& version) {
  Hasher hasher("collab/directory/version/v1");
  hasher.add(version.slot).add(version.sequence).add(static_cast<std::uint64_t>(version.expires_ms));
  const Digest digest = hasher.finish();
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) number |= static_cast<std::uint64_t>(digest[i]) << (8 * i);
  return number;
}

Digest digest_of(const SignedRecord& record) {
  const Bytes bytes = encode(record);
  Hasher hasher("collab/directory/record/v1");
  hasher.add({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()});
  return hasher.finish();
}

bool is_visible(const Record& record, std::int64_t now_ms) {
  return record.expires_ms > now_ms && !record.value.empty();
}

/// By somebody else, to be kept here.
bool brought(Storage::Source source) {
  return source != Storage::Source::read && source != Storage::Source::own;
}

/// The authority may write an expiry near the end of time.
std::int64_t forget_after(std::int64_t expires_ms) {
  return std::min(expires_ms, std::numeric_limits<std::int64_t>::max() - kExpiryBehindMsMax) + kExpiryBehindMsMax;
}

}  // namespace

Mark mark_of(const SignedRecord& record) {
  Mark mark = 0;
  for (std::size_t i = 0; i < sizeof mark; ++i) mark |= Mark(record.signature[i]) << (8 * i);
  return mark;
}

SlotId slot_of(const Record& record) {
  Hasher hasher("collab/directory/slot/v1");
  hasher.add(letters(record.key)).add(record.owner.key).add(letters(record.subkey));
  const Digest digest = hasher.finish();
  SlotId slot;
  std::copy_n(digest.begin(), slot.size(), slot.begin());
  return slot;
}

Storage::Offered Storage::offer(SignedRecord record, std::int64_t now_ms, Source source, const std::string& origin) {
  const auto refuse = [](Refusal why) {
    Offered offered;
    offered.refusal = std::move(why);
    return offered;
  };
  if (const auto fits = check_bounds(record, options_.rules, now_ms); !fits) return refuse(fits.error());

  const auto known = entry_of(name_of(record.record));
  const SlotId slot = known ? (*known)->first : slot_of(record.record);
  Entry* const old = known ? &(*known)->second : nullptr;
  bool conflict = false;
  Bytes encoded;
  if (old != nullptr) {
    const Version here = version_of(slot, old->record.record);
    const Version there = version_of(slot, record.record);
    if (newer(here, there)) return {Outcome::older};
    conflict = here == there;
    if (conflict) encoded = encode(record);
    if (conflict && old->encoded == encoded) {
      if (source != Source::put || old->granted == old->leased) return {Outcome::unchanged};
      // handed on before its owner came: being here is not being granted
      if (claims_anothers(record.record, now_ms)) return refuse(Refusal(Errc::denied, kLeased));
      old->granted = old->leased;
      return {Outcome::unchanged};
    }
  }

  if (encoded.empty()) encoded = encode(record);
  if (const auto room = check_quotas(record, encoded.size(), old, now_ms, source, origin); !room)
    return refuse(room.error());
  const auto said =
      source == Source::own ? check_policy(record, options_.rules) : check_authorship(record, encoded, options_.rules);
  if (!said) return refuse(said.error());
  // only a record that its owner really made uses up the owner's quota
  if (brought(source)) owner(record.record.owner, now_ms).tokens -= 1;
  const auto claim = claim_of(record.record, now_ms);
  if (source == Source::put && claim && !claim->taken.empty()) {
    return refuse(Refusal(Errc::denied, kLeased));
  }
  if (conflict && !keep_evidence(old->record, record)) return {Outcome::older};

  const bool was_visible = old != nullptr && is_visible(old->record.record, now_ms);
  const bool same_value = old != nullptr && old->record.record.value == record.record.value;
  const bool visible = is_visible(record.record, now_ms);
  Offered offered{Outcome::stored};
  offered.visible = visible != was_visible || (visible && !same_value);
  const std::string key = record.record.key;
  store(slot, std::move(record), std::move(encoded), origin, claim.value_or(Claim()));
  if (offered.visible) shelves_.at(key).visible_version = changes_;
  return offered;
}

Verdict Storage::check_quotas(const SignedRecord& record, std::size_t bytes, const Entry* replaced, std::int64_t now_ms,
                              Source source, const std::string& origin) {
  const std::size_t more_records = replaced == nullptr ? 1 : 0;
  const auto grown = [&](std::size_t used) {
    return used + bytes - (replaced == nullptr ? 0 : replaced->encoded.size());
  };
  if (entries_.size() + more_records > options_.records_max || grown(bytes_) > options_.bytes_max) {
    return Refusal(Errc::busy, "the storer is full", 10'000);
  }
  const auto found = replaced == nullptr ? owners_.find(record.record.owner) : owners_.end();
  const bool known = replaced != nullptr || found != owners_.end();
  const Usage used = replaced != nullptr ? replaced->owner->usage : known ? found->second.usage : Usage();
  // the authority may ban as many as there is room for: its signature is checked next
  const bool bans = record.record.key == kBanKey && record.record.owner == options_.rules.authority;
  if (bans) {
    // counted by the storer's own bounds alone
  } else if (used.records + more_records > options_.owner_records_max || grown(used.bytes) > options_.owner_bytes_max) {
    return Refusal(Errc::busy, "the owner's quota is used up", 10'000);
  }
  if (brought(source) && known && owner(record.record.owner, now_ms).tokens < 1) {
    return Refusal(Errc::busy, "the owner writes too often",
                   static_cast<std::uint64_t>(std::ceil(1000 / options_.owner_records_per_s)));
  }
  if (origin.empty() || replaced != nullptr) return {};
  const auto network = origins_.find(origin);
  const Usage shared = network == origins_.end() ? Usage() : network->second;
  const std::size_t owners = source == Source::handed_over ? options_.keeper_owners : options_.origin_owners;
  if (shared.records + 1 > owners * options_.owner_records_max ||
      shared.bytes + bytes > owners * options_.owner_bytes_max) {
    return Refusal(Errc::busy, "the network's quota is used up", 10'000);
  }
  return {};
}

Storage::Owner& Storage::owner(const PeerId& id, std::int64_t now_ms) {
  const auto [found, fresh] = owners_.try_emplace(id);
  Owner& owner = found->second;
  if (fresh) {
    owner.tokens = options_.owner_records_burst;
    owner.refilled_ms = now_ms;
  }
  const double seconds = static_cast<double>(std::max<std::int64_t>(0, now_ms - owner.refilled_ms)) / 1000;
  owner.tokens = std::min(options_.owner_records_burst, owner.tokens + seconds * options_.owner_records_per_s);
  owner.refilled_ms = now_ms;
  return owner;
}

void Storage::store(const SlotId& slot, SignedRecord record, Bytes encoded, const std::string& origin, Claim claim) {
  const auto [place, fresh] = entries_.try_emplace(slot);
  Entry& entry = place->second;
  if (!fresh) unlist(place);
  Shelf& shelf = shelves_[record.record.key];
  if (fresh) {
    shelf.by_owner[{record.record.owner, record.record.subkey}] = place;
    entry.owner = &owners_[record.record.owner];
    entry.turn = shelf.by_change.insert(shelf.by_change.end(), place);
  } else {
    shelf.by_change.splice(shelf.by_change.end(), shelf.by_change, entry.turn);
  }
  entry.record = std::move(record);
  entry.encoded = std::move(encoded);
  entry.change = ++changes_;
  entry.forget_ms = std::max(entry.forget_ms, forget_after(entry.record.record.expires_ms));
  if (fresh) by_expiry_.emplace(entry.forget_ms, slot);  // looked at then, however much later it became
  entry.origin = origin;
  entry.granted = claim.leased;
  entry.granted.subtract(claim.taken);
  entry.leased = std::move(claim.leased);
  entry.hash = hash_of(version_of(slot, entry.record.record));
  bucket_hashes_[bucket_of(slot)] += entry.hash;
  count(entry, 1);
}

std::optional<Storage::Claim> Storage::claim_of(const Record& lease, std::int64_t now_ms) const {
  if (!is_lease_key(lease.key) || lease.value.empty()) return std::nullopt;
  auto work = decode_lease(lease.value);
  if (!work) return std::nullopt;  // refused for that
  Claim claim;
  claim.leased = claim.claimed = std::move(*work);
  const auto shelf = shelves_.find(lease.key);
  if (shelf == shelves_.end()) return claim;
  for (const auto& [place, entry] : shelf->second.by_owner)
    if (place.first == lease.owner && is_visible(entry->second.record.record, now_ms))
      claim.claimed.subtract(entry->second.granted);
  for (const auto& [place, entry] : shelf->second.by_owner)
    if (place.first != lease.owner && is_visible(entry->second.record.record, now_ms))
      claim.taken.add(claim.claimed.common(entry->second.leased));
  return claim;
}

bool Storage::claims_anothers(const Record& lease, std::int64_t now_ms) const {
  const auto claim = claim_of(lease, now_ms);
  return claim && !claim->taken.empty();
}

/// From wherever its version counts. Leaves empty owners and networks to the caller.
void Storage::unlist(Entries::iterator entry) {
  bucket_hashes_[bucket_of(entry->first)] -= entry->second.hash;
  count(entry->second, -1);
}

void Storage::count(const Entry& entry, int sign) {
  const auto add = [&](Usage& usage) {
    usage.records += static_cast<std::size_t>(sign);
    usage.bytes += static_cast<std::size_t>(sign) * entry.encoded.size();  // modulo 2^64, so -1 subtracts
  };
  bytes_ += static_cast<std::size_t>(sign) * entry.encoded.size();
  add(entry.owner->usage);
  if (entry.origin.empty()) return;
  Usage& network = origins_[entry.origin];
  add(network);
  if (network.records == 0) origins_.erase(entry.origin);
}

/// Whether `fresh`, of the same version as `old`, takes its place.
bool Storage::keep_evidence(const SignedRecord& old, const SignedRecord& fresh) {
  const bool takes = digest_of(fresh) < digest_of(old);
  if (evidence_.size() >= options_.evidence_max) evidence_.erase(evidence_.begin());
  evidence_.push_back(takes ? Evidence{fresh, old} : Evidence{old, fresh});
  return takes;
}

/// Nearly everybody who asks has been at the end; who begins, or reads page after page, has not: so from both ends.
Storage::Changes::const_iterator Storage::first_after(const Changes& changes, std::uint64_t since) {
  auto before = changes.begin();
  auto after = changes.end();
  while (before != after && (*before)->second.change <= since) {
    if ((*std::prev(after))->second.change <= since) return after;
    ++before;
    --after;
  }
  return before;
}

Storage::Page Storage::page(const std::string& key, std::uint64_t since, std::int64_t now_ms, std::size_t bytes_max,
                            std::span<const Mark> known) const {
  Page page;
  page.next = since;
  const auto shelf = shelves_.find(key);
  if (shelf == shelves_.end()) return page;
  std::size_t bytes = 0;
  const auto& changes = shelf->second.by_change;
  for (auto next = first_after(changes, since); next != changes.end(); ++next) {
    const Entry& entry = (*next)->second;
    const bool is_over = forget_after(entry.record.record.expires_ms) < now_ms;
    if (!is_over && !std::binary_search(known.begin(), known.end(), mark_of(entry.record))) {
      bytes += entry.encoded.size();
      page.more = bytes > bytes_max && !page.records.empty();
      if (page.more) break;
      page.records.push_back(entry.encoded);
    }
    page.next = entry.change;
  }
  return page;
}

std::vector<Mark> Storage::marks(const std::string& key) const {
  std::vector<Mark> marks;
  const auto shelf = shelves_.find(key);
  if (shelf == shelves_.end()) return marks;
  for (const auto& [place, entry] : shelf->second.by_owner) marks.push_back(mark_of(entry->second.record));
  std::sort(marks.begin(), marks.end());
  return marks;
}

std::vector<std::string> Storage::keys() const {
  std::vector<std::string> keys;
  keys.reserve(shelves_.size());
  for (const auto& [key, shelf] : shelves_) {
    if (!shelf.by_owner.empty()) keys.push_back(key);
  }
  return keys;
}

std::uint64_t Storage::latest(const std::string& key) const {
  const auto shelf = shelves_.find(key);
  if (shelf == shelves_.end() || shelf->second.by_change.empty()) return 0;
  return shelf->second.by_change.back()->second.change;
}

std::uint64_t Storage::visible_version(const std::string& key) const {
  const auto shelf = shelves_.find(key);
  return shelf == shelves_.end() ? 0 : shelf->second.visible_version;
}

std::vector<const SignedRecord*> Storage::records(const std::string& key, std::int64_t now_ms) const {
  std::vector<const SignedRecord*> records;
  const auto shelf = shelves_.find(key);
  if (shelf == shelves_.end()) return records;
  for (const auto& [owner, entry] : shelf->second.by_owner) {
    if (is_visible(entry->second.record.record, now_ms)) records.push_back(&entry->second.record);
  }
  return records;
}

std::vector<const SignedRecord*> Storage::changed(const std::string& key, std::uint64_t since) const {
  std::vector<const SignedRecord*> changed;
  const auto shelf = shelves_.find(key);
  if (shelf == shelves_.end()) return changed;
  const auto& changes = shelf->second.by_change;
  for (auto next = first_after(changes, since); next != changes.end(); ++next)
    changed.push_back(&(*next)->second.record);
  return changed;
}

const SignedRecord* Storage::record(const std::string& key, const PeerId& owner, std::int64_t now_ms) const {
  const auto entry = entry_of({key, owner, {}});
  if (!entry) return nullptr;
  const SignedRecord& found = (*entry)->second.record;
  return is_visible(found.record, now_ms) ? &found : nullptr;
}

std::optional<Storage::Entries::iterator> Storage::entry_of(const RecordName& name) const {
  const auto shelf = shelves_.find(name.key);
  if (shelf == shelves_.end()) return std::nullopt;
  const auto place = shelf->second.by_owner.find(std::pair(name.owner, name.subkey));
  if (place == shelf->second.by_owner.end()) return std::nullopt;
  return place->second;
}

bool Storage::holds(const RecordName& name, std::span<const std::byte> encoded) const {
  const auto entry = entry_of(name);
  if (!entry || (*entry)->second.encoded.size() != encoded.size()) return false;
  return std::memcmp((*entry)->second.encoded.data(), encoded.data(), encoded.size()) == 0;
}

const SignedRecord* Storage::find(const SlotId& slot) const {
  const auto entry = entries_.find(slot);
  return entry == entries_.end() ? nullptr : &entry->second.record;
}

std::span<const std::byte> Storage::encoded(const SlotId& slot) const {
  const auto entry = entries_.find(slot);
  return entry == entries_.end() ? std::span<const std::byte>() : std::span<const std::byte>(entry->second.encoded);
}

std::vector<Version> Storage::versions(std::size_t bucket, const SlotId& after, std::size_t count) const {
  SlotId first{};
  first[0] = static_cast<unsigned char>(bucket * (256 / kBuckets));
  std::vector<Version> versions;
  auto entry = after == SlotId() ? entries_.lower_bound(first) : entries_.upper_bound(after);
  for (; entry != entries_.end() && bucket_of(entry->first) == bucket && versions.size() < count; ++entry) {
    versions.push_back(version_of(entry->first, entry->second.record.record));
  }
  return versions;
}

void Storage::expire(std::int64_t now_ms) {
  while (!by_expiry_.empty() && by_expiry_.begin()->first < now_ms) {
    const auto entry = entries_.find(by_expiry_.begin()->second);
    by_expiry_.erase(by_expiry_.begin());
    if (entry->second.forget_ms >= now_ms) {  // it has been renewed
      by_expiry_.emplace(entry->second.forget_ms, entry->first);
      continue;
    }
    const Record& record = entry->second.record.record;
    const PeerId owner_id = record.owner;
    unlist(entry);
    const auto shelf = shelves_.find(record.key);
    shelf->second.by_change.erase(entry->second.turn);
    shelf->second.by_owner.erase({record.owner, record.subkey});
    if (shelf->second.by_owner.empty()) shelves_.erase(shelf);
    entries_.erase(entry);
    // the rate is forgotten with the last record: by then the burst has long been refilled
    if (owners_.at(owner_id).usage.records == 0) owners_.erase(owner_id);
  }
}

}  // namespace collab::directory
