#include "directory/contacts.hpp"

#include "base/file.hpp"
#include "base/text.hpp"
#include "crypto/hash.hpp"
#include "directory/peer_record.hpp"

#include <algorithm>
#include <sstream>
#include <tuple>

namespace collab::directory {
namespace {

constexpr std::string_view kFirstLine = "collab-contacts-v1\n";
constexpr std::string_view kLastLine = "checksum ";
constexpr std::size_t kFileBytesMax = std::size_t(1) << 20U;

std::string checksum(std::string_view text) {
  Hasher hasher("collab/contacts/v1");
  hasher.add({reinterpret_cast<const unsigned char*>(text.data()), text.size()});
  const Digest digest = hasher.finish();
  return to_hex(std::span(digest).first(8));
}

Result<Contact> parse_line(const std::string& line) {
  std::istringstream words(line);
  std::string id_text;
  Contact contact;
  if (!(words >> id_text >> contact.seen_ms)) return Errc::bad_request;
  const auto id = PeerId::parse(id_text);
  if (!id) return Errc::bad_request;
  contact.id = *id;
  for (std::string word; words >> word;) {
    auto address = net::parse_address(word);
    if (!address || contact.addresses.size() == kListenAddressesMax) return Errc::bad_request;
    contact.addresses.push_back(std::move(*address));
  }
  return contact;
}

}  // namespace

void Contacts::saw(Contact contact, std::int64_t now_ms) {
  keep(std::move(contact), now_ms, true);
}

void Contacts::heard(Contact contact, std::int64_t now_ms) {
  keep(std::move(contact), now_ms, false);
}

void Contacts::keep(Contact contact, std::int64_t now_ms, bool seen) {
  const auto is_of_no_use = [](const net::Address& address) {
    return address.host.size() > kContactHostBytesMax || !net::is_numeric(address);
  };
  std::erase_if(contact.addresses, is_of_no_use);
  if (contact.addresses.empty()) return;
  if (contact.addresses.size() > kListenAddressesMax) contact.addresses.resize(kListenAddressesMax);
  contact.seen_ms = std::min(contact.seen_ms, now_ms);
  const auto known = contacts_.find(contact.id);
  if (known != contacts_.end()) {
    Entry& entry = known->second;
    if (entry.seen && !seen) return;
    if (entry.seen == seen && entry.contact.seen_ms > contact.seen_ms) return;
    entry = {std::move(contact), seen};
    return;
  }
  const PeerId id = contact.id;
  contacts_.emplace(id, Entry{std::move(contact), seen});
  if (contacts_.size() <= contacts_max_) return;
  // hearsay goes first, then the one not seen for longest
  const auto oldest = std::min_element(contacts_.begin(), contacts_.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.second.seen, a.second.contact.seen_ms) < std::tuple(b.second.seen, b.second.contact.seen_ms);
  });
  contacts_.erase(oldest);
}

std::vector<Contact> Contacts::pick(std::size_t count, Random& random) const {
  std::vector<Contact> picked = all();
  for (std::size_t i = 0; i < picked.size() && i < count; ++i) {
    std::swap(picked[i], picked[i + random.below(picked.size() - i)]);
  }
  picked.resize(std::min(count, picked.size()));
  return picked;
}

std::vector<Contact> Contacts::all() const {
  std::vector<Contact> contacts;
  contacts.reserve(contacts_.size());
  for (const auto& [id, entry] : contacts_) contacts.push_back(entry.contact);
  return contacts;
}

std::string Contacts::text() const {
  std::string text(kFirstLine);
  for (const auto& [id, entry] : contacts_) {
    text += id.text() + " " + std::to_string(entry.seen ? entry.contact.seen_ms : 0);  // 0: hearsay
    for (const net::Address& address : entry.contact.addresses) text += " " + net::to_string(address);
    text += "\n";
  }
  const std::string sum = checksum(text);
  return text + std::string(kLastLine) + sum + "\n";
}

Result<std::vector<Contact>> Contacts::parse(std::string_view text) {
  if (text.size() > kFileBytesMax || !text.starts_with(kFirstLine)) return Errc::bad_request;
  const std::size_t last = text.rfind(std::string("\n") + std::string(kLastLine));
  if (last == std::string_view::npos) return Errc::bad_request;
  const std::string_view body = text.substr(0, last + 1);
  if (text.substr(body.size()) != std::string(kLastLine) + checksum(body) + "\n") return Errc::bad_request;

  std::vector<Contact> contacts;
  std::istringstream lines{std::string(body.substr(kFirstLine.size()))};
  for (std::string line; std::getline(lines, line);) {
    auto contact = parse_line(line);
    if (!contact) return contact.error();
    contacts.push_back(std::move(*contact));
  }
  return contacts;
}

std::optional<std::string> load_contacts(const std::filesystem::path& file, Contacts& contacts, std::int64_t now_ms) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  const Bytes bytes = read_file(file, kFileBytesMax);
  auto parsed = Contacts::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (parsed) {
    for (Contact& contact : *parsed) {
      if (contact.seen_ms > 0) {
        contacts.saw(std::move(contact), now_ms);
      } else {
        contacts.heard(std::move(contact), now_ms);
      }
    }
    return std::nullopt;
  }
  const std::filesystem::path aside = file.string() + ".damaged";
  std::filesystem::rename(file, aside, error);
  if (error) return "the contacts file " + file.string() + " cannot be read, nor set aside: " + error.message();
  return "the contacts file " + file.string() + " was damaged; it is now " + aside.string() +
         ", and contacts are collected anew";
}

}  // namespace collab::directory
