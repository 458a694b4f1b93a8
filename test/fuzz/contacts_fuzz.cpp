// The file of remembered peers: any text is refused, or is the same contacts when written and read again. The first
// byte is even: the rest is the file. Odd: the rest is its lines, and the checksum is made to fit.
#include "base/text.hpp"
#include "crypto/hash.hpp"
#include "directory/contacts.hpp"
#include "directory/peer_record.hpp"
#include "support.hpp"

#include <limits>
#include <string>

namespace collab::fuzz::contacts_target {

std::string with_checksum(std::string_view lines) {
  std::string text = "collab-contacts-v1\n" + std::string(lines);
  if (!text.ends_with('\n')) text += '\n';
  Hasher hasher("collab/contacts/v1");
  hasher.add({reinterpret_cast<const unsigned char*>(text.data()), text.size()});
  const Digest digest = hasher.finish();
  return text + "checksum " + to_hex(std::span(digest).first(8)) + "\n";
}

COLLAB_FUZZ_TARGET(contacts) {
  if (size == 0) return 0;
  const std::string_view rest = fuzz::text_of(fuzz::bytes_of(data + 1, size - 1));
  const auto contacts = directory::Contacts::parse(data[0] % 2 == 0 ? std::string(rest) : with_checksum(rest));
  if (!contacts) return 0;
  constexpr std::int64_t now_ms = std::numeric_limits<std::int64_t>::max();
  directory::Contacts kept(4);
  for (const directory::Contact& contact : *contacts) {
    require(contact.addresses.size() <= directory::kListenAddressesMax);
    contact.seen_ms > 0 ? kept.saw(contact, now_ms) : kept.heard(contact, now_ms);
  }
  require(kept.size() <= 4);
  const auto again = directory::Contacts::parse(kept.text());
  require(again && again->size() == kept.size());
  directory::Contacts copy;
  for (const directory::Contact& contact : *again)
    contact.seen_ms > 0 ? copy.saw(contact, now_ms) : copy.heard(contact, now_ms);
  require(copy.text() == kept.text());
  return 0;
}

}  // namespace collab::fuzz::contacts_target
