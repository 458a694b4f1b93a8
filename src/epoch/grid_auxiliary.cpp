#include "epoch/grid_auxiliary.hpp"

#include "epoch/pass_over.hpp"
#include "matchmaking/no_group.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include <algorithm>
#include <utility>

namespace collab::epoch {
namespace {

constexpr Duration kLookWhoLeads = std::chrono::seconds(1);
constexpr Duration kCellTime = std::chrono::minutes(10);        // for a group; then the search starts anew
constexpr Duration kTryAgain = std::chrono::milliseconds(250);  // after a round that failed, as the others
constexpr unsigned kDoublingsMax = 4;                           // of searches in a row that failed

}  // namespace

/// One cell in one epoch. It lives until its last round is over, which may be after the epoch.
struct GridAuxiliary::Cell {
  std::shared_ptr<const averaging::Pass> pass;
  std::uint32_t round = 1;
  std::vector<PeerId> members;  // as the schedule knows them
  std::vector<PeerId> ids;      // the same, whole, as far as they are known
  std::string key;
  std::unique_ptr<matchmaking::Matchmaker> matchmaker;
  bool over = false;  // nobody is in that epoch any more, or it has another list of seats
};

GridAuxiliary::GridAuxiliary(Needs needs)
    : needs_(std::move(needs)), moved_(needs_.loop), tasks_(needs_.loop, rethrow) {}

GridAuxiliary::~GridAuxiliary() = default;

void GridAuxiliary::serve() {
  if (leaving_) return;
  const std::set<std::uint64_t> epochs = this->epochs();
  for (auto next = served_.begin(); next != served_.end();) {
    const auto entry = next++;
    const bool stands =
        epochs.contains(entry->first) && needs_.seats.in_force(entry->first)->grid().id == entry->second.pass->grid.id;
    if (stands) continue;
    close(entry->second);
    served_.erase(entry);
  }
  for (const std::uint64_t epoch : epochs)
    if (!served_.contains(epoch)) open(epoch, *needs_.seats.in_force(epoch));
  look_who_leads();
  needed_ = 0;
  for (auto& [epoch, served] : served_) {
    const std::size_t needed = serve(served);
    if (epoch == needs_.tracker.global_epoch()) needed_ = needed;
    tell_samples(served);
  }
}

/// Around the swarm's: who alone has a result may be ahead of all others, who need ours until they have it.
std::set<std::uint64_t> GridAuxiliary::epochs() const {
  std::set<std::uint64_t> epochs;
  const std::uint64_t global = needs_.tracker.global_epoch().value_or(0);
  for (const progress::Standing& standing : needs_.tracker.others()) {
    const std::uint64_t epoch = standing.record.epoch;
    if (!standing.record.taking_part || epoch > global + 1 || epoch + 1 < global) continue;
    const matchmaking::Seating* seating = needs_.seats.in_force(epoch);
    if (seating != nullptr && !seating->one_group()) epochs.insert(epoch);
  }
  return epochs;
}

void GridAuxiliary::open(std::uint64_t epoch, const matchmaking::Seating& seating) {
  averaging::Pass pass = pass_over(seating, epoch, needs_.identity.id(), needs_.tracker);
  pass.stands = [] { return true; };  // else its cells are closed
  pass.target_samples = needs_.options.target_batch;
  pass.weight_min = weight_min(needs_.options);
  Served& served = served_[epoch];
  served.pass = std::make_shared<const averaging::Pass>(std::move(pass));
  for (std::uint32_t round = 1; round <= served.pass->schedule->rounds(); ++round)
    served.groups.push_back(served.pass->schedule->groups(round));
}

void GridAuxiliary::close(Served& served) {
  for (const auto& [place, cell] : served.cells) cell->over = true;
  moved_.notify();
}

void GridAuxiliary::look_who_leads() {
  const TimePoint now = needs_.searches.clock.now();
  if (looked_at_ != TimePoint::min() && now < looked_at_ + kLookWhoLeads) return;
  looked_at_ = now;
  leaders_.clear();
  for (const progress::Standing& standing : needs_.tracker.others())
    if (standing.record.taking_part && !standing.record.client) leaders_.insert(matchmaking::seat_of(standing.peer));
}

bool GridAuxiliary::needs_us(const std::vector<PeerId>& members) const {
  return std::none_of(members.begin(), members.end(),
                      [this](const PeerId& peer) { return leaders_.contains(matchmaking::seat_of(peer)); });
}

/// Returns how many cells of one round need it, at most.
std::size_t GridAuxiliary::serve(Served& served) {
  std::size_t most = 0;
  for (std::size_t round = 0; round < served.groups.size(); ++round) {
    std::size_t needed = 0;
    for (std::size_t group = 0; group < served.groups[round].size(); ++group) {
      if (!needs_us(served.groups[round][group]) || ++needed > kCellsMax) continue;
      if (served.cells.contains({round, group})) continue;
      auto cell = make_cell(served, round, group);
      if (still_runs(*cell)) continue;
      served.cells[{round, group}] = cell;
      cells_.insert(cell);
      tasks_.spawn("epoch.cell", serve_rounds(cell));
    }
    most = std::max(most, needed);
  }
  if (most > kCellsMax && !std::exchange(told_full_, true))
    needs_.searches.log.warn("auxiliary.too_many_cells", {{"cells", most}, {"cells_max", kCellsMax}});
  return std::min(most, kCellsMax);
}

std::shared_ptr<GridAuxiliary::Cell> GridAuxiliary::make_cell(const Served& served, std::size_t round,
                                                              std::size_t group) const {
  auto cell = std::make_shared<Cell>();
  cell->pass = served.pass;
  cell->round = static_cast<std::uint32_t>(round + 1);
  cell->members = served.groups[round][group];
  cell->key = averaging::key_in(*cell->pass, averaging::bundle_of(needs_.options.run_id), cell->round,
                                cell->pass->schedule->digits(cell->members.front(), cell->round));
  return cell;
}

/// A life of it from before, when its epoch was left and has come back: it has the conversation until its round ends.
bool GridAuxiliary::still_runs(const Cell& cell) const {
  return std::any_of(cells_.begin(), cells_.end(), [&](const auto& other) {
    return other->key == cell.key && other->pass->epoch == cell.pass->epoch;
  });
}

/// To leaders of first groups.
void GridAuxiliary::tell_samples(const Served& served) {
  // what is told of samples is told of the swarm's epoch
  const bool known = served.pass->epoch == needs_.tracker.epoch();
  const auto unseated = without_seat(needs_.tracker.others(), needs_.seats.in_force(served.pass->epoch));
  for (const auto& [place, cell] : served.cells) {
    if (cell->round != 1 || cell->ids.empty()) continue;
    std::vector<PeerId> left_out = unseated;
    left_out.insert(left_out.end(), cell->ids.begin(), cell->ids.end());
    const double elsewhere = known ? needs_.tracker.samples_elsewhere(left_out) : 0;
    cell->matchmaker->samples_elsewhere(static_cast<std::uint64_t>(elsewhere));
  }
}

Task<boost::system::error_code> GridAuxiliary::over(std::shared_ptr<Cell> cell) {
  while (!cell->over) co_await moved_.wait();
  co_return matchmaking::NoGroup::begun;
}

Task<Result<matchmaking::Group>> GridAuxiliary::find_group(std::shared_ptr<Cell> cell, bool again) {
  const std::string bundle = averaging::bundle_of(needs_.options.run_id);
  matchmaking::Wanted wanted = averaging::wanted_in(*cell->pass, bundle, cell->round, cell->members);
  if (again) wanted.target_samples = 0;  // the batch was full
  wanted.auxiliaries = needs_.seats.auxiliaries();
  wanted.deadline = needs_.searches.clock.now() + kCellTime;
  cell->ids.clear();
  for (const matchmaking::Expected& member : wanted.expected) cell->ids.push_back(member.id);
  const ClaimedLine line = claimed_line(needs_.options, needs_.tracker, needs_.searches.net);
  cell->matchmaker->bandwidth(line.up_bytes_per_s, line.down_bytes_per_s);
  co_return co_await cell->matchmaker->find_group(std::move(wanted), over(cell));
}

/// A round that came to nothing is tried again, and so is one that committed without a voice of every cell: then the
/// others ask again.
Task<> GridAuxiliary::serve_rounds(std::shared_ptr<Cell> cell) {
  using namespace asio::experimental::awaitable_operators;
  Clock& clock = needs_.searches.clock;
  auto options = averaging::search_options(needs_.matchmaking, cell->round);
  options.key = cell->key;
  options.looks = false;  // who is expected knows of us, and of many cells each would cost servers a watch
  cell->matchmaker = std::make_unique<matchmaking::Matchmaker>(needs_.searches, std::move(options));
  unsigned in_vain = 0;
  for (bool again = false; !cell->over;) {
    const auto group = co_await find_group(cell, again);
    Result<> lent = Errc::late;
    if (group) {
      ++lending_;
      lent = co_await needs_.lend(tasks_, *group);
      --lending_;
      moved_.notify();
    }
    in_vain = group ? 0 : std::min(in_vain + 1, kDoublingsMax);
    again = again || group;
    if (cell->over) break;
    if (lent) {
      (void)co_await (cell->matchmaker->asked_again() || over(cell));
    } else {
      co_await clock.sleep_until(clock.now() + kTryAgain * (1U << in_vain));
    }
  }
  co_await cell->matchmaker->stop();
  cells_.erase(cell);
}

Task<> GridAuxiliary::leave() {
  leaving_ = true;
  const auto cells = cells_;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (const auto& cell : cells)
      if (cell->matchmaker) tasks.spawn("epoch.leave", cell->matchmaker->leave());
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  for (auto& [epoch, served] : served_) close(served);
}

Task<> GridAuxiliary::finish(TimePoint until) {
  while (lending_ > 0 && needs_.searches.clock.now() < until) co_await moved_.wait_until(needs_.searches.clock, until);
}

Task<> GridAuxiliary::stop() {
  leaving_ = true;
  co_await tasks_.stop();
  const auto cells = cells_;
  for (const auto& cell : cells)
    if (cell->matchmaker) co_await cell->matchmaker->stop();
}

}  // namespace collab::epoch
