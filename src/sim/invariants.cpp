#include "sim/invariants.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace collab::sim {
namespace {

constexpr std::uint64_t kEpochsKept = 4;     // a groupmate that lags reports within these
constexpr std::uint64_t kHistoryKept = 256;  // who comes back with older parameters is not known by them
constexpr std::uint64_t kPassesOpen = 2;
constexpr Duration kUntold = std::chrono::seconds(1);  // by then a result is with those who signed it
constexpr std::uint64_t kEpochsToHeal = 3;

bool equal(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::string words(const Digest& group) {
  return to_hex(std::span(group).first(8));
}

/// In place of a group that never travels.
std::string alone(std::size_t peer) {
  return fmt::format("peer {} alone", peer);
}

std::uint64_t count(std::span<const SampleRun> samples) {
  std::uint64_t sum = 0;
  for (const SampleRun& run : samples) sum += run.count;
  return sum;
}

}  // namespace

Invariants::Invariants(Clock& clock, InvariantOptions options)
    : clock_(clock),
      options_(std::move(options)),
      ledger_(clock, violations_),
      owed_(clock, options_.codecs, violations_),
      live_(clock, options_.live, violations_) {}

void Invariants::add(std::string invariant, std::vector<std::size_t> peers, std::string text) {
  violations_.add({std::move(invariant), clock_.now().time_since_epoch(), std::move(peers), std::move(text)});
}

void Invariants::split(const std::vector<std::size_t>& side) {
  const std::size_t before = common();
  ledger_.fork(before);
  owed_.fork(before);
  const History copy = histories_[before];
  histories_.push_back(copy);
  for (const std::size_t peer : side) books_[peer].history = histories_.size() - 1;
}

std::size_t Invariants::common() const {
  std::vector<std::size_t> peers(histories_.size());
  for (const auto& [peer, books] : books_) ++peers[books.history];
  return static_cast<std::size_t>(std::max_element(peers.begin(), peers.end()) - peers.begin());
}

void Invariants::begun(std::size_t peer, std::uint64_t epoch, const std::string& group, std::uint64_t peers) {
  const std::string before = std::exchange(books_[peer].group, peers > 1 ? group : alone(peer));
  const auto& taken = taken_[before];
  const auto mine = taken.find(peer);
  // the first round of a pass is tried again with what was handed over to the try that failed
  if (mine == taken.end() || mine->second.epoch != epoch) return;
  const Taken again = mine->second;
  Taken& copy = taken_[books_[peer].group].emplace(peer, again).first->second;
  copy.contribution.values = copy.sent.empty() ? copy.values : copy.sent;
}

void Invariants::check_untouched(std::size_t peer, const Digest& parameters, const char* when) {
  PeerBooks& books = books_[peer];
  if (books.parameters && *books.parameters != parameters) {
    add("atomic", {peer}, fmt::format("parameters changed without a step, seen when it {}", when));
  }
  books.parameters = parameters;
}

void Invariants::handed_over(const HandOver& mine) {
  check_untouched(mine.peer, mine.parameters, "handed over");
  if (mine.weight != count(mine.samples)) {
    add("ledger", {mine.peer},
        fmt::format("{} samples are handed over with a weight of {}", count(mine.samples), mine.weight));
  }
  const std::string& group = books_[mine.peer].group;
  Taken& taken = taken_[group][mine.peer];
  taken.epoch = mine.epoch;
  taken.values.assign(mine.values.begin(), mine.values.end());
  taken.sent.clear();
  taken.contribution = {mine.weight, taken.values};
  taken.samples.assign(mine.samples.begin(), mine.samples.end());
  taken.told_max = mine.weight;
  // who tells more is believed an equal share, of two peers at most, or the growth that its records allow
  PeerBooks& books = books_[mine.peer];
  if (books.exaggerated) taken.told_max = std::max(2 * mine.weight, (options_.target_batch + 1) / 2);
  books.exaggerated = books.exaggerates;
  live_.handed_over(mine.peer, group);
  if (mine.epoch > kEpochsKept) forget(mine.epoch - kEpochsKept);
}

void Invariants::sends(std::size_t peer, std::span<const float> values, std::uint64_t weight) {
  auto& group = taken_[books_[peer].group];
  const auto mine = group.find(peer);
  if (mine == group.end()) return add("ledger", {peer}, "it sends parts of what it has not handed over");
  mine->second.sent.assign(values.begin(), values.end());
  mine->second.contribution.values = mine->second.sent;
  const Taken& taken = mine->second;
  const PeerBooks& books = books_[peer];
  owed_.sends({peer, books.history, taken.epoch, books.group, taken.values, values, weight});
}

void Invariants::check_owed(std::size_t peer, const epoch::EpochReport& report) {
  const auto& group = taken_[books_[peer].group];
  const auto mine = group.find(peer);
  const auto had = mine == group.end() ? std::span<const float>() : std::span<const float>(mine->second.values);
  owed_.committed(peer, books_[peer].history, report, had);
}

void Invariants::gave_back(std::size_t peer, std::span<const float> values, std::uint64_t weight,
                           const Digest& parameters) {
  check_untouched(peer, parameters, "got its samples back");
  const auto& group = taken_[books_[peer].group];
  const auto found = group.find(peer);
  if (found == group.end()) return add("atomic", {peer}, "got back what it had not handed over");
  if (weight != found->second.contribution.weight || !equal(values, found->second.values)) {
    add("atomic", {peer},
        fmt::format("a failed round gave back {} samples of {}, or other values", weight,
                    found->second.contribution.weight));
  }
  books_[peer].group.clear();
}

void Invariants::handed_on(const HandOver& mine) {
  check_untouched(mine.peer, mine.parameters, "handed on");
  if (mine.weight != count(mine.samples)) {
    add("ledger", {mine.peer},
        fmt::format("{} samples are handed on with a weight of {}", count(mine.samples), mine.weight));
  }
  handed_on_.insert_or_assign(
      mine.peer, HandedOn{{mine.values.begin(), mine.values.end()}, {mine.samples.begin(), mine.samples.end()}});
}

std::vector<SampleRun> Invariants::taken_on(std::size_t peer, const PeerId& from, std::uint64_t samples,
                                            std::span<const float> values) {
  const auto leaver = numbers_.find(from);
  const auto handed = leaver == numbers_.end() ? handed_on_.end() : handed_on_.find(leaver->second);
  if (handed == handed_on_.end()) {
    add("ledger", {peer}, fmt::format("it took on {} samples that nobody has handed on to it", samples));
    return {};
  }
  const HandedOn given = std::move(handed->second);
  handed_on_.erase(handed);
  if (samples != count(given.samples)) {
    add("ledger", {peer, leaver->second},
        fmt::format("it took on {} samples, {} were handed on", samples, count(given.samples)));
  }
  std::vector<float> came(given.values.size());
  const auto bytes = options_.codecs.encode(given.values, 0, EncodeOptions());
  if (!bytes || !options_.codecs.decode(*bytes, 0, came) || !equal(came, values))
    add("mean", {peer, leaver->second}, "it took on other values than were handed on");
  return given.samples;
}

void Invariants::dropped(std::size_t peer, std::span<const SampleRun> samples) {
  ledger_.dropped(peer, count(samples));
}

void Invariants::stepped(const StepTaken& step) {
  check_untouched(step.peer, step.before, "was about to step");
  books_[step.peer].parameters = step.after;
  books_[step.peer].stepped_at = clock_.now();
  owed_.stepped(step.peer, step.epoch, step.averaged);
  books_[step.peer].averaged = hash_bytes("collab sim averaged", std::as_bytes(step.averaged));
  if (spoilt_.contains(step.peer)) {
    spoilt_parameters_.insert(step.after);
    if (dead_parameters_.contains(step.before)) dead_parameters_.insert(step.after);
    take_over(step.epoch + 1, step.after);
    return;
  }
  if (is_expelled(step.peer)) return;
  spoilt_parameters_.erase(step.after);
  dead_parameters_.erase(step.after);  // it had not died with the first one: so nobody may make it anew
  const auto [known, is_first] = history_of(step.peer).parameters.emplace(step.epoch + 1, step.after);
  if (!is_first && known->second != step.after) {
    add("agree", {step.peer}, fmt::format("its step of epoch {} ends with other parameters", step.epoch));
  }
}

void Invariants::restored(std::size_t peer, std::uint64_t epoch, const Digest& parameters) {
  books_[peer].parameters = parameters;
  owed_.forget(peer);
  ledger_spoilt_.erase(peer);
  if (spoilt_parameters_.contains(parameters)) {
    spoilt_.emplace(peer, newest_epoch());  // until the vote says so
    return take_over(epoch, parameters);
  }
  spoilt_.erase(peer);
  const auto holds = [&](const History& history) {
    const auto known = history.parameters.find(epoch);
    return known != history.parameters.end() && known->second == parameters;
  };
  if (holds(history_of(peer))) return;
  const auto other = std::find_if(histories_.begin(), histories_.end(), holds);
  if (other != histories_.end()) {
    books_[peer].history = static_cast<std::size_t>(other - histories_.begin());
  } else if (history_of(peer).parameters.contains(epoch)) {
    add("agree", {peer}, fmt::format("it fetched other parameters for epoch {}", epoch));
  }
}

void Invariants::spoilt(std::size_t peer, const Digest& parameters) {
  books_[peer].parameters = parameters;
  spoilt_.insert_or_assign(peer, newest_epoch());
  spoilt_parameters_.insert(parameters);
}

void Invariants::take_over(std::uint64_t epoch, const Digest& parameters) {
  const auto holds = [&](const auto& entry) { return entry.second.parameters == parameters; };
  const auto holders = static_cast<std::size_t>(std::count_if(books_.begin(), books_.end(), holds));
  if (holders < numbers_.size() || dead_parameters_.contains(parameters)) return;
  spoilt_.clear();
  spoilt_parameters_.clear();
  histories_[common()].parameters.insert_or_assign(epoch, parameters);
}

void Invariants::ended(std::size_t peer, std::uint64_t epoch, const Digest& parameters, std::uint64_t newest) {
  const auto agreed = parameters_of(epoch);
  if (!agreed || *agreed == parameters) return;
  const auto spoilt = spoilt_.find(peer);
  if (spoilt != spoilt_.end() && newest < spoilt->second + kEpochsToHeal) return;
  add("rejoin", {peer}, fmt::format("its parameters of epoch {} are not the others'", epoch));
}

void Invariants::exaggerates(std::size_t peer, bool is) {
  PeerBooks& books = books_[peer];
  books.exaggerates = is;
  books.exaggerated = books.exaggerated || is;
}

void Invariants::check_owners(std::size_t peer, const averaging::CommittedRound& round) {
  if (hidden_.empty()) return;
  for (const matchmaking::Member& member : round.group().roster) {
    const auto number = numbers_.find(member.id);
    if (number == numbers_.end() || !hidden_.contains(number->second) || member.units == 0) continue;
    add("owners", {number->second, peer},
        fmt::format("in epoch {} it owns a segment, and nobody can dial it", round.group().epoch));
  }
}

void Invariants::check_applied(std::size_t peer, const epoch::EpochReport& report) {
  check_owners(peer, *report.proof);
  std::vector<float> applied(options_.codecs.length());
  report.proof->apply(applied);
  if (hash_bytes("collab sim averaged", std::as_bytes(std::span(applied))) != books_[peer].averaged) {
    add("atomic", {peer}, fmt::format("its step of epoch {} took other values than the committed ones", report.epoch));
  }
}

/// Groups of a pass end with the same bytes, which `stepped` sees; here is what they are made of.
void Invariants::committed_on_grid(std::size_t peer, const epoch::EpochReport& report) {
  check_applied(peer, report);
  check_owed(peer, report);
  Committed& committed = history_of(peer).epochs[report.epoch];
  committed.group = "grid";
  on_grid_ = true;
  const averaging::CommittedRound& first = *report.pass.front();
  // a first group whose units another one has too is left out of the next round, whole: the ledger has not all of it
  const Work named = first.work().all();
  const bool is_counted = report.proof->work().all().common(named).count() == named.count();
  if (is_counted && first.group().round == 1 && committed.first_groups.insert(words(first.group().id)).second)
    count_senders(peer, report.epoch, first);
  std::uint64_t handed_over = 0;
  for (const auto& [group, peers] : taken_) {
    for (const auto& [sender, taken] : peers)
      handed_over += taken.epoch == report.epoch ? taken.contribution.weight : 0;
  }
  if (report.weight < options_.weight_min || report.weight > handed_over) {
    add("ledger", {peer},
        fmt::format("epoch {} was committed with {} samples; at least {} are due, {} were handed over", report.epoch,
                    report.weight, options_.weight_min, handed_over));
  }
  check_told(peer, report);
}

void Invariants::committed(std::size_t peer, const epoch::EpochReport& report) {
  if (is_expelled(peer)) return;
  if (!report.pass.empty()) return committed_on_grid(peer, report);
  const std::string group = report.group ? words(report.group->id) : alone(peer);
  auto& epochs = history_of(peer).epochs;
  const auto known = epochs.find(report.epoch);
  if (known == epochs.end()) {
    first_report(peer, group, report);
  } else if (known->second.group != group) {
    add("agree", {peer}, fmt::format("epoch {} was committed by two groups", report.epoch));
  } else if (known->second.result != report.round.result) {
    add("agree", {peer}, fmt::format("epoch {} was committed with two results", report.epoch));
  }
  check_owed(peer, report);
  if (!report.proof) return;
  check_applied(peer, report);
  if (epochs.at(report.epoch).group == group) check_told(peer, report);
}

/// Whoever is not counted tells its user.
void Invariants::check_told(std::size_t peer, const epoch::EpochReport& report) {
  const auto& group = taken_[books_[peer].group];
  const auto mine = group.find(peer);
  if (mine == group.end() || mine->second.epoch != report.epoch || mine->second.contribution.weight == 0) return;
  const bool is_counted = history_of(peer).epochs.at(report.epoch).senders.contains(peer);
  const bool told_counted = report.own_weight > 0;
  if (!is_counted) ledger_.dropped(peer, mine->second.contribution.weight);
  if (told_counted == is_counted) return;
  add("ledger", {peer},
      fmt::format("epoch {}: its samples are {} and told as {}", report.epoch, is_counted ? "in" : "lost",
                  told_counted ? "in" : "lost"));
}

void Invariants::count_senders(std::size_t peer, std::uint64_t epoch, const averaging::CommittedRound& round) {
  const matchmaking::Group& group = round.group();
  const auto& taken = taken_[words(group.id)];
  const auto taken_by = [&](averaging::Rank rank) {
    const auto number = numbers_.find(group.roster[rank].id);
    return number == numbers_.end() ? taken.end() : taken.find(number->second);
  };
  // a peer never claims more than its groupmates were told it could have
  const auto counted = [&](averaging::Rank rank, const Taken& from) {
    return std::min(from.contribution.weight, group.roster[rank].weight_max);
  };
  Contribution one;
  const auto contribution = [&](averaging::Rank rank) -> const Contribution* {
    const auto found = taken_by(rank);
    if (found == taken.end()) return nullptr;
    one = {counted(rank, found->second), found->second.contribution.values};
    return &one;
  };
  const std::string wrong = wrong_mean(round, options_.codecs, contribution);
  if (!wrong.empty()) add("mean", {peer}, fmt::format("epoch {}: {}", epoch, wrong));
  Committed& committed = history_of(peer).epochs[epoch];
  std::vector<std::vector<SampleRun>> segments;
  for (const averaging::SegmentResult& result : round.results()) {
    auto& samples = segments.emplace_back();
    for (auto rest = senders_of(result); rest != 0; rest &= rest - 1) {
      const auto rank = averaging::first(rest);
      const auto found = taken_by(rank);
      if (found == taken.end()) continue;
      const Sent sent{counted(rank, found->second), found->second.samples};
      if (committed.senders.insert_or_assign(found->first, sent).second) committed.weight += sent.weight;
      samples.insert(samples.end(), sent.samples.begin(), sent.samples.end());
    }
  }
  ledger_.committed(books_[peer].history, peer, epoch, segments);
}

void Invariants::first_report(std::size_t peer, const std::string& group, const epoch::EpochReport& report) {
  Committed& committed = history_of(peer).epochs[report.epoch];
  committed.group = group;
  committed.result = report.round.result;
  if (report.proof) {
    count_senders(peer, report.epoch, *report.proof);
  } else {
    const auto& taken = taken_[group];
    const auto mine = taken.find(peer);
    if (mine != taken.end()) {
      const Sent sent{mine->second.contribution.weight, mine->second.samples};
      committed.senders[peer] = sent;
      committed.weight += sent.weight;
      ledger_.committed(books_[peer].history, peer, report.epoch, {sent.samples});
    }
  }
  check_weight(peer, committed, report);
  check_begin(peer, report);
}

void Invariants::check_begin(std::size_t peer, const epoch::EpochReport& report) {
  if (!report.group) return;
  const auto& taken = taken_[books_[peer].group];
  std::uint64_t samples = 0;
  std::uint64_t known = 0;
  for (const matchmaking::Member& member : report.group->roster) {
    if (member.role == matchmaking::Role::auxiliary) continue;
    const auto number = numbers_.find(member.id);
    const auto mine = number == numbers_.end() ? taken.end() : taken.find(number->second);
    if (mine == taken.end()) return;
    samples += mine->second.contribution.weight;
    known += mine->second.told_max;
  }
  if (known >= options_.target_batch) return;
  add("begin", {peer},
      fmt::format("epoch {} began with {} samples of {}", report.epoch, samples, options_.target_batch));
}

void Invariants::check_weight(std::size_t peer, const Committed& committed, const epoch::EpochReport& report) {
  if (report.weight < options_.weight_min) {
    add("ledger", {peer},
        fmt::format("epoch {} was committed with {} samples, at least {} are due", report.epoch, report.weight,
                    options_.weight_min));
  }
  if (report.weight > committed.weight) {
    add("ledger", {peer},
        fmt::format("epoch {} claims {} samples, {} were handed over", report.epoch, report.weight, committed.weight));
  }
}

void Invariants::has_ledger(std::size_t peer, std::uint64_t epoch, const data::Ledger& ledger) {
  if (is_expelled(peer) || ledger_spoilt_.contains(peer)) return;
  const auto& parameters = books_[peer].parameters;
  if (parameters && dead_parameters_.contains(*parameters)) return;
  const Bytes bytes = ledger.canonical();
  const Digest digest = hash_bytes("collab sim ledger", std::span<const std::byte>(bytes));
  History& history = history_of(peer);
  const auto [known, is_first] = history.ledgers.emplace(epoch, digest);
  if (!is_first && known->second != digest)
    add("units", {peer},
        fmt::format("at epoch {} its ledger has {} units, and is not the others'", epoch, ledger.committed().count()));
  if (ledger.duplicates() > 0 || ledger.skipped() > 0)
    add("units", {peer},
        fmt::format("epoch {}: {} units were entered twice, {} skipped", epoch, ledger.duplicates(), ledger.skipped()));
  if (epoch < history.newest_epoch) return;
  if (epoch > std::exchange(history.newest_epoch, epoch)) history.before = std::move(history.newest);
  history.newest = ledger;
}

void Invariants::close() {
  ledger_.close();
  for (const std::size_t peer : ledger_spoilt_)
    add("units", {peer}, "its ledger was spoilt, and it never fetched another");
  if (options_.units_per_pass == 0) return;
  const Work computed = ledger_.samples(common());
  const data::Ledger& newest = newest_ledger();
  const Work& entered = newest.committed();
  const std::uint64_t both = entered.common(computed).count();
  if (both < computed.count())
    add("units", {}, fmt::format("{} units are in the parameters and not in the ledger", computed.count() - both));
  if (both < entered.count() && !on_grid_)  // there, of a first group that nobody reported we know nothing
    add("units", {}, fmt::format("{} units are in the ledger and in no step", entered.count() - both));
  // what the dead held is shared out before another pass is begun
  const std::uint64_t end = entered.ranges().empty() ? 0 : entered.ranges().back().end();
  if (newest.first_free() + kPassesOpen * options_.units_per_pass < end)
    add("units", {}, fmt::format("unit {} is not done, and unit {} is", newest.first_free(), end - 1));
}

void Invariants::decided(std::size_t peer) {
  live_.decided(peer, books_[peer].group);
}

void Invariants::died(std::size_t peer) {
  const PeerBooks& books = books_[peer];
  History& history = history_of(peer);
  if (history.parameters.empty() || clock_.now() > books.stepped_at + kUntold) return;
  const auto [newest, parameters] = *history.parameters.rbegin();
  const auto committed = history.epochs.find(newest - 1);
  if (committed != history.epochs.end() && committed->second.group == alone(peer)) return;
  const auto holds = [&](const auto& entry) { return entry.second.parameters == parameters; };
  if (books.parameters != parameters || std::count_if(books_.begin(), books_.end(), holds) > 1) return;
  spoilt_parameters_.insert(parameters);
  dead_parameters_.insert(parameters);
  history.parameters.erase(newest);
  history.epochs.erase(newest - 1);
  history.ledgers.erase(newest);
  ledger_.undo(books.history, newest - 1);
  owed_.undo(books.history, newest - 1);
  if (history.newest_epoch < newest) return;
  history.newest_epoch = newest - 1;
  history.newest = history.before;
}

void Invariants::killed(std::size_t peer, bool blank) {
  if (blank) {
    books_[peer].parameters.reset();
    spoilt_.erase(peer);
    ledger_spoilt_.erase(peer);
  }
  books_[peer].group.clear();  // its next life has handed over nothing, and owes no word of what this one had
  ledger_.killed(peer);
  owed_.forget(peer);
}

void Invariants::expelled(std::size_t peer, bool is) {
  if (is) {
    expelled_.insert(peer);
  } else {
    expelled_.erase(peer);
  }
}

std::uint64_t Invariants::newest_epoch() const {
  const auto& parameters = histories_[common()].parameters;
  return parameters.empty() ? 0 : parameters.rbegin()->first;
}

std::optional<Digest> Invariants::parameters_of(std::uint64_t epoch) const {
  const auto& parameters = histories_[common()].parameters;
  const auto found = parameters.find(epoch);
  return found == parameters.end() ? std::nullopt : std::optional(found->second);
}

std::map<std::size_t, Sent> Invariants::senders_of_epoch(std::size_t peer, std::uint64_t epoch) const {
  const auto books = books_.find(peer);
  const auto& epochs = histories_[books == books_.end() ? 0 : books->second.history].epochs;
  const auto found = epochs.find(epoch);
  return found == epochs.end() ? std::map<std::size_t, Sent>() : found->second.senders;
}

void Invariants::forget(std::uint64_t before_epoch) {
  for (auto& [group, peers] : taken_) {
    const auto is_over = [&, in = group](const auto& entry) {
      return entry.second.epoch < before_epoch && books_[entry.first].group != in;  // a frozen one is in it still
    };
    std::erase_if(peers, is_over);
  }
  std::erase_if(taken_, [](const auto& entry) { return entry.second.empty(); });
  if (before_epoch <= kHistoryKept) return;
  const auto drop = [oldest = before_epoch - kHistoryKept](auto& of) { of.erase(of.begin(), of.lower_bound(oldest)); };
  for (History& history : histories_) {
    drop(history.parameters);
    drop(history.epochs);
    drop(history.ledgers);
  }
  ledger_.forget(before_epoch - kHistoryKept);
  owed_.forget_before(before_epoch - kHistoryKept);
}

}  // namespace collab::sim
