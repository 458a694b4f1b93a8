// Records, and the values and files around them: what is accepted has exactly one encoding.
#include "directory/contacts.hpp"
#include "directory/peer_record.hpp"
#include "directory/storage.hpp"
#include "support.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace collab::fuzz::directory_record_target {

COLLAB_FUZZ_TARGET(directory_record) {
  using namespace directory;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (auto record = decode_record(bytes)) {
    if (!std::ranges::equal(encode(*record), bytes)) std::abort();
    Storage::Options options;
    options.rules.run = record->run;
    Storage storage(options);
    const std::int64_t now_ms = std::clamp<std::int64_t>(record->record.expires_ms, 0, std::int64_t(1) << 52U);
    const auto offered = storage.offer(*record, now_ms, Storage::Source::put);
    // nothing is kept but what its owner has signed
    if (storage.size() != (offered.outcome == Storage::Outcome::stored ? 1U : 0U)) std::abort();
    if (storage.size() == 1 && !check_authorship(*record, encode(*record), options.rules)) std::abort();
    storage.expire(std::numeric_limits<std::int64_t>::max());
  }
  if (const auto peer = decode_peer_record(bytes)) {
    const auto again = encode(*peer);
    if (again && !decode_peer_record(*again)) std::abort();
  }
  if (const auto contacts = Contacts::parse({reinterpret_cast<const char*>(data), size})) {
    Contacts kept;
    for (const Contact& contact : *contacts) kept.saw(contact, std::numeric_limits<std::int64_t>::max());
    if (!Contacts::parse(kept.text())) std::abort();
  }
  return 0;
}

}  // namespace collab::fuzz::directory_record_target
