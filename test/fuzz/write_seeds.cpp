// Writes the first inputs of fuzz targets that are no plain text: `write_seeds corpus`. Each valid one also comes cut
// in half, and with a flipped bit. What the fuzzers found later lies beside them.
#include "averaging/participant.hpp"
#include "base/frame.hpp"
#include "base/text.hpp"
#include "crypto/fields.hpp"
#include "crypto/identity.hpp"
#include "data/ledger.hpp"
#include "data/prepared_file.hpp"
#include "directory/lease_record.hpp"
#include "directory/peer_record.hpp"
#include "directory/wire.hpp"
#include "epoch/missed_round.hpp"
#include "epoch/wire.hpp"
#include "matchmaking/declaration.hpp"
#include "matchmaking/seating.hpp"
#include "matchmaking/wire.hpp"
#include "monitor/wire.hpp"
#include "node/lan_discovery.hpp"
#include "node/manifest.hpp"
#include "progress/wire.hpp"
#include "recipes/recipe.hpp"
#include "state/snapshot.hpp"
#include "tensor/codec.hpp"
#include "tensor/safetensors.hpp"

#include <fstream>
#include <iostream>
#include <string>

namespace {

using namespace collab;

std::filesystem::path corpus;

void write_one(const std::string& target, const std::string& name, std::span<const std::byte> bytes) {
  std::filesystem::create_directories(corpus / target);
  std::ofstream out(corpus / target / name, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void write(const std::string& target, const std::string& name, std::span<const std::byte> whole) {
  Bytes bytes(whole.begin(), whole.end());
  write_one(target, name, bytes);
  write_one(target, name + "-cut", std::span(bytes).first(bytes.size() / 2));
  bytes[bytes.size() * 2 / 3] ^= std::byte(0x10);
  write_one(target, name + "-flipped", bytes);
}

/// `first`, then the rest: targets choose by their first byte.
Bytes behind(std::uint8_t first, std::span<const std::byte> rest) {
  return FieldWriter().add(first).add_raw(rest).finish();
}

Bytes joined(std::initializer_list<Bytes> pieces) {
  FieldWriter writer;
  for (const Bytes& piece : pieces) writer.add(static_cast<std::uint16_t>(piece.size())).add_raw(piece);
  return writer.finish();
}

Bytes bytes_of(std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

progress::Record progress_record() {
  progress::Record record;
  record.epoch = 7;
  record.samples = 96;
  record.samples_per_s = 12.5;
  record.unix_ms = 1'893'456'000'100;
  record.period_ms = 2000;
  record.parameters.fill(3);
  record.loss = 6.25;
  record.taking_part = true;
  record.microbatch = 16;
  return record;
}

void write_epoch() {
  epoch::wire::TakeOn ask;
  ask.epoch = 7;
  ask.samples = 300;
  ask.parameters[0] = 5;
  ask.work = {{16, 100}, {400, 24}};
  ask.nonce = 99;
  write("epoch_wire", "take_on", *frame::encode(epoch::wire::Message(ask)));
  ask.work = {{16, 100}, {100, 24}};
  write_one("epoch_wire", "overlaps", *frame::encode(epoch::wire::Message(ask)));
  ask.work.assign(65, {0, 1});
  write_one("epoch_wire", "too-many", *frame::encode(epoch::wire::Message(ask)));
  epoch::wire::Piece piece;
  piece.index = 3;
  const Bytes values(64, std::byte(1));
  write("epoch_wire", "piece", *frame::encode(epoch::wire::Message(piece), values));
}

void write_progress() {
  const Bytes record = progress::encode(progress_record());
  write("progress_wire", "record", record);
  FieldWriter script;
  for (std::uint8_t i = 0; i < 4; ++i) {
    progress::Record told = progress_record();
    told.samples += 16U * i;
    told.unix_ms += 500 * i;
    if (i == 3) told.epoch = 8;
    const Bytes bytes = progress::encode(told);
    script.add(static_cast<std::uint8_t>(i / 2)).add(std::uint32_t(500));
    script.add(static_cast<std::uint16_t>(bytes.size())).add_raw(bytes);
  }
  write("progress_wire", "history", script.finish());
  for (const std::int64_t when : {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    progress::Record told = progress_record();
    told.unix_ms = when;
    const Bytes bytes = progress::encode(told);
    FieldWriter once;
    for (int i = 0; i < 2; ++i)
      once.add(std::uint8_t(0)).add(std::uint32_t(500)).add(static_cast<std::uint16_t>(bytes.size())).add_raw(bytes);
    write_one("progress_wire", when < 0 ? "before-all-time" : "after-all-time", once.finish());
  }
  progress::Record told = progress_record();
  told.loss = std::numeric_limits<double>::infinity();
  write_one("progress_wire", "infinite-loss", progress::encode(told));
  told = progress_record();
  told.taking_part = false;
  told.samples = 0;
  told.heir = {{3}};
  told.left = 100;
  write("progress_wire", "leaves", progress::encode(told));
  write("progress_wire", "keeper", progress::encode(progress::KeeperRecord{7}));
}

void write_matchmaking() {
  matchmaking::Declaration declaration;
  declaration.epoch = 9;
  declaration.round = 2;
  declaration.up_bytes_per_s = 1'000'000;
  write("declaration", "node", encode(declaration));
  declaration.role = matchmaking::Role::client;
  write_one("declaration", "reachable-client", encode(declaration));

  matchmaking::Group group;  // one that the peer of matchmaking_wire_fuzz takes
  group.topic = matchmaking::topic("", group.epoch, group.round);
  for (const std::uint8_t number : {std::uint8_t(7), std::uint8_t(9)}) {
    matchmaking::Member member;
    member.id.key.fill(number);
    member.weight_max = 1;
    member.units = group.roster.empty() ? 1 : 0;
    group.roster.push_back(member);
  }
  const auto begin = matchmaking::wire::to_wire(matchmaking::seal(std::move(group)));
  write_one("matchmaking_wire", "begin", *frame::encode(matchmaking::wire::Header(begin)));

  matchmaking::Seating seating;
  seating.from = 12;
  seating.radices = {3, 4};
  for (std::uint64_t i = 0; i < 13; ++i) seating.seats.push_back(i * 0x1234'5678'9abcU);
  seating.clients = {seating.seats[0], seating.seats[8]};
  write("seating", "grid", behind(0, joined({matchmaking::encode(seating).front()})));
  matchmaking::Seating large = seating;
  large.radices = {8, 8};
  for (std::uint64_t i = 13; i < 300; ++i) large.seats.push_back(i * 0x1234'5678'9abcU);
  const auto pieces = matchmaking::encode(large);
  write("seating", "three-pieces", behind(0, joined({pieces[0], pieces[1], pieces[2]})));
  Bytes other_from = pieces[1];
  other_from[0] ^= std::byte(1);
  write_one("seating", "second-piece-of-another-epoch", behind(0, joined({pieces[0], other_from, pieces[2]})));
  matchmaking::Seating alone;
  alone.radices = {5};
  write_one("seating", "one-group", behind(0, joined({matchmaking::encode(alone).front()})));
  FieldWriter made;
  made.add(std::uint8_t(1)).add(std::uint64_t(4)).add(std::uint8_t(2)).add(std::uint8_t(1)).add(std::uint8_t(2));
  for (std::uint64_t i = 0; i < 20; ++i) made.add((i << 40U) + i % 3);
  write("seating", "made", made.finish());
}

void write_directory() {
  const Identity identity = Identity::generate(Identity::Seed{5});
  directory::Record draft;
  draft.key = "k";
  draft.sequence = 7;
  draft.expires_ms = 1'893'456'000'000;
  draft.value = bytes_of("x");
  const directory::SignedRecord record = directory::sign_record(identity, "demo", draft);
  const directory::SignedRecord* one = &record;
  const Bytes records = directory::wire::pack_records(std::span(&one, 1));
  directory::wire::Find find;
  find.key = "k";
  find.records = 1;
  write("directory_wire", "find", *frame::encode(directory::wire::Header(find), records));
  const directory::RouteNode node{identity.id(), {{"10.0.0.1", 4600}, {"2001:db8::1", 4601}}};
  const directory::RouteNode* const nodes[] = {&node, &node};
  const Bytes packed = directory::wire::pack_nodes(nodes);
  Bytes payload = records;
  payload.insert(payload.end(), packed.begin(), packed.end());
  directory::wire::Found found;
  found.serves = true;
  found.records = 1;
  found.nodes = 1;
  found.followers = 1;
  write("directory_wire", "found", *frame::encode(directory::wire::Header(found), payload));
  found.nodes = 3;
  write_one("directory_wire", "found-one-node-too-few", *frame::encode(directory::wire::Header(found), payload));
}

void write_work() {
  Work work(WorkRange{0, 64});
  work.add({128, 64});
  write("lease", "two-ranges", directory::encode_lease(work));
  Bytes overlapping = directory::encode_lease(work);
  const Bytes more = directory::encode_lease(Work(WorkRange{32, 128}));
  overlapping.insert(overlapping.end(), more.begin(), more.end());
  overlapping.insert(overlapping.end(), more.begin(), more.end());
  write_one("lease", "overlap", overlapping);
  FieldWriter last;
  last.add(~std::uint64_t(0)).add(std::uint32_t(1));
  write_one("lease", "end-of-numbers", last.finish());

  data::Ledger ledger;
  ledger.add(work);
  ledger.add(Work(WorkRange{32, 100}));
  write("ledger", "two-rounds", ledger.canonical());
  FieldWriter many;
  many.add(std::uint64_t(0)).add(std::uint64_t(0)).add(std::uint32_t(0xffffffff));
  write_one("ledger", "four-billion-ranges", many.finish());
}

void write_node() {
  const Identity authority = Identity::generate(Identity::Seed{7});
  node::Manifest manifest;
  manifest.run_id = "demo";
  manifest.authority = authority.id();
  manifest.sequence = 3;
  manifest.recipe = R"({"job":"albert"})";
  manifest.target_batch = 4096;
  node::Contact coordinator;
  coordinator.peer = authority.id();
  coordinator.addresses = {{"coordinator", 4600}, {"2001:db8::1", 4600}};
  manifest.coordinators.push_back(coordinator);
  const Signed statement = node::sign_manifest(authority, manifest);
  write("manifest", "statement", behind(0, encode(statement)));
  write("manifest", "fields", behind(1, statement.payload));
  node::Manifest web = manifest;
  web.coordinators.front().addresses.push_back({"coordinator", 443, net::Leg::wss});
  write("manifest", "web", behind(0, encode(node::sign_manifest(authority, web))));
  write_one("manifest", "by-another",
            behind(0, encode(node::sign_manifest(Identity::generate(Identity::Seed{8}), manifest))));

  write("lan_discovery", "question", node::encode_lan_question("demo"));
  node::LanAnswer answer;
  answer.run_id = "demo";
  answer.peer = authority.id();
  answer.port = 4600;
  answer.authority = authority.id();
  write("lan_discovery", "answer", node::encode(answer));
  answer.port = 0;
  write_one("lan_discovery", "no-port", node::encode(answer));

  const std::string id = authority.id().text();
  const std::string key = "collab-ed25519-v1 " + to_base32(authority.seed()) + "\n";
  write("key_file", "key", bytes_of(key));
  write_one("key_file", "version-2", bytes_of("collab-ed25519-v2 " + key.substr(18)));
  write_one("key_file", "more-behind", bytes_of(key + "x"));
  write("run_name", "id", bytes_of(id));
  write("run_name", "pinned", bytes_of("demo#" + id));
  write("run_name", "peer", bytes_of(id + "@host:4600"));
  write("run_name", "link", bytes_of("collab://" + id + "@host:4600,[2001:db8::1]:4601/demo?key=" + id));
  write("run_name", "web-link", bytes_of("collab://host:4600,wss://host:443/collab/v1/demo?key=" + id));
  write("run_book", "two-runs",
        bytes_of("[demo]\naddresses = [\"" + id + "@host:4600\", \"[::1]:1\"]\nauthority = \"" + id +
                 "\"\n\n[\"a.b\"]\n" + "addresses = [\"host:1\"]\n"));
  write("contacts", "lines", behind(1, bytes_of(id + " 1893456000000 10.0.0.1:4600 [2001:db8::1]:4600\n")));
  write_one("contacts", "web", behind(1, bytes_of(id + " 1893456000000 wss://10.0.0.1:443/collab/v1\n")));
  write_one("contacts", "hearsay", behind(1, bytes_of(id + " 0 10.0.0.1:4600\n" + id + " -5 10.0.0.2:1\n")));
  write_one("contacts", "no-number", behind(1, bytes_of(id + " x 10.0.0.1:4600\n")));
}

void write_ways_out() {
  write("address", "bare", bytes_of("host.example:4600"));
  write("address", "v6", bytes_of("[2001:db8::1]:4600"));
  const std::string relay = Identity::generate(Identity::Seed{9}).id().text();
  write("address", "relay", bytes_of("relay://192.0.2.1:4600/" + relay));
  write("address", "web", bytes_of("wss://host.example:8443/collab/v1"));
  write("address", "web-v6", bytes_of("wss://[fe80::1%eth0]/collab/v1"));
  write("proxy_answer", "leads",
        behind(0, bytes_of("HTTP/1.1 200 Connection established\r\nVia: 1.1 somebody\r\n\r\n")));
  write("proxy_answer", "login",
        behind(0, bytes_of("HTTP/1.1 407 No\r\nProxy-Authenticate: Negotiate\r\nProxy-Authenticate: Basic x\r\n\r\n")));
  write_one("proxy_answer", "loose", behind(0, bytes_of("HTTP/1.0 502\n\n")));
  write(
      "proxy_answer", "named",
      behind(1, bytes_of("http://anna:p%40ss@[2001:db8::1]:3128/\n.example, 10.0.0.0/8, [::1]:443, 2001:db8::/32, *")));
}

void write_recipe() {
  const std::string text = recipes::to_json(recipes::Recipe());
  write("recipe", "default", bytes_of(text));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return bytes_of(changed.replace(changed.find(from), from.size(), to));
  };
  write_one("recipe", "heads-twice", with("\"heads\": 4", "\"heads\": 4, \"heads\": 8"));
  write_one("recipe", "heads-zero", with("\"heads\": 4", "\"heads\": 0"));
  write_one("recipe", "more-than-64-bits", with("\"layers\": 2", "\"layers\": 99999999999999999999"));
  write_one("recipe", "infinite", with("\"init\": 0.04", "\"init\": 1e999"));
  write_one("recipe", "deep", bytes_of(std::string(2000, '[')));
}

void write_monitor() {
  monitor::RoundView round;
  round.epoch = 7;
  round.group = std::string(64, 'a');
  round.result = "committed";
  round.exchange_s = 0.25;
  round.members.resize(2);
  round.members[1].left_out = "frozen";
  directory::PeerRecord peer;
  peer.listen = {{"10.0.0.1", 4600}};
  peer.role = "full";
  peer.name = "a \xe2\x80\xae name\x1b[2J";
  FieldWriter script;
  const auto add = [&](std::uint8_t kind, const Bytes& value) {
    script.add(kind).add(static_cast<std::uint16_t>(value.size())).add_raw(value);
  };
  add(0, *directory::encode(peer));
  add(4, *directory::encode(peer));
  add(1, progress::encode(progress_record()));
  add(2, *monitor::encode_round(round));
  round.result = "failed";
  round.reason = "half a letter \xc3";
  add(6, *monitor::encode_round(round));
  add(3, monitor::encode_evaluation({7, 3.5}));
  write("monitor_view", "everything", script.finish());
}

void write_checkpoint() {
  const std::array<float, 2> values{1.5F, -2};
  const safetensors::Tensor tensor{"w", DType::float32, {2}, std::as_bytes(std::span(values))};
  const safetensors::Metadata head{{"epoch", "7"}, {"run", "demo"}, {"root", std::string(64, '0')}};
  const Bytes model = safetensors::write(std::span(&tensor, 1), head);
  const auto raw = std::span(reinterpret_cast<const unsigned char*>(model.data()), model.size());
  const std::string hash =
      to_hex(Hasher("collab.checkpoint.model").add(raw.first(raw.size() - 8)).add(raw.last(8)).finish());
  const Bytes section = bytes_of("moments");
  const safetensors::Tensor moments{"optimizer", DType::uint8, {7}, section};
  const safetensors::Metadata resume{{"model", hash},
                                     {"section:optimizer", "0 " + to_hex(state::content_hash(section))}};
  FieldWriter writer;
  writer.add(std::uint8_t(0)).add(static_cast<std::uint16_t>(model.size())).add_raw(model);
  writer.add_raw(safetensors::write(std::span(&moments, 1), resume));
  write("checkpoint", "one-section", writer.finish());
  write("checkpoint", "made",
        behind(1, joined({bytes_of("a"), bytes_of("1"), section, bytes_of("b"), bytes_of("0"), {}})));
  write_one("checkpoint", "section-without-name",
            behind(1, joined({{}, bytes_of("0"), section, bytes_of("b"), bytes_of("0"), section})));

  FieldWriter part;
  part.add(std::uint8_t(1)).add(std::uint8_t(255)).add(std::uint16_t(16)).add_raw(bytes_of("sixteen letters."));
  part.add(std::uint8_t(1)).add(std::uint16_t(3)).add_raw(bytes_of("abc")).add(std::uint32_t(0));
  write("part_file", "nothing-there", part.finish());
  FieldWriter whole;
  whole.add(std::uint8_t(0)).add(std::uint8_t(64)).add(std::uint16_t(1)).add_raw(bytes_of("a")).add(std::uint32_t(0));
  whole.add_raw(bytes_of(std::string(64, 'a')));
  write("part_file", "all-there", whole.finish());
}

/// Of prepared_fuzz: everything but the hash at the end.
void write_prepared() {
  data::FileHeader header;
  header.vocabulary = 12;
  header.sequence = 8;
  header.held_out_one_in = 10;
  header.tokens = 4;
  header.sentences = 2;
  header.train_windows = 1;
  FieldWriter writer;
  writer.add_raw(std::as_bytes(std::span(&header, 1)));
  for (const std::uint64_t place : {0, 4, 0, 2}) writer.add(place);
  for (const std::uint32_t number : {6, 7, 8, 9, 2, 4}) writer.add(number);
  write("prepared", "one-window", writer.finish());
  header.train_windows = ~std::uint64_t(0) / 8;
  writer.add_raw(std::as_bytes(std::span(&header, 1)));
  write_one("prepared", "more-windows-than-bytes", writer.finish());
}

/// The round that missed_round_fuzz knows as honest, and the scripts that it signs.
void write_missed_round() {
  TensorInfo tensor;
  tensor.name = "all";
  tensor.shape = {3 * static_cast<std::int64_t>(kUnitValues)};
  Schema schema;
  schema.tensors.push_back(tensor);
  const CodecMap codecs(schema, CodecOptions::all(CodecId::linear8));
  matchmaking::Group group;
  group.epoch = 5;
  group.codec_map = averaging::codec_map_digest(codecs);
  group.chunk_units = 1;
  std::map<PeerId, Identity> identities;
  for (unsigned char i = 1; i <= 3; ++i) {
    Identity identity = Identity::generate(Identity::Seed{i});
    matchmaking::Member member;
    member.id = identity.id();
    member.weight_max = 9;
    member.units = 1;
    group.roster.push_back(member);
    identities.emplace(identity.id(), std::move(identity));
  }
  const auto shape = averaging::Shape::of(matchmaking::seal(std::move(group)), codecs).value();
  std::vector<averaging::SegmentResult> results;
  averaging::wire::Proof proof;
  FieldWriter script;
  script.add(std::uint8_t(1));
  for (std::uint8_t segment = 0; segment < 3; ++segment) {
    const std::vector<float> values(kUnitValues, static_cast<float>(segment + 1));
    averaging::wire::Average average;
    average.group = shape->group.id;
    average.segment = segment;
    average.senders = 7;
    average.weight = 12;
    const Frame frame =
        frame::encode(averaging::wire::Header(average), *codecs.encode(values, segment * kUnitValues, {}));
    const auto message = frame::decode<averaging::wire::Header>(*frame);
    results.emplace_back(*shape, segment);
    (void)results.back().add(average, frame, message->payload);
    proof.manifest.push_back(results.back().digest());
    script.add(static_cast<std::uint8_t>(129 + segment));  // a multiple of 3, and the 8th bit
    script.add(std::uint8_t(0)).add(std::uint8_t(7)).add(std::uint8_t(12)).add(std::uint16_t(0));
  }
  for (std::uint8_t rank = 0; rank < 3; ++rank) {
    const Identity& identity = identities.at(shape->group.roster[rank].id);
    const auto signature = identity.sign(averaging::hold_bytes(shape->group.id, 0, proof.manifest));
    proof.holds.push_back({rank, signature});
  }
  const averaging::CommittedRound round(shape, proof, std::move(results));
  const Bytes bytes = epoch::encode(round);
  write_one("missed_round", "round", behind(0, bytes));
  Bytes bent = behind(0, bytes);
  bent.back() ^= std::byte(1);
  write_one("missed_round", "bent", bent);
  write("missed_round", "signed", script.finish());
  FieldWriter weightless;
  weightless.add(std::uint8_t(1));
  for (std::uint8_t segment = 0; segment < 3; ++segment)
    weightless.add(segment).add(std::uint8_t(0)).add(std::uint16_t(0)).add(std::uint16_t(0));
  write_one("missed_round", "without-weight", weightless.finish());
  FieldWriter counted;
  counted.add(std::uint8_t(0))
      .add_blob({})
      .add_blob({})
      .add(std::uint32_t(19'000))
      .add_raw(Bytes(20'000, std::byte(0xff)));
  write_one("missed_round", "more-averages-than-bytes", counted.finish());
}

/// Parts of one tensor: of what the target makes a map of, and the payload.
Bytes parts_of(CodecId id, std::uint16_t values, std::span<const std::byte> payload) {
  std::uint8_t first = 25;  // from here on it says what parts are written by
  while (kCodecIds[first % kCodecIds.size()] != id) ++first;
  const auto low = static_cast<std::uint8_t>(values & 0xffU);
  const auto high = static_cast<std::uint8_t>(values >> 8U);
  return FieldWriter()
      .add(first)
      .add(low)
      .add(high)
      .add(std::uint8_t(0))
      .add(std::uint8_t(0))
      .add_raw(payload)
      .finish();
}

Bytes encoded(CodecId id, std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i * i % 101) / 64 - 0.75F;
  Bytes out(codec(id).encoded_bytes({0, size}));
  (void)codec(id).encode(values, 0, {}, out);
  return out;
}

/// Those that owe.
void write_codec() {
  constexpr std::uint16_t kValues = 300;
  const auto write_changed = [](CodecId id, const std::string& name, std::size_t at, std::initializer_list<int> bytes) {
    Bytes payload = encoded(id, kValues);
    for (const int byte : bytes) payload[at++] = static_cast<std::byte>(byte);
    write_one("codec", name, parts_of(id, kValues, payload));
  };
  const Bytes largest = encoded(CodecId::topk, kValues);  // ten positions, then ten float16
  const std::size_t half = largest.size() / 2;
  write_one("codec", "topk", parts_of(CodecId::topk, kValues, largest));
  write_changed(CodecId::topk, "topk-descending", half - 2, {0, 0});
  write_changed(CodecId::topk, "topk-outside", half - 2, {kValues & 0xff, kValues >> 8});
  write_changed(CodecId::topk, "topk-not-finite", largest.size() - 2, {0x00, 0x7c});

  write_changed(CodecId::powersgd, "powersgd", 0, {});
  write_changed(CodecId::powersgd, "powersgd-scale-negative", 3, {0xbf});
  Bytes far(encoded(CodecId::powersgd, kValues).size(), std::byte(0xff));  // all factors 65504, and as large a scale
  for (std::size_t i = 1; i < far.size(); i += 2) far[i] = std::byte(0x7b);
  far[3] = std::byte(0x7f);
  far[2] = std::byte(0x7f);
  write_one("codec", "powersgd-largest", parts_of(CodecId::powersgd, kValues, far));
  Bytes zeros(far.size());
  zeros.back() = std::byte(1);
  write_one("codec", "powersgd-zeros-but-one", parts_of(CodecId::powersgd, kValues, zeros));
  write_one("codec", "powersgd-short", parts_of(CodecId::powersgd, 200, encoded(CodecId::powersgd, 200)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    std::cerr << "usage: " << argv[0] << " FOLDER\n";
    return 2;
  }
  corpus = argv[1];
  write_progress();
  write_epoch();
  write_matchmaking();
  write_directory();
  write_work();
  write_node();
  write_ways_out();
  write_recipe();
  write_monitor();
  write_checkpoint();
  write_prepared();
  write_missed_round();
  write_codec();
}
