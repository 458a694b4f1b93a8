#include "epoch/seating_keeper.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace collab::epoch {

using matchmaking::Seating;

namespace {

constexpr std::uint64_t kEpochsNotice = 2;
constexpr std::size_t kSeatsOff = 2;     // times as many as we count, or so much fewer: somebody else's swarm
constexpr std::size_t kAbsurdTold = 64;  // writers that are named in the log
constexpr std::size_t kUnseated = 8;     // one of so many has no seat: worth another list within the epoch
constexpr std::size_t kDialledMore = 4;  // a quarter more can be dialled: worth another list
constexpr std::uint32_t kRevisionsUnseen = 1U << 20U;  // of what a newcomer reads
constexpr std::uint32_t kRevisionsAhead = 64;          // of what is known: more are of somebody who wants the last word
constexpr std::uint64_t kEpochsAhead = 8;              // and so many times the notice that this peer would give
constexpr std::size_t kAuxiliariesMax = 16;
constexpr std::uint64_t kUnhelped = 64;  // epochs
constexpr unsigned kGivenUpMax = 3;      // grids of one epoch; then all of them meet in one group, if it holds them
constexpr unsigned kMisfitsMin = 2;      // who comes or goes is seen by all within a moment; before, views differ

std::string radices_text(const Seating& seating) {
  std::string text;
  for (const std::uint32_t radix : seating.radices) text += (text.empty() ? "" : "x") + std::to_string(radix);
  return seating.one_group() ? "one group" : text;
}

/// Who can be dialled no more may leave a cell without anybody who can; a few more who can are only a gain.
bool dialled_alike(const Seating& wanted, const Seating& now) {
  const auto can_still = [&](matchmaking::Seat seat) {
    return std::binary_search(now.clients.begin(), now.clients.end(), seat);
  };
  if (!std::all_of(wanted.clients.begin(), wanted.clients.end(), can_still)) return false;
  const std::size_t more = now.clients.size() - wanted.clients.size();
  return kDialledMore * more <= now.seats.size() - now.clients.size();
}

bool fits(const Seating& wanted, const Seating& now) {
  return now.radices == wanted.radices && now.seats == wanted.seats && dialled_alike(wanted, now);
}

}  // namespace

SeatingKeeper::SeatingKeeper(Needs needs, SeatingOptions options)
    : needs_(std::move(needs)),
      options_(std::move(options)),
      unwritten_{0, 0, {static_cast<std::uint32_t>(options_.group_size_max)}, {}},
      watch_(needs_.directory.watch(std::string(matchmaking::kSeatingKey))),
      changed_(needs_.loop) {}

SeatingKeeper::~SeatingKeeper() = default;

Task<> SeatingKeeper::run() {
  for (;;) {
    read(watch_->records());
    co_await watch_->changed_until(needs_.clock.now() + options_.lifetime);
  }
}

Task<Result<>> SeatingKeeper::look(TimePoint deadline) {
  const auto records = co_await needs_.directory.get(std::string(matchmaking::kSeatingKey), deadline);
  if (!records) co_return records.error();
  read(*records);
  co_return Result<>();
}

void SeatingKeeper::read(const std::vector<directory::Record>& records) {
  for (const auto& [writer, seatings] : matchmaking::read_seatings(records))
    for (const Seating& seating : seatings) consider(writer, seating);
  forget_old();
}

void SeatingKeeper::consider(const PeerId& writer, const Seating& seating) {
  if (!is_due(seating) || is_absurd(writer, seating)) return;
  const Place place(seating.from, seating.revision);
  const auto found = known_.find(place);
  if (found != known_.end()) {
    const Known& before = found->second;
    if (before.seating == seating) return;
    if (!before.outgrown && !matchmaking::goes_before(writer, before.writer, seating.from)) return;
  }
  const Seating* before = in_force(epoch_);
  const bool replaces_it = found != known_.end() && before == &found->second.seating;
  known_.insert_or_assign(place, Known{writer, seating, peers_ > 0});
  if (replaces_it || in_force(epoch_) != before) {
    in_force_since_ = needs_.clock.now();
    others_since_.reset();
    if (std::exchange(stuck_, false)) ++given_up_;
  }
  needs_.log.info("grid.known", {{"from", seating.from},
                                 {"revision", seating.revision},
                                 {"grid", radices_text(seating)},
                                 {"seats", seating.seats.size()},
                                 {"writer", writer.short_text()}});
  changed_.notify();
}

bool SeatingKeeper::is_far(const Seating& seating) const {
  return seating.from > std::max(epoch_, swarm_epoch_) + kEpochsAhead * notice_;
}

/// Of the seatings that are known for that first epoch.
std::optional<std::uint32_t> SeatingKeeper::last_revision(std::uint64_t from) const {
  const auto after = known_.upper_bound({from, std::numeric_limits<std::uint32_t>::max()});
  if (after == known_.begin() || std::prev(after)->first.first != from) return std::nullopt;
  return std::prev(after)->first.second;
}

/// Later than those that were passed over, too, for peers that came sooner may go by them: but no further than half of
/// what others take, of whom some may not know the last one.
std::uint32_t SeatingKeeper::next_revision(std::uint64_t from) const {
  const auto known = last_revision(from);
  const auto passed_over = passed_over_revisions_.find(from);
  const std::uint32_t next = known ? *known + 1 : 0;
  if (passed_over == passed_over_revisions_.end()) return next;
  return std::clamp(passed_over->second + 1, next, known.value_or(0) + kRevisionsAhead / 2);
}

/// Whether an honest writer would write it now. Who has not looked yet does not know the epoch.
bool SeatingKeeper::is_due(const Seating& seating) {
  const bool usual_size = seating.radices.front() == options_.group_size_max;
  if (seating.one_group() && !usual_size && seating.radices.front() != matchmaking::kGroupSizeMax) return false;
  if (peers_ == 0) return seating.from <= epoch_ + options_.epochs_ahead_max && seating.revision <= kRevisionsUnseen;
  const std::uint32_t revision = last_revision(seating.from).value_or(0);
  const bool due = !is_far(seating) && seating.revision <= revision + kRevisionsAhead;
  passed_over_ = passed_over_ || !due;
  return due;
}

/// Whether it seats more than twice as many as this peer counts, or not half of them: then its writer sees another
/// swarm, or lies. Said once of each writer. Records are read again and again, so one that only came early is no loss.
bool SeatingKeeper::is_absurd(const PeerId& writer, const Seating& seating) {
  const std::size_t seats =
      seating.one_group() ? std::min<std::size_t>(peers_, 2 * seating.radices.front()) : seating.seats.size();
  if (peers_ == 0 || (seats <= kSeatsOff * peers_ && peers_ <= kSeatsOff * seats)) return false;
  passed_over_ = true;
  std::uint32_t& revision = passed_over_revisions_[seating.from];
  revision = std::max(revision, seating.revision);
  if (absurd_.size() < kAbsurdTold && absurd_.insert(writer).second)
    needs_.log.warn("grid.absurd", {{"peer", writer.short_text()}, {"seats", seats}, {"peers", peers_}});
  return true;
}

/// A newcomer reads before it can count. What is too far ahead for now is read again.
void SeatingKeeper::judge_early() {
  if (peers_ == 0) return;
  const auto early = [this](const auto& entry) {
    const Known& known = entry.second;
    if (known.judged) return false;
    const bool far = is_far(known.seating);
    passed_over_ = passed_over_ || far;
    return far || is_absurd(known.writer, known.seating);
  };
  std::erase_if(known_, early);
  for (auto& [place, known] : known_) known.judged = true;
}

/// While a swarm gathers, peers count differently: what one passes over as another swarm's, one who came later follows,
/// and each would keep to his for the whole epoch. So who counts many more by now follows none of the old ones, but for
/// the one by which a pass may have begun. Of those to come it follows none for as long as it counts so many.
void SeatingKeeper::outgrow(const Now& now) {
  const bool may_have_begun = now.averaging || others_go_by_it(now) || now.batch_full_in < options_.notice;
  for (auto& [place, known] : known_) {
    const Seating& seating = known.seating;
    const bool present = seating.from <= epoch_;
    if (seating.one_group() || (present ? may_have_begun || known.outgrown : seating.from <= swarm_epoch_)) continue;
    const bool outgrown = peers_ > kSeatsOff * seating.seats.size();
    if (outgrown && !std::exchange(known.outgrown, true)) passed_over_ = true;
    known.outgrown = outgrown;
  }
}

/// Whether a pass is to be left alone. Those who only say that they are in one put it off, once for each seating.
bool SeatingKeeper::others_go_by_it(const Now& now) {
  if (!now.others_average) return false;
  if (!others_since_) others_since_ = needs_.clock.now();
  return needs_.clock.now() - *others_since_ < now.pass_max;
}

const Seating* SeatingKeeper::in_force(std::uint64_t epoch) const {
  auto next = known_.upper_bound({epoch, std::numeric_limits<std::uint32_t>::max()});
  while (next != known_.begin())
    if (const Known& known = (--next)->second; !known.outgrown) return &known.seating;
  return nullptr;
}

void SeatingKeeper::forget_old() {
  const auto after = known_.upper_bound({epoch_, std::numeric_limits<std::uint32_t>::max()});
  auto first = after == known_.begin() ? after : std::prev(after);
  while (first != known_.begin() && first->second.outgrown) --first;  // one before it is in force
  known_.erase(known_.begin(), first);
  passed_over_revisions_.erase(passed_over_revisions_.begin(), passed_over_revisions_.lower_bound(epoch_));
  for (unsigned slot = 0; slot < own_.size(); ++slot) {
    const bool in_use = own_[slot].pieces > 0;
    if (in_use && !known_.empty() && own_[slot].place < known_.begin()->first) withdraw(slot);
  }
}

const Seating* SeatingKeeper::last() const {
  return in_force(std::numeric_limits<std::uint64_t>::max());
}

std::size_t SeatingKeeper::group_size_max(std::uint64_t epoch) const {
  const Seating* seating = in_force(epoch);
  return seating != nullptr && seating->one_group() ? seating->radices.front() : options_.group_size_max;
}

std::vector<PeerId> SeatingKeeper::auxiliaries() const {
  std::vector<PeerId> out;
  for (const directory::Record& record : watch_->records())
    if (record.subkey == matchmaking::kAuxiliarySubkey && out.size() < kAuxiliariesMax) out.push_back(record.owner);
  return out;
}

bool SeatingKeeper::helped() const {
  return epoch_ >= unhelped_before_ && !auxiliaries().empty();
}

/// `now`: what it is to take the place of.
Seating SeatingKeeper::wanted_for(const std::vector<PeerId>& present, const std::vector<PeerId>& clients,
                                  const Seating& now) const {
  Seating wanted;
  for (const PeerId& peer : present) wanted.seats.push_back(matchmaking::seat_of(peer));
  std::sort(wanted.seats.begin(), wanted.seats.end());
  // a seat is the begin of a key: with much work somebody can make one that has another's
  wanted.seats.erase(std::unique(wanted.seats.begin(), wanted.seats.end()), wanted.seats.end());
  if (wanted.seats.size() > matchmaking::kSeatsMax) wanted.seats.resize(matchmaking::kSeatsMax);
  for (const PeerId& peer : clients) {
    const matchmaking::Seat seat = matchmaking::seat_of(peer);
    const bool again = !wanted.clients.empty() && wanted.clients.back() == seat;
    if (!again && std::binary_search(wanted.seats.begin(), wanted.seats.end(), seat)) wanted.clients.push_back(seat);
  }
  const std::size_t dialled = wanted.seats.size() - wanted.clients.size();
  const bool forced = !options_.forced.empty() && matchmaking::can_seat(options_.forced, wanted.seats.size());
  if (forced) {
    wanted.radices = options_.forced;
  } else {
    wanted.radices =
        matchmaking::follow_radices(now.radices, wanted.seats.size(), dialled, options_.group_size_max, helped());
  }
  const bool in_vain = !forced && given_up_ >= kGivenUpMax;
  if (in_vain && wanted.seats.size() <= matchmaking::kGroupSizeMax) wanted.radices = {matchmaking::kGroupSizeMax};
  if (!wanted.one_group()) return wanted;
  const bool grown = wanted.radices.front() > options_.group_size_max;
  wanted.radices = {static_cast<std::uint32_t>(grown ? matchmaking::kGroupSizeMax : options_.group_size_max)};
  wanted.seats.clear();
  wanted.clients.clear();
  return wanted;
}

/// A swarm that is still gathering seats its newcomers at once.
bool SeatingKeeper::leaves_many_out(const Seating& seating, const Now& now) const {
  if (now.batch_full_in < options_.notice) return false;
  const auto out = [&](const PeerId& peer) { return !seating.has(peer); };
  const auto unseated = static_cast<std::size_t>(std::count_if(now.present.begin(), now.present.end(), out));
  return unseated > 0 && kUnseated * unseated >= now.present.size();
}

void SeatingKeeper::look_at(const Now& now) {
  if (std::exchange(epoch_, now.epoch) != now.epoch) {
    stuck_ = false;
    given_up_ = 0;
    others_since_.reset();
  }
  stuck_ = stuck_ || now.stuck;
  if (given_up_ >= kGivenUpMax) unhelped_before_ = epoch_ + kUnhelped;  // whoever says to help does not
  peers_ = now.present.size();
  swarm_epoch_ = now.swarm_epoch;
  notice_ = notice(now.last_epoch);
  judge_early();
  outgrow(now);
  if (std::exchange(passed_over_, false)) read(watch_->records());  // by now we may count as many
  forget_old();
  if (now.present.empty()) {  // the last ones are leaving
    misfits_ = 0;
    return;
  }
  const std::uint64_t soonest = epoch_ + notice_;
  const Seating* present = in_force(epoch_);
  const Seating* planned = last();
  // half of all peers do not fit into one group, or have no seat, since the swarm was still gathering
  const bool one_group = present == nullptr || present->one_group();
  const std::size_t seats = one_group ? group_size_max(epoch_) : present->seats.size();
  const bool few_seats = now.present.size() >= kSeatsOff * seats || (!one_group && leaves_many_out(*present, now));
  const bool stuck = now.stuck || (few_seats && (one_group || !others_go_by_it(now)));
  // one that nobody goes by yet may be of a swarm that was still gathering
  const bool too_late = planned != nullptr && planned->from > epoch_ && planned->from < soonest;
  const Seating* written = stuck ? present : planned;
  const Seating& replaced = written == nullptr ? unwritten_ : *written;
  const std::vector<PeerId>& seated = stuck ? now.present : now.recent;
  if (seated.empty() || (now.averaging && !stuck)) return;
  Seating wanted = wanted_for(seated, now.clients, replaced);
  const bool again = stuck && now.hopeless && !wanted.one_group();
  misfits_ = (fits(wanted, replaced) && !again) || (too_late && !stuck) ? 0 : misfits_ + 1;
  if (misfits_ < kMisfitsMin || !now.my_turn) return;
  wanted.from = stuck ? epoch_ : soonest;  // an epoch to come may never come
  if (!stuck && planned != nullptr) wanted.from = std::max(wanted.from, planned->from);
  wanted.revision = next_revision(wanted.from);
  misfits_ = 0;
  write(std::move(wanted));
}

/// In epochs, before a seating begins.
std::uint64_t SeatingKeeper::notice(Duration last_epoch) const {
  if (last_epoch <= Duration(0)) return kEpochsNotice;
  return std::max(kEpochsNotice,
                  static_cast<std::uint64_t>(std::ceil(to_seconds(options_.notice) / to_seconds(last_epoch))));
}

/// Where an older one for the same epoch is, else where none is, else where the oldest is: the other one may be in
/// force.
unsigned SeatingKeeper::slot_for(std::uint64_t from) const {
  for (unsigned slot = 0; slot < own_.size(); ++slot)
    if (own_[slot].pieces > 0 && own_[slot].place.first == from) return slot;
  for (unsigned slot = 0; slot < own_.size(); ++slot)
    if (own_[slot].pieces == 0) return slot;
  return own_[0].place <= own_[1].place ? 0 : 1;
}

void SeatingKeeper::write(Seating seating) {
  const unsigned slot = slot_for(seating.from);
  const auto pieces = matchmaking::encode(seating);
  const std::size_t before = std::exchange(own_[slot], Slot{{seating.from, seating.revision}, pieces.size()}).pieces;
  const std::string key(matchmaking::kSeatingKey);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    needs_.directory.publish(key, matchmaking::seating_subkey(slot, i), pieces[i], options_.lifetime);
  for (std::size_t i = pieces.size(); i < before; ++i)
    needs_.directory.withdraw(key, matchmaking::seating_subkey(slot, i));
  consider(needs_.self, seating);
}

void SeatingKeeper::withdraw(unsigned slot) {
  const std::size_t pieces = std::exchange(own_[slot].pieces, 0);
  for (std::size_t i = 0; i < pieces; ++i)
    needs_.directory.withdraw(std::string(matchmaking::kSeatingKey), matchmaking::seating_subkey(slot, i));
}

}  // namespace collab::epoch
