#include "monitor/report_reader.hpp"

#include "base/frame.hpp"

#include <cmath>
#include <limits>

#include "support/doctest.hpp"

namespace collab::monitor {
namespace {

PeerId long_peer(unsigned char number) {
  PeerId id;
  for (std::size_t i = 0; i < id.key.size(); ++i) id.key[i] = static_cast<unsigned char>(number + i);
  return id;
}

RoundView round_of(std::size_t members) {
  RoundView round;
  round.epoch = 1204;
  round.round = 1;
  round.group = std::string(62, 'a') + "0f";
  round.result = "committed";
  round.exchange_s = 0.25;
  round.commit_s = 0.5;
  round.apply_s = kUnknown;
  round.samples = 4096;
  round.up_bytes = 1'250'000;
  round.down_bytes = 1'300'000;
  for (std::size_t i = 0; i < members; ++i) {
    RoundMember member;
    member.id = long_peer(static_cast<unsigned char>(3 * i));
    member.samples = 100 + i;
    member.counted = i == 2 ? 0.75 : 1;
    if (i == 2) member.left_out = "frozen";
    round.members.push_back(member);
  }
  return round;
}

directory::Record record(unsigned char owner, Bytes value) {
  directory::Record out;
  out.owner = long_peer(owner);
  out.value = std::move(value);
  return out;
}

}  // namespace

TEST_CASE("monitor wire: a round of 64 fits a record and comes back, its members by the beginning of their ids") {
  const auto value = encode_round(round_of(64));
  REQUIRE(value);
  CHECK(value->size() <= directory::kValueBytesMax);
  const auto round = decode_round(*value);
  REQUIRE(round);
  CHECK(round->epoch == 1204);
  CHECK(round->group == round_of(0).group);
  CHECK(round->result == "committed");
  CHECK(round->commit_s == 0.5);
  CHECK(std::isnan(round->apply_s));
  CHECK(round->down_bytes == 1'300'000);
  REQUIRE(round->members.size() == 64);
  CHECK(round->members[2].left_out == "frozen");
  CHECK(round->members[2].counted == 0.75);
  CHECK(round->members[3].left_out.empty());
  CHECK(round->members[63].samples == 163);
  CHECK_FALSE(round->members[63].whole_id);
  CHECK(round->members[63].id.short_text() == long_peer(3 * 63 % 256).short_text());
  CHECK_FALSE(encode_round(round_of(65)));
}

TEST_CASE("monitor wire: a failure tells its reason, cut to what a record holds") {
  RoundView failed;
  failed.result = "failed";
  failed.reason = std::string(199, 'x') + "é and more";
  const auto round = decode_round(*encode_round(failed));
  REQUIRE(round);
  CHECK(round->result == "failed");
  CHECK(round->group.empty());
  CHECK(round->reason == std::string(199, 'x'));
}

TEST_CASE("monitor wire: numbers that no round has, and halves of members, are refused") {
  const auto refused = [](auto change, std::size_t payload = 12) {
    wire::RoundV1 round;
    change(round);
    return !decode_round(*frame::encode(wire::Header(round), Bytes(payload)));
  };
  const auto nothing = [](wire::RoundV1&) {};
  CHECK_FALSE(refused(nothing));
  CHECK(refused(nothing, 13));
  CHECK(refused(nothing, 65 * 12));
  CHECK(refused([](wire::RoundV1& round) { round.exchange_s = -1; }));
  CHECK(refused([](wire::RoundV1& round) { round.commit_s = std::numeric_limits<double>::infinity(); }));
  CHECK(refused([](wire::RoundV1& round) { round.samples = ~std::uint64_t(0); }));
  CHECK(refused([](wire::RoundV1& round) { round.reason = std::string(201, 'x'); }));
  CHECK_FALSE(decode_round(encode_evaluation({7, 3.5})));
  CHECK_FALSE(decode_evaluation(*encode_round(round_of(1))));
  CHECK_FALSE(decode_evaluation(encode_evaluation({7, std::nan("")})));
  CHECK(decode_evaluation(encode_evaluation({7, 3.5}))->loss == 3.5);
}

TEST_CASE("report reader: a round comes once, whoever tells it and however often it is renewed") {
  ReportReader reader;
  const Bytes value = *encode_round(round_of(3));
  const auto first = reader.rounds({record(1, value), record(2, value)}, {long_peer(0), long_peer(3)}, 5000);
  REQUIRE(first.size() == 1);
  CHECK(first[0].told_by == long_peer(1));
  CHECK(first[0].ended_unix_ms == 5000);
  CHECK(first[0].members[0].whole_id);
  CHECK(first[0].members[0].id == long_peer(0));
  CHECK_FALSE(first[0].members[2].whole_id);
  CHECK(reader.rounds({record(1, value), record(2, value)}, {}, 6000).empty());
  RoundView next = round_of(3);
  ++next.epoch;
  CHECK(reader.rounds({record(1, *encode_round(next))}, {}, 7000).size() == 1);
}

TEST_CASE("report reader: what is no record, and a second member that begins alike, change nothing") {
  ReportReader reader;
  CHECK(reader.rounds({record(1, Bytes(40)), record(2, {})}, {}, 0).empty());
  PeerId twin = long_peer(0);
  twin.key[31] ^= 1;
  const auto rounds = reader.rounds({record(1, *encode_round(round_of(1)))}, {long_peer(0), twin}, 0);
  REQUIRE(rounds.size() == 1);
  CHECK_FALSE(rounds[0].members[0].whole_id);
}

TEST_CASE("report reader: an evaluation comes once for each that is told") {
  ReportReader reader;
  CHECK(reader.evaluations({record(1, encode_evaluation({100, 7}))}).size() == 1);
  CHECK(reader.evaluations({record(1, encode_evaluation({100, 7}))}).empty());
  const auto next = reader.evaluations({record(1, encode_evaluation({200, 6})), record(2, Bytes(9))});
  REQUIRE(next.size() == 1);
  CHECK(next[0].epoch == 200);
  CHECK(next[0].by == long_peer(1));
}

}  // namespace collab::monitor
