#include "directory/contacts.hpp"

#include "base/file.hpp"
#include "base/frame.hpp"
#include "directory/peer_record.hpp"
#include "directory/wire.hpp"

#include <filesystem>
#include <set>
#include <string>

#include "support/doctest.hpp"

namespace collab::directory {
namespace {

PeerId id_of(unsigned char number) {
  Identity::Seed seed{};
  seed[0] = number;
  return Identity::generate(seed).id();
}

Contact contact(unsigned char number, std::int64_t seen_ms) {
  Contact made;
  made.id = id_of(number);
  made.addresses.push_back({"192.0.2." + std::to_string(number), 4600});
  made.addresses.push_back({"2001:db8::1", 4601});
  made.seen_ms = seen_ms;
  return made;
}

/// A folder of its own, removed at the end.
struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / "collab_contacts_test") {
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path path;
};

}  // namespace

TEST_CASE("contacts: the file brings back what was written") {
  const Folder folder;
  const auto file = folder.path / "contacts";
  Contacts contacts;
  for (unsigned char i = 1; i <= 20; ++i) contacts.saw(contact(i, 1000 + i), 5000);
  Contact web = contact(21, 1021);
  web.addresses.push_back({"203.0.113.5", 443, net::Leg::wss});
  contacts.saw(web, 5000);
  write_file(file, contacts.text());
  Contacts back;
  CHECK_FALSE(load_contacts(file, back, 5000));
  CHECK(back.all() == contacts.all());
  CHECK_FALSE(load_contacts(folder.path / "none", back, 5000));
}

TEST_CASE("contacts: a name is no address of a stranger: nothing is looked up for it") {
  Contacts contacts;
  Contact named = contact(1, 1000);
  named.addresses[0].host = "a-name.example";
  contacts.saw(named, 5000);
  REQUIRE(contacts.size() == 1);
  CHECK(contacts.all()[0].addresses == std::vector<net::Address>{{"2001:db8::1", 4601}});
  named.id = id_of(2);
  named.addresses.resize(1);
  contacts.saw(named, 5000);
  CHECK(contacts.size() == 1);
}

TEST_CASE("contacts: a damaged file is set aside with a message") {
  const Folder folder;
  const auto file = folder.path / "contacts";
  Contacts contacts;
  contacts.saw(contact(1, 1000), 5000);
  const std::string whole = contacts.text();
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK_FALSE(Contacts::parse(whole.substr(0, size)));
  std::string altered = whole;
  altered[whole.find("192") + 1] = '8';
  write_file(file, altered);
  Contacts back;
  const auto message = load_contacts(file, back, 5000);
  REQUIRE(message);
  CHECK(message->find("contacts.damaged") != std::string::npos);
  CHECK(back.size() == 0);
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK(std::filesystem::exists(folder.path / "contacts.damaged"));
}

TEST_CASE("contacts: at most so many, the one not seen for longest goes, and nobody is from the future") {
  Contacts contacts(3);
  for (unsigned char i = 1; i <= 5; ++i) contacts.saw(contact(i, i == 2 ? 9'999'999 : 1000 + i), 5000);
  std::set<PeerId> left;
  for (const Contact& one : contacts.all()) {
    left.insert(one.id);
    CHECK(one.seen_ms <= 5000);
  }
  CHECK(left == std::set<PeerId>{id_of(2), id_of(4), id_of(5)});
  Contact older = contact(5, 1);
  older.addresses.resize(1);
  contacts.saw(older, 5000);
  for (const Contact& one : contacts.all()) CHECK(one.addresses.size() == 2);
  Contact useless = contact(7, 4000);
  useless.addresses = {{std::string(200, 'h'), 1}};
  contacts.saw(useless, 5000);
  CHECK(contacts.size() == 3);
  Random random(1);
  CHECK(contacts.pick(2, random).size() == 2);
  CHECK(contacts.pick(9, random).size() == 3);
}

TEST_CASE("contacts: hearsay neither replaces nor displaces what this peer has seen") {
  Contacts contacts(3);
  for (unsigned char i = 1; i <= 2; ++i) contacts.saw(contact(i, 1000), 5000);
  for (unsigned char i = 1; i <= 50; ++i) {
    Contact invented = contact(i, 5000);
    invented.addresses.resize(1);
    contacts.heard(invented, 5000);
  }
  CHECK(contacts.size() == 3);
  std::size_t own = 0;
  for (const Contact& one : contacts.all()) own += one.addresses.size() == 2 ? 1U : 0U;
  CHECK(own == 2);
  contacts.saw(contact(60, 2000), 5000);  // and what was heard makes room for what is seen
  own = 0;
  for (const Contact& one : contacts.all()) own += one.addresses.size() == 2 ? 1U : 0U;
  CHECK(own == 3);
}

TEST_CASE("peer record: it survives the trip, and bounds hold") {
  PeerRecord peer;
  peer.listen = {{"203.0.113.5", 4600}, {"2001:db8::7", 4600}, {"203.0.113.5", 443, net::Leg::wss}};
  peer.reachable = true;
  peer.role = "full";
  peer.name = "kolkata";
  peer.software = "collab-peer 0.1";
  peer.incarnation = 77;
  const auto value = encode(peer);
  REQUIRE(value);
  const auto back = decode_peer_record(*value);
  REQUIRE(back);
  CHECK(back->listen == peer.listen);
  CHECK(back->reachable);
  CHECK_FALSE(back->directory);
  CHECK(back->name == "kolkata");
  CHECK(back->incarnation == 77);
  for (std::size_t size = 0; size < value->size(); ++size)
    CHECK_FALSE(decode_peer_record(std::span(*value).first(size)));

  PeerRecord wrong = peer;
  wrong.name = std::string(kNameBytesMax + 1, 'n');
  CHECK_FALSE(encode(wrong));
  wrong = peer;
  wrong.listen.assign(kListenAddressesMax + 1, peer.listen[0]);
  CHECK_FALSE(encode(wrong));
  wire::PeerV1 raw;
  PeerRecord rude = peer;
  rude.name = "\x1b[31mred";
  CHECK(decode_peer_record(*encode(rude))->name == "?[31mred");
  wrong = peer;
  wrong.listen[0].host = "a-name.example";
  CHECK_FALSE(encode(wrong));
  raw.listen = {"a-name.example:4600"};
  CHECK_FALSE(decode_peer_record(*frame::encode(wire::PeerHeader(raw))));
  raw.listen = {"no port here"};
  CHECK_FALSE(decode_peer_record(*frame::encode(wire::PeerHeader(raw))));
}

TEST_CASE("peer record: relays stand apart from where it is dialled, so that a reader who knows none reads the rest") {
  const net::Address relay{"203.0.113.9", 4600, net::Leg::relay, Identity::generate(Identity::Seed{4}).id()};
  const net::Address relay_v6{"2001:db8:1111:2222:3333:4444:5555:6666", 65535, net::Leg::relay, relay.relay};
  PeerRecord peer;
  peer.role = peer.name = peer.software = std::string(kNameBytesMax, 'n');
  peer.relays = {relay, relay_v6, relay_v6};
  const auto value = encode(peer);
  REQUIRE(value);
  CHECK(decode_peer_record(*value)->relays == peer.relays);
  CHECK(decode_peer_record(*value)->listen.empty());
  PeerRecord wrong = peer;
  wrong.relays.push_back(relay);
  CHECK_FALSE(encode(wrong));
  wrong = peer;
  wrong.relays[0].host = "a-name.example";
  CHECK_FALSE(encode(wrong));
  wrong = peer;
  wrong.relays[0] = {"203.0.113.9", 4600};
  CHECK_FALSE(encode(wrong));
  wrong = PeerRecord();
  wrong.listen = {relay};
  CHECK_FALSE(encode(wrong));
  wire::PeerV1 raw;
  raw.listen = {net::to_string(relay)};
  CHECK_FALSE(decode_peer_record(*frame::encode(wire::PeerHeader(raw))));
  raw.listen = {"203.0.113.9:4600"};
  CHECK(decode_peer_record(*frame::encode(wire::PeerHeader(raw))));
  raw.relays = {"203.0.113.9:4600"};
  CHECK_FALSE(decode_peer_record(*frame::encode(wire::PeerHeader(raw))));
  raw.relays.assign(kRelaysMax + 1, net::to_string(relay));
  CHECK_FALSE(decode_peer_record(*frame::encode(wire::PeerHeader(raw))));
}

TEST_CASE("wire: lists of records, versions and slots survive the trip and refuse every other length") {
  const Identity owner = Identity::generate(Identity::Seed{});
  std::vector<SignedRecord> records;
  for (std::uint64_t i = 0; i < 3; ++i) {
    Record draft;
    draft.key = "k";
    draft.sequence = i;
    draft.value.assign(i, std::byte(1));
    records.push_back(sign_record(owner, "run", std::move(draft)));
  }
  std::vector<const SignedRecord*> list;
  for (const SignedRecord& record : records) list.push_back(&record);
  const Bytes packed = wire::pack_records(list);
  std::span<const std::byte> payload(packed);
  const auto back = wire::take_records(payload, 3);
  REQUIRE(back);
  CHECK(payload.empty());
  CHECK(encode((*back)[2]) == encode(records[2]));
  payload = packed;
  CHECK_FALSE(wire::take_records(payload, 4));
  payload = std::span(packed).first(packed.size() - 1);
  CHECK_FALSE(wire::take_records(payload, 3));

  const std::vector<Version> versions = {{SlotId{1}, 5, -1}, {SlotId{2}, 6, 7}};
  CHECK(*wire::unpack_versions(wire::pack_versions(versions), 2) == versions);
  CHECK_FALSE(wire::unpack_versions(wire::pack_versions(versions), 3));
  CHECK_FALSE(wire::unpack_versions(wire::pack_versions(versions), std::size_t(1) << 62U));
  const std::vector<SlotId> slots = {SlotId{1}, SlotId{9}};
  CHECK(*wire::unpack_slots(wire::pack_slots(slots), 2) == slots);
  CHECK_FALSE(wire::unpack_slots(wire::pack_slots(slots), 1));
  const std::vector<Mark> marks = {3, 7, 0xffffffffU};
  CHECK(*wire::unpack_marks(wire::pack_marks(marks)) == marks);
  CHECK(wire::unpack_marks(wire::pack_marks(std::vector<Mark>{7, 3}))->front() == 3);
  const Bytes packed_marks = wire::pack_marks(marks);
  CHECK_FALSE(wire::unpack_marks(std::span(packed_marks).first(11)));
  CHECK_FALSE(wire::unpack_marks(wire::pack_marks(std::vector<Mark>(wire::kKnownMax + 1))));
}

}  // namespace collab::directory
