#include "cli/keys.hpp"

#include "base/text.hpp"
#include "crypto/key_file.hpp"
#include "crypto/token.hpp"
#include "node/ban_file.hpp"
#include "node/manifest.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

namespace collab::cli {
namespace {

constexpr std::int64_t kBanLengthMaxMs = std::int64_t(3653) * 24 * 3600 * 1000;

std::string words_of_length(std::int64_t ms) {
  return human_seconds(static_cast<double>(ms) / 1000);
}

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw Failure(ExitCode::usage, what, remedy);
}

std::optional<PeerId> id_in(const std::filesystem::path& file) {
  const auto seed = key_file::read(file);
  return seed ? std::optional(Identity::generate(*seed).id()) : std::nullopt;
}

/// The authority's key, which has to be this run's when the run is known here.
Identity authority_of(const KeysRequest& request) {
  Identity authority = read_authority(request.authority);
  const auto statement = node::load_manifest(request.manifest);
  if (!statement) return authority;
  const auto manifest = node::read_manifest(*statement, request.run_id, std::nullopt);
  if (!manifest) throw Failure(ExitCode::incompatible, manifest.error().reason, "another --home");
  if (manifest->authority != authority.id()) {
    refuse(fmt::format("{} is not the key of {}'s authority, which is {}", request.authority.string(), request.run_id,
                       manifest->authority.text()),
           "--authority FILE with that key");
  }
  return authority;
}

PeerId peer_in(const KeysRequest& request, std::size_t word) {
  if (request.words.size() <= word)
    refuse("which peer is not said", "its id, as collab-peer keys show prints it: 56 letters");
  const auto peer = PeerId::parse(request.words[word]);
  if (!peer) {
    refuse(fmt::format("\"{}\" is no peer: {}", request.words[word], peer.error().message()),
           "its id, as collab-peer keys show prints it");
  }
  return *peer;
}

std::string reason_of(const KeysRequest& request, const char* otherwise) {
  if (request.reason.size() > kBanReasonBytesMax)
    refuse(fmt::format("the reason has {} bytes", request.reason.size()),
           fmt::format("--reason with at most {}", kBanReasonBytesMax));
  return request.reason.empty() ? otherwise : request.reason;
}

/// Rises with time, and two that are made at one moment differ.
TokenSerial new_serial(std::int64_t now_ms) {
  return static_cast<std::uint64_t>(now_ms) << 16U | randombytes_uniform(1U << 16U);
}

int create(const KeysRequest& request) {
  for (const auto& file : {request.identity, request.authority}) {
    if (file.empty()) continue;
    if (const auto known = id_in(file)) {
      fmt::print("{} is there already: {}\n", file.string(), known->text());
    } else {
      fmt::print("{} made: {}\n", file.string(), Identity::load_or_create(file).id().text());
    }
  }
  return 0;
}

int show(const KeysRequest& request) {
  const auto own = id_in(request.identity);
  if (!own) {
    refuse(fmt::format("there is no key in {} yet", request.identity.string()),
           request.program + " keys create, with the same options");
  }
  fmt::print("peer {}\n", own->text());
  const auto authority = request.authority.empty() ? std::nullopt : id_in(request.authority);
  if (authority) fmt::print("authority {}\n", authority->text());
  return 0;
}

int make_token(const KeysRequest& request) {
  Token token;
  token.run_id = request.run_id;
  token.peer = peer_in(request, 1);
  token.claims = request.claims.empty() ? kMemberClaims : Claims();
  for (const std::string& word : request.claims) {
    const auto claim = claim_named(word);
    if (!claim) refuse(fmt::format("no claim \"{}\"", word), "some of: " + to_string(kEveryClaim));
    token.claims.add(*claim);
  }
  if (!token.claims.has(Claim::join)) refuse("without the claim join a token opens nothing", "--claims join and more");
  const std::int64_t length_ms = parse_length(request.length);
  if (length_ms > kTokenLifetimeMaxMs)
    refuse(fmt::format("a token cannot hold for {}", words_of_length(length_ms)), "--for 7d at most");
  token.serial = new_serial(request.now_ms);
  token.not_before_ms = request.now_ms - kTokenSkewMs;
  token.expires_ms = request.now_ms + length_ms;
  const Bytes bytes = sign_token(authority_of(request), token);
  fmt::print("{}", token_text(bytes));
  std::fflush(stdout);
  fmt::print(stderr,
             "in run {} the peer {} may {}, for {} from now\nput the line into the file \"token\" in that peer's home; "
             "taken back by: {} keys revoke {} --run-id {}\n",
             request.run_id, token.peer.text(), to_string(token.claims), words_of_length(length_ms), request.program,
             token.serial, request.run_id);
  return 0;
}

void tell(const KeysRequest& request, const std::string& what) {
  fmt::print("{}; it is in {}, and a coordinator that runs with this home hands it on\n", what, request.bans.string());
}

int revoke(const KeysRequest& request) {
  Ban ban;
  TokenSerial serial = 0;
  const std::string word = request.words.size() > 1 ? request.words[1] : std::string();
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), serial);
  if (word.empty() || error != std::errc() || end != word.data() + word.size())
    refuse(fmt::format("\"{}\" is no serial of a token", word), "the number that keys token has shown");
  ban.target = serial;
  ban.reason = reason_of(request, "by the run's authority");
  ban.from_ms = request.now_ms - kTokenSkewMs;
  ban.until_ms = request.now_ms + kTokenLifetimeMaxMs + kTokenSkewMs;  // then every token that there is has expired
  ban.sequence = static_cast<std::uint64_t>(request.now_ms);
  node::add_to_ban_file(request.bans, node::ban_record(authority_of(request), request.run_id, ban), request.now_ms);
  tell(request, fmt::format("token {} is revoked", serial));
  return 0;
}

int lift(const KeysRequest& request, const Identity& authority, const Ban& of) {
  for (const auto& known : node::read_ban_file(request.bans)) {
    if (known.record.subkey != target_name(of) || known.record.value.empty()) continue;
    Ban old = of;
    old.until_ms = known.record.expires_ms;
    const auto lifted =
        node::lifted_record(authority, request.run_id, old, std::max(of.sequence, known.record.sequence + 1));
    node::add_to_ban_file(request.bans, lifted, request.now_ms);
    tell(request, fmt::format("the ban of {} is lifted", std::get<PeerId>(of.target).text()));
    return 0;
  }
  refuse(fmt::format("{} holds no ban of {}", request.bans.string(), std::get<PeerId>(of.target).text()),
         "--home where it was banned");
}

}  // namespace

std::int64_t parse_length(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const std::int64_t ms = unit == "s" ? 1000 : unit == "m" ? 60'000 : unit == "h" ? 3'600'000 : 86'400'000;
  const bool known = unit == "s" || unit == "m" || unit == "h" || unit == "d";
  if (error != std::errc() || !known || number <= 0 || number > kBanLengthMaxMs / ms)
    refuse(fmt::format("\"{}\" is no length of time", text), "90s, 30m, 24h or 7d; 1 s to 10 years");
  return number * ms;
}

Identity read_authority(const std::filesystem::path& file) {
  const auto seed = file.empty() ? std::nullopt : key_file::read(file);
  if (!seed) {
    refuse(file.empty() ? "only the run's authority may do that, and its key is not given"
                        : fmt::format("only the run's authority may do that, and {} is not there", file.string()),
           "--authority FILE with its key");
  }
  return Identity::generate(*seed);
}

KeysRequest keys_request(const node::Config& config, std::vector<std::string> words) {
  KeysRequest request;
  request.words = std::move(words);
  for (const std::string& text : config.list("claims")) {
    for (std::size_t first = 0; first <= text.size();) {
      const std::size_t last = std::min(text.find(',', first), text.size());
      request.claims.push_back(text.substr(first, last - first));
      first = last + 1;
    }
  }
  request.length = config.text("for");
  request.reason = config.text("reason");
  request.now_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  return request;
}

int run_keys(const KeysRequest& request) {
  const std::string what = request.words.empty() ? "show" : request.words.front();
  if (what == "create") return create(request);
  if (what == "show") return show(request);
  if (what == "token") return make_token(request);
  if (what == "revoke") return revoke(request);
  refuse(fmt::format("keys does not know \"{}\"", what), "keys create, show, token PEER or revoke SERIAL");
}

int run_ban(const KeysRequest& request) {
  Ban ban;
  const PeerId peer = peer_in(request, 0);
  const Identity authority = authority_of(request);
  if (peer == authority.id()) refuse("the authority cannot ban itself", "another peer's id");
  ban.target = peer;
  ban.from_ms = request.now_ms - kTokenSkewMs;
  ban.sequence = static_cast<std::uint64_t>(request.now_ms);
  if (request.lift) return lift(request, authority, ban);
  if (request.reason.empty()) refuse("why the peer is banned is not said", "--reason TEXT; its user will read it");
  ban.reason = reason_of(request, "");
  const std::int64_t length_ms = parse_length(request.length);
  ban.until_ms = request.now_ms + length_ms;
  node::add_to_ban_file(request.bans, node::ban_record(authority, request.run_id, ban), request.now_ms);
  tell(request, fmt::format("{} is banned for {}", peer.text(), words_of_length(length_ms)));
  return 0;
}

}  // namespace collab::cli
