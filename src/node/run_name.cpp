#include "node/run_name.hpp"

#include "crypto/signed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace collab::node {
namespace {

constexpr std::string_view kScheme = "collab://";
constexpr std::string_view kKeyParameter = "key=";

PeerId parse_key(std::string_view text, std::string_view whole) {
  const auto key = PeerId::parse(text);
  if (key) return *key;
  throw Failure(ExitCode::usage, fmt::format("the key in {} is none: {}", whole, key.error().message()),
                "copy the whole key, 56 letters");
}

/// Cuts `text` at the first `at`, which goes; false when there is none.
bool cut(std::string_view& text, char at, std::string_view& tail) {
  const auto found = text.find(at);
  if (found == std::string_view::npos) return false;
  tail = text.substr(found + 1);
  text = text.substr(0, found);
  return true;
}

}  // namespace

bool is_run_id(std::string_view text) noexcept {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kRunIdBytesMax && std::all_of(text.begin(), text.end(), is_letter);
}

std::string to_string(const RunName& name) {
  return name.authority ? name.run_id + "#" + name.authority->text() : name.run_id;
}

RunName parse_run_name(std::string_view text) {
  const std::string_view whole = text;
  RunName name;
  if (std::string_view key; cut(text, '#', key)) name.authority = parse_key(key, whole);
  if (!is_run_id(text)) {
    throw Failure(ExitCode::usage, fmt::format("\"{}\" is no run id", text),
                  "give 1 to 64 of the characters a-z 0-9 . _ -");
  }
  name.run_id = text;
  return name;
}

std::string to_string(const PeerAddress& at) {
  const std::string address = net::to_string(at.address);
  return at.peer ? at.peer->text() + "@" + address : address;
}

PeerAddress parse_peer_address(std::string_view text) {
  const std::string_view whole = text;
  PeerAddress at;
  if (std::string_view rest; cut(text, '@', rest)) {
    at.peer = parse_key(text, whole);
    text = rest;
  }
  const auto address = net::parse_address(text);
  if (!address) {
    throw Failure(ExitCode::usage, fmt::format("\"{}\" is no address", whole),
                  "give host:port, wss://host/collab/v1, or ID@ and one of these");
  }
  at.address = *address;
  return at;
}

bool looks_like_link(std::string_view text) noexcept {
  const std::size_t scheme = text.find("://");
  return scheme != std::string_view::npos && !text.substr(0, scheme).ends_with("wss");  // which is an address
}

std::string to_string(const JoinLink& link) {
  std::string out(kScheme);
  for (const PeerAddress& at : link.addresses) {
    if (&at != &link.addresses.front()) out += ",";
    out += to_string(at);
  }
  out += "/" + link.run.run_id;
  if (link.run.authority) out += fmt::format("?{}{}", kKeyParameter, link.run.authority->text());
  return out;
}

JoinLink parse_join_link(std::string_view text) {
  const auto refuse = [](const std::string& why) {
    throw Failure(ExitCode::usage, "the join link " + why, "copy the whole link: collab://host:port/run?key=…");
  };
  if (text.size() > kLinkBytesMax) refuse("is too long");
  if (!text.starts_with(kScheme)) refuse("does not begin with collab://");
  text.remove_prefix(kScheme.size());
  JoinLink link;
  if (std::string_view query; cut(text, '?', query)) {
    if (!query.starts_with(kKeyParameter)) refuse(fmt::format("has an unknown parameter: {}", query));
    link.run.authority = parse_key(query.substr(kKeyParameter.size()), "the join link");
  }
  const std::size_t slash = text.rfind('/');  // an address may have some too
  if (slash == std::string_view::npos) refuse("names no run");
  const std::string_view path = text.substr(slash + 1);
  text = text.substr(0, slash);
  if (!is_run_id(path)) refuse(fmt::format("names a run that cannot be: \"{}\"", path));
  link.run.run_id = path;
  for (bool more = true; more;) {
    std::string_view rest;
    more = cut(text, ',', rest);
    link.addresses.push_back(parse_peer_address(text));
    text = rest;
    if (link.addresses.size() > kLinkAddressesMax) refuse("has too many addresses");
  }
  return link;
}

std::filesystem::path default_home(const std::string& run_id) {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return std::filesystem::path(data) / "collab" / run_id;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : ".") / ".local/share/collab" / run_id;
}

}  // namespace collab::node
