#include "node/node.hpp"

#include "base/offload.hpp"
#include "base/task_group.hpp"
#include "node/token_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::node {
namespace {

constexpr std::string_view kManifestFile = "manifest.signed";

void check_names(const NodeOptions& options) {
  if (!is_run_id(options.run.run_id)) {
    throw Failure(ExitCode::usage, fmt::format("\"{}\" is no run id", options.run.run_id),
                  "give 1 to 64 of the characters a-z 0-9 . _ -");
  }
  for (const std::string* text : {&options.name, &options.role, &options.software}) {
    if (text->size() <= directory::kNameBytesMax) continue;
    throw Failure(ExitCode::usage, fmt::format("the name \"{}\" is too long", *text), "give at most 64 bytes");
  }
  if (options.announce.size() > directory::kListenAddressesMax)
    throw Failure(ExitCode::usage, "too many addresses to announce", "give at most 8");
}

void add_all(std::vector<Place>& places, const std::vector<PeerAddress>& addresses, Source source) {
  for (const PeerAddress& at : addresses) {
    Place place;
    place.at = at;
    place.source = source;
    add_place(places, std::move(place));
  }
}

std::vector<PeerAddress> addresses_of(const PeerId& peer, const std::vector<net::Address>& addresses) {
  std::vector<PeerAddress> all;
  for (const net::Address& address : addresses) {
    PeerAddress at;
    at.address = address;
    at.peer = peer;
    all.push_back(std::move(at));
  }
  return all;
}

}  // namespace

Node::Node(NodeNeeds needs, Identity identity, NodeOptions options)
    : needs_(std::move(needs)), identity_(std::move(identity)), options_(std::move(options)) {
  check_names(options_);
  if (options_.home.empty()) return;
  if (const auto problem = directory::load_contacts(options_.home / "contacts", contacts_, needs_.clock.unix_ms()))
    needs_.log.warn("node.contacts_damaged", {{"why", *problem}});
  auto stored = load_manifest(options_.home / kManifestFile);
  if (!stored) return;
  auto manifest = read_manifest(*stored, options_.run.run_id, options_.run.authority);
  if (!manifest) {
    conflict_ = Refusal(manifest.error().code,
                        fmt::format("what {} holds does not fit: {}", options_.home.string(), manifest.error().reason));
    return;
  }
  stored_ = std::move(stored);
  stored_manifest_ = std::move(*manifest);
}

Node::~Node() = default;

// --- looking for the run

Expected Node::expected() const {
  Expected expected;
  expected.run_id = options_.run.run_id;
  expected.authority = options_.run.authority;
  if (!expected.authority && options_.run_book_entry) expected.authority = options_.run_book_entry->authority;
  if (stored_manifest_) {
    expected.authority = stored_manifest_->authority;
    expected.sequence_min = stored_manifest_->sequence;
  }
  return expected;
}

/// Where the run may be, without asking anybody.
std::vector<Place> Node::known_places() const {
  std::vector<Place> places;
  add_all(places, options_.bootstrap, Source::given);
  const bool given = !places.empty();
  if (!given && options_.run_book_entry) add_all(places, options_.run_book_entry->addresses, Source::run_book);
  if (stored_manifest_) {
    for (const Contact& coordinator : stored_manifest_->coordinators) {
      if (coordinator.peer == self()) continue;
      add_all(places, addresses_of(coordinator.peer, coordinator.addresses), Source::manifest);
    }
  }
  for (const directory::Contact& contact : contacts_.all()) {
    add_all(places, addresses_of(contact.id, contact.addresses), Source::contact);
  }
  if (!given && options_.loopback_port != 0) {
    PeerAddress here;
    here.address.host = "127.0.0.1";
    here.address.port = options_.loopback_port;
    add_all(places, {here}, Source::loopback);
  }
  return places;
}

Task<std::vector<Place>> Node::places() const {
  std::vector<Place> places = known_places();
  if (!options_.bootstrap.empty() || !options_.lan) co_return places;
  RunName run = options_.run;
  run.authority = expected().authority;
  const auto heard = co_await ask_lan(needs_.loop, needs_.clock, run, *options_.lan);
  add_all(places, heard, Source::lan);
  co_return places;
}

Task<Round> Node::look(net::PeerEndpoint& scout) {
  std::vector<Place> where = co_await places();
  const Connect connect = [&scout](net::Address at, TimePoint deadline) { return scout.connect(at, deadline); };
  co_return co_await search(scout, connect, needs_.clock, std::move(where), expected(), options_.search);
}

net::EndpointOptions Node::scout_options() const {
  net::EndpointOptions options;
  options.run = options_.run.run_id;
  options.software = options_.software;
  return options;
}

void Node::brief(net::PeerEndpoint& scout) const {
  const auto no_answer = [](PeerId, Frame, TimePoint) -> Task<net::Answer> {
    co_return Refusal(Errc::gone, "this node is no member yet");
  };
  scout.handle(manifest_method(), no_answer);
  if (const auto token = TokenFile(token_file(options_)).look()) {
    if (!token->problem.empty()) throw Failure(ExitCode::usage, token->problem, "the line that the run's host gave");
    scout.credentials().present(token->token, {});
  }
}

/// Round after round, until the run is found or there is something that only a person can change.
Task<> Node::look_until(TimePoint deadline, std::optional<Found>& found) {
  Access::Options rules;
  rules.run_id = options_.run.run_id;
  rules.own = self();
  Access access(rules);
  const net::PeerEndpoint::Needs needs{needs_.loop, needs_.clock,   needs_.network, needs_.random.derive("scout"),
                                       needs_.log,  needs_.metrics, identity_,      access};
  net::PeerEndpoint scout(needs, scout_options());
  brief(scout);
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("node.scout", scout.run());
    std::optional<TimePoint> told;
    for (Duration pause = options_.retry_min;; pause = std::min(2 * pause, options_.retry_max)) {
      Round round = co_await look(scout);
      found = std::move(round.found);
      if (found) co_return;
      attempts_ = std::move(round.attempts);
      const TimePoint now = needs_.clock.now();
      if (std::any_of(attempts_.begin(), attempts_.end(), is_final) || now + pause >= deadline) co_return;
      if (!told || now - *told >= options_.tell_every) {
        needs_.log.warn("node.run_not_found", {{"why", describe(options_.run.run_id, attempts_)}, {"retry", true}});
        told = now;
      }
      co_await needs_.clock.sleep_until(now + pause);
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<boost::system::result<Manifest, Refusal>> Node::join(TimePoint deadline) {
  assert(!membership_ && "a node joins once");
  if (conflict_)
    co_return Refusal(conflict_->code, fmt::format("cannot join {}: {}", options_.run.run_id, conflict_->reason));
  std::optional<Found> found;
  co_await look_until(deadline, found);
  if (!found) co_return to_refusal(options_.run.run_id, attempts_);
  const bool first = !expected().authority;
  needs_.log.info("node.joined", {{"run", options_.run.run_id},
                                  {"authority", found->manifest.authority.text()},
                                  {"pinned", first ? "now" : "before"},
                                  {"sequence", found->manifest.sequence},
                                  {"member", found->member.short_text()}});
  const Manifest manifest = found->manifest;
  co_await keep(std::move(*found));
  co_return manifest;
}

Failure Node::join_failure(const Refusal& why) const {
  if (conflict_) {
    return Failure(ExitCode::not_admitted, why.reason, "another --home, or ask the host of the run which key is right");
  }
  return to_failure(options_.run.run_id, attempts_);
}

Task<> Node::keep(Found found) {
  if (!options_.home.empty()) {
    const auto work = [file = options_.home / kManifestFile, statement = found.statement] {
      save_manifest(file, statement);
    };
    co_await offload(needs_.workers, work);
  }
  co_await remember_in_run_book(found);
  std::vector<PeerId> bootstrap;
  if (found.source == Source::given || found.source == Source::run_book) bootstrap.push_back(found.member);
  become_member(found.statement, found.manifest, std::move(bootstrap));
  membership_->meet(found.member, found.address);
}

Task<> Node::remember_in_run_book(const Found& found) {
  if (options_.run_book.empty()) co_return;
  std::vector<Place> places;
  add_all(places, options_.bootstrap, Source::given);
  for (const Contact& coordinator : found.manifest.coordinators) {
    for (const net::Address& address : coordinator.addresses) {
      PeerAddress at;  // without the id: a coordinator may come back with another, the authority's key is what counts
      at.address = address;
      add_all(places, {at}, Source::manifest);
    }
  }
  PeerAddress answered;
  answered.address = found.address;
  add_all(places, {answered}, Source::given);
  RunBookEntry entry;
  for (std::size_t i = 0; i < std::min(places.size(), kLinkAddressesMax); ++i) entry.addresses.push_back(places[i].at);
  entry.authority = found.manifest.authority;
  const auto work = [file = options_.run_book, run = options_.run.run_id, entry] {
    return remember_run(file, run, entry);
  };
  try {
    (void)co_await offload(needs_.workers, work);  // whether it was there already makes no difference
  } catch (const Failure& failure) {               // training needs no run book
    needs_.log.warn("node.run_book_not_written", {{"why", failure.cause()}, {"advice", failure.remedy()}});
  }
}

// --- being a member

void Node::found(const Signed& statement) {
  assert(!membership_ && "a node founds or joins once");
  const auto refuse = [&](const Refusal& why) {
    const bool too_new = why.code == Errc::stale;
    throw Failure(ExitCode::incompatible, fmt::format("cannot host {}: {}", options_.run.run_id, why.reason),
                  too_new ? "update this program" : "another --home, or the manifest and key that belong to this run");
  };
  if (conflict_) refuse(*conflict_);
  auto manifest = check_manifest(statement, expected());
  if (!manifest) refuse(manifest.error());
  if (!options_.home.empty()) save_manifest(options_.home / kManifestFile, statement);
  become_member(statement, std::move(*manifest), {});
}

void Node::become_member(Signed statement, Manifest manifest, std::vector<PeerId> bootstrap) {
  for (const PeerAddress& at : options_.bootstrap) {
    if (at.peer) bootstrap.push_back(*at.peer);
  }
  membership_ = std::make_unique<Membership>(needs_, identity_, options_, std::move(statement), std::move(manifest),
                                             std::move(contacts_), std::move(bootstrap));
}

void Node::add(Role& role) {
  roles_.push_back(&role);
}

Task<> Node::run_roles() {
  const auto failed = [this](std::string_view role, std::exception_ptr failure) {
    needs_.log.error("node.role_failed", {{"role", role}});
    std::rethrow_exception(std::move(failure));
  };
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (Role* role : roles_) tasks.spawn(std::string(role->name()), role->run());
    AdmissionKeeper& admission = membership_->admission();
    while (!admission.dismissal()) co_await admission.dismissed().wait();
    throw Failure(*admission.dismissal());
  };
  auto scope = task_scope(failed, body);
  co_await std::move(scope);
}

Task<> Node::run() {
  assert(membership_ && "join or found first");
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("node.member", membership_->run(known_places()));  // ends when all roles have ended
    co_await run_roles();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<Result<>> Node::say_goodbye(TimePoint deadline) {
  for (Role* role : roles_) co_await role->drain(deadline);
  co_await membership_->leave();
  co_return Result<>();
}

Task<> Node::leave() {
  assert(membership_ && "only a member leaves");
  const TimePoint deadline = needs_.clock.now() + options_.leave_time;
  auto goodbye = say_goodbye(deadline);
  const auto left = co_await with_deadline(needs_.clock, deadline, std::move(goodbye));
  needs_.log.info("node.left", {{"run", options_.run.run_id}, {"in_order", left.has_value()}});
}

}  // namespace collab::node
