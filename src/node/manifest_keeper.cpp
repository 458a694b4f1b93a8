#include "node/manifest_keeper.hpp"

#include "base/frame.hpp"
#include "base/offload.hpp"
#include "base/task_group.hpp"
#include "crypto/fields.hpp"
#include "crypto/hash.hpp"
#include "node/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace collab::node {
namespace {

/// The value of the directory's record: u64 sequence | 32 bytes hash of the statement.
Bytes announcement(const Signed& statement, const Bytes& encoded) {
  Hasher hasher("collab.manifest");
  hasher.add(std::span(reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size()));
  const Digest digest = hasher.finish();
  FieldWriter writer;
  writer.add(statement.sequence).add_raw(std::as_bytes(std::span(digest)));
  return writer.finish();
}

std::uint64_t announced_sequence(const directory::Record& record) {
  FieldReader reader(record.value);
  const auto sequence = reader.take<std::uint64_t>();
  (void)reader.take_raw(Digest().size());  // what is fetched is signed: the hash is for people who compare
  return reader.finish() ? sequence : 0;
}

/// Which field only a new run may change; empty: none did.
std::string_view fixed_field(const Manifest& old, const Manifest& fresh) {
  if (fresh.recipe != old.recipe) return "recipe";
  if (fresh.schema != old.schema) return "schema";
  if (fresh.tokenizer != old.tokenizer) return "tokenizer";
  if (fresh.data != old.data) return "data";
  return {};
}

}  // namespace

net::Method manifest_method() {
  net::Method method;
  method.name = "run.manifest";
  method.traffic = net::TrafficClass::control;
  method.request_bytes_max = 1024;
  method.answer_bytes_max = wire::kManifestAnswerBytesMax;
  method.requests_per_s = 2;
  method.requests_burst = 10;
  method.idempotent = true;
  return method;
}

Task<ManifestAnswer> fetch_manifest(net::Endpoint& endpoint, PeerId from, std::uint64_t have, TimePoint deadline) {
  wire::AskManifest question;
  question.have = have;
  const Frame request = frame::encode(wire::Header(question));
  const auto answer = co_await endpoint.call(from, "run.manifest", request, deadline);
  if (!answer) co_return answer.error();
  const auto message = frame::decode<wire::Header>(**answer);
  const bool given = message && std::holds_alternative<wire::GiveManifest>(message->header);
  if (!given) co_return Refusal(Errc::bad_request, "its answer is no manifest");
  if (message->payload.empty()) co_return std::optional<Signed>();
  auto statement = decode_signed(message->payload);
  if (!statement) co_return Refusal(Errc::bad_request, "its manifest is malformed");
  co_return std::optional<Signed>(std::move(*statement));
}

ManifestKeeper::ManifestKeeper(Needs needs, Signed statement, Manifest manifest, Options options)
    : needs_(std::move(needs)),
      options_(std::move(options)),
      statement_(std::move(statement)),
      manifest_(std::move(manifest)),
      encoded_(encode(statement_)),
      changed_(needs_.loop) {
  const auto answer = [this](PeerId, Frame request, TimePoint) -> Task<net::Answer> { co_return on_ask(request); };
  needs_.endpoint.handle(manifest_method(), answer);
}

net::Answer ManifestKeeper::on_ask(const Frame& request) const {
  const auto message = frame::decode<wire::Header>(*request);
  const auto* ask = message ? std::get_if<wire::AskManifest>(&message->header) : nullptr;
  if (ask == nullptr) return Refusal(Errc::bad_request, "no AskManifest");
  wire::GiveManifest give;
  give.sequence = statement_.sequence;
  const bool as_new = ask->have >= statement_.sequence && ask->have != 0;
  return frame::encode(wire::Header(give), as_new ? std::span<const std::byte>() : std::span(encoded_));
}

Task<boost::system::result<void, Refusal>> ManifestKeeper::offer(Signed statement) {
  auto fresh = read_manifest(statement, manifest_.run_id, manifest_.authority);
  if (!fresh) co_return fresh.error();
  if (fresh->sequence <= manifest_.sequence)
    co_return Refusal(Errc::stale, "the manifest is not newer", manifest_.sequence);
  if (const auto field = fixed_field(manifest_, *fresh); !field.empty())
    co_return Refusal(Errc::bad_request, fmt::format("the manifest changes its {}: that makes a new run", field));
  if (!options_.file.empty()) {
    // on disk first: after a restart the sequence must not have fallen
    const auto work = [file = options_.file, statement] { save_manifest(file, statement); };
    co_await offload(needs_.workers, work);
    if (statement.sequence <= manifest_.sequence)
      co_return Refusal(Errc::stale, "a newer manifest came meanwhile", manifest_.sequence);
  }
  statement_ = std::move(statement);
  manifest_ = std::move(*fresh);
  encoded_ = encode(statement_);
  needs_.log.info("run.manifest_changed", {{"run", manifest_.run_id}, {"sequence", manifest_.sequence}});
  changed_.notify();
  co_return boost::system::result<void, Refusal>();
}

void ManifestKeeper::publish(directory::Directory& directory) const {
  directory.publish(std::string(directory::kManifestKey), "", announcement(statement_, encoded_), options_.record_ttl);
}

Task<> ManifestKeeper::run(directory::Directory& directory) {
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("run.ask_around", ask_around());
    const bool ours = needs_.endpoint.self() == manifest_.authority;
    if (!ours) tasks.spawn("run.follow", follow(directory));
    for (;;) {
      if (ours) publish(directory);
      co_await changed_.wait();
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<> ManifestKeeper::follow(directory::Directory& directory) {
  const auto watch = directory.watch(std::string(directory::kManifestKey));
  for (;;) {
    std::uint64_t newest = 0;
    for (const directory::Record& record : watch->records()) {
      if (record.owner == manifest_.authority) newest = std::max(newest, announced_sequence(record));
    }
    bool missing = newest > manifest_.sequence;
    std::vector<PeerId> servers = needs_.connected();
    servers.insert(servers.begin(), manifest_.authority);  // has it for sure, while it lives
    for (std::size_t i = 0; i < servers.size() && missing; ++i) {
      if (!needs_.endpoint.can_reach(servers[i])) continue;
      (void)co_await update_from(servers[i]);
      missing = newest > manifest_.sequence;
    }
    const TimePoint again = missing ? needs_.clock.now() + options_.timeout : TimePoint::max();
    co_await watch->changed_until(again);
  }
}

/// For changes that nobody can tell to the directory, because the authority's key lives on no node.
Task<> ManifestKeeper::ask_around() {
  for (;;) {
    co_await needs_.clock.sleep_until(needs_.clock.now() + options_.ask_period);
    const std::vector<PeerId> peers = needs_.connected();
    if (!peers.empty()) (void)co_await update_from(peers[needs_.random.below(peers.size())]);
  }
}

/// True when the peer had a newer one, and it was taken.
Task<bool> ManifestKeeper::update_from(PeerId peer) {
  const TimePoint deadline = needs_.clock.now() + options_.timeout;
  auto fetched = co_await fetch_manifest(needs_.endpoint, peer, manifest_.sequence, deadline);
  if (!fetched || !*fetched) co_return false;
  const auto taken = co_await offer(std::move(**fetched));
  if (!taken) {
    needs_.log.warn("run.manifest_refused", {{"peer", peer.short_text()}, {"why", taken.error().reason}});
  }
  co_return taken.has_value();
}

}  // namespace collab::node
