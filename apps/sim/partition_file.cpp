// The FILE of `collab-sim partition`: any bytes in, a case or a message that says where it is wrong.
#include "base/file.hpp"
#include "base/text.hpp"
#include "matchmaking/group.hpp"
#include "options.hpp"
#include "partition.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace collab::sim {
namespace {

using nlohmann::json;

constexpr std::size_t kFileBytesMax = 256'000'000;
constexpr std::size_t kDepthMax = 3;  // of brackets: the file, a list, an entry
constexpr const char* kSeeHelp = "collab-sim partition --help shows a whole file";

std::string text_of(const std::string& file) {
  try {
    const Bytes bytes = read_file(file, kFileBytesMax);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } catch (const Failure& failure) {
    refuse(failure.cause(), fmt::format("the path of a file; {}", kSeeHelp));
  }
}

/// Refuses what the JSON library would take in silence: the last of two fields of one name, and any depth of brackets.
/// (Its parser with a callback could, in time that grows with the square of a list.)
class Strictness : public nlohmann::json_sax<json> {
 public:
  explicit Strictness(std::string file) : file_(std::move(file)) {}

  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!fields_.back().insert(name).second)
      refuse(fmt::format("{}: \"{}\" twice in one object", file_, printable(cut_utf8(name, 60))), "leave one of them");
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override { return false; }

 private:
  bool open() {
    if (fields_.size() == kDepthMax)
      refuse(fmt::format("{}: a list or an object where a value belongs", file_), kSeeHelp);
    fields_.emplace_back();
    return true;
  }
  bool close() {
    fields_.pop_back();
    return true;
  }

  std::string file_;
  std::vector<std::set<std::string>> fields_;  ///< of what is open, by depth
};

json parsed_json(const std::string& file) {
  const std::string text = text_of(file);
  Strictness strictness(file);
  json::sax_parse(text, &strictness);  // what is no JSON is told below
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    const std::string_view all = error.what();
    const auto bracket = all.find("] ");  // what comes before is the library's own number of the error
    const std::string_view reason = bracket == std::string_view::npos ? all : all.substr(bracket + 2);
    refuse(fmt::format("{} is not JSON: {}", file, printable(cut_utf8(reason, 300))), kSeeHelp);
  }
}

/// A value of the file and the way to it, "lines.json: peers[3].up".
class Place {
 public:
  Place(const json& value, std::string path) : value_(value), path_(std::move(path)) {}

  [[noreturn]] void refuse(const std::string& what, const std::string& remedy) const {
    sim::refuse(fmt::format("{} {}", path_, what), remedy);
  }
  std::string shown() const {
    return cut_utf8(printable(value_.dump(-1, ' ', false, json::error_handler_t::replace)), 60);
  }

  void must_be_object(std::span<const std::string> known) const {
    if (!value_.is_object()) refuse(fmt::format("is {}, not an object", shown()), kSeeHelp);
    for (const auto& [name, value] : value_.items()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string_view meant = nearest(name, known);
      refuse(fmt::format("has an unknown field \"{}\"", printable(cut_utf8(name, 60))),
             meant.empty() ? fmt::format("fields are {}", fmt::join(known, ", "))
                           : fmt::format("did you mean {}?", meant));
    }
  }
  std::size_t size() const {
    if (!value_.is_array()) refuse(fmt::format("is {}, not a list", shown()), kSeeHelp);
    return value_.size();
  }
  Place at(std::size_t i) const { return {value_[i], fmt::format("{}[{}]", path_, i)}; }
  bool has(const char* name) const { return value_.contains(name); }
  Place at(const char* name) const {
    if (!has(name)) refuse(fmt::format("has no \"{}\"", name), kSeeHelp);
    const bool root = path_.ends_with(':');
    return {value_[name], fmt::format("{}{}{}", path_, root ? " " : ".", name)};
  }

  double rate() const {
    const double rate = number("a number of bytes/s", "0, or no such field, where it is unknown");
    if (!(rate >= 0)) refuse(fmt::format("is {}, less than nothing", shown()), "bytes/s; 0 where it is unknown");
    return rate;
  }
  std::size_t whole(double least, double most) const {
    const std::string remedy = fmt::format("a whole number from {:.0f} to {:.0f}", least, most);
    const double value = number("a number", remedy);
    if (!(value >= least && value <= most) || value != std::floor(value)) refuse(fmt::format("is {}", shown()), remedy);
    return static_cast<std::size_t>(value);
  }
  CodecId codec() const {
    const auto id = codec_named(text());
    if (!id) refuse(fmt::format("is {}, which is no codec", shown()), kCodecNames);
    return *id;
  }
  CodecId result_codec() const {
    const CodecId id = codec();
    if (owes(id)) refuse(fmt::format("is {}, which is for parts only", shown()), "float16");
    return id;
  }
  std::string text() const {
    if (!value_.is_string()) refuse(fmt::format("is {}, not a text", shown()), kSeeHelp);
    return value_.get<std::string>();
  }

 private:
  double number(const char* what, const std::string& remedy) const {
    if (!value_.is_number()) refuse(fmt::format("is {}, not {}", shown(), what), remedy);
    return value_.get<double>();
  }

  const json& value_;
  std::string path_;
};

averaging::MemberLoad read_peer(const Place& place) {
  static const std::vector<std::string> kFields = {"up", "down", "role"};
  place.must_be_object(kFields);
  averaging::MemberLoad peer;
  if (place.has("up")) peer.up_bytes_per_s = place.at("up").rate();
  if (place.has("down")) peer.down_bytes_per_s = place.at("down").rate();
  if (!place.has("role")) return peer;
  const std::string role = place.at("role").text();
  if (role != "node" && role != "client" && role != "auxiliary")
    place.at("role").refuse(fmt::format("is {}, which is no role", place.at("role").shown()),
                            "node, client (owns nothing) or auxiliary (brings no values)");
  peer.sends = role != "auxiliary";
  peer.reachable = role != "client";
  return peer;
}

std::vector<averaging::MemberLoad> read_peers(const Place& place) {
  const std::size_t count = place.size();
  if (count < 2 || count > kPartitionPeersMax)
    place.refuse(fmt::format("has {} entries", count), fmt::format("2 to {} peers", kPartitionPeersMax));
  std::vector<averaging::MemberLoad> peers;
  for (std::size_t i = 0; i < count; ++i) peers.push_back(read_peer(place.at(i)));
  if (std::none_of(peers.begin(), peers.end(), [](const auto& peer) { return peer.reachable; }))
    place.refuse("are all clients: nobody may own a share", "make one a node or an auxiliary");
  if (std::none_of(peers.begin(), peers.end(), [](const auto& peer) { return peer.sends; }))
    place.refuse("are all auxiliaries: nobody brings values", "make one a node or a client");
  return peers;
}

std::vector<averaging::PairLimit> read_pairs(const Place& place, std::size_t peers) {
  static const std::vector<std::string> kFields = {"a", "b", "bytes_per_s"};
  if (place.size() > 0 && peers > matchmaking::kGroupSizeMax)
    place.refuse(fmt::format("among {} peers", peers),
                 fmt::format("at most {} peers, as in a group, or no pairs", matchmaking::kGroupSizeMax));
  std::vector<averaging::PairLimit> pairs;
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (std::size_t i = 0; i < place.size(); ++i) {
    const Place one = place.at(i);
    one.must_be_object(kFields);
    const double last = static_cast<double>(peers - 1);
    const averaging::PairLimit pair{one.at("a").whole(0, last), one.at("b").whole(0, last),
                                    one.at("bytes_per_s").rate()};
    if (pair.a == pair.b) one.refuse(fmt::format("is peer {} with itself", pair.a), "two numbers of the list of peers");
    if (!seen.insert(std::minmax(pair.a, pair.b)).second)
      one.refuse(fmt::format("names peers {} and {} again", pair.a, pair.b), "one entry holds for both directions");
    pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace

PartitionCase read_partition(const std::string& file) {
  static const std::vector<std::string> kFields = {"values", "part_codec", "result_codec", "peers", "pairs"};
  const json all = parsed_json(file);
  const Place root(all, file + ":");
  root.must_be_object(kFields);
  PartitionCase given;
  given.values = root.at("values").whole(1, kPartitionValuesMax);
  if (root.has("part_codec")) given.part_codec = root.at("part_codec").codec();
  if (root.has("result_codec")) given.result_codec = root.at("result_codec").result_codec();
  given.peers = read_peers(root.at("peers"));
  if (root.has("pairs")) given.pairs = read_pairs(root.at("pairs"), given.peers.size());
  return given;
}

}  // namespace collab::sim
