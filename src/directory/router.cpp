#include "directory/router.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace collab::directory {
namespace {

bool among(const std::vector<PeerId>& ids, const PeerId& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void add_new(std::vector<PeerId>& ids, const PeerId& id) {
  if (!among(ids, id)) ids.push_back(id);
}

}  // namespace

/// One look-up on its way; ends before its owner does.
struct Router::Running {
  Running(Lookup made, Question asked, TimePoint until, asio::any_io_executor executor)
      : lookup(std::move(made)), question(std::move(asked)), deadline(until), changed(std::move(executor)) {}
  Lookup lookup;
  Question question;
  TimePoint deadline;
  TimePoint heard_at{};  ///< when it began, or the last answer came
  Signal changed;
  std::vector<PeerId> gave;
  std::size_t keep = 0;                             ///< how many of them are among the nearest
  std::map<PeerId, std::vector<PeerId>> followers;  ///< by who named them
  Report report;
};

Router::Router(net::Endpoint& net, Clock& clock, Random random, Log& log, asio::any_io_executor executor,
               Server& server, Client& client, RouterOptions options)
    : net_(net),
      clock_(clock),
      random_(random),
      log_(log),
      executor_(executor),
      server_(server),
      client_(client),
      options_(options),
      wake_(std::move(executor)) {}

Duration Router::about(Duration length) {
  const auto period = static_cast<std::uint64_t>(length.count());
  return Duration(period - period / 5 + random_.below(2 * period / 5 + 1));
}

void Router::shuffle(std::vector<PeerId>& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) std::swap(ids[i], ids[i + random_.below(ids.size() - i)]);
}

Router::Spot& Router::use(const std::string& key) {
  const auto [found, fresh] = spots_.try_emplace(key);
  Spot& spot = found->second;
  spot.used_at = clock_.now();
  if (!fresh) return spot;
  spot.place = server_.place(key);
  spot.moved_at = clock_.now();
  wake_.notify();
  return spot;
}

/// What is near this node it knows itself. Of a place far away the table makes a guess, which is often wrong: it serves
/// beside the servers, and where a look-up had no answer.
std::vector<PeerId> Router::nearest_to(const Spot& spot) const {
  if (spot.looked) return spot.nearest;
  const bool guesses = spot.tried || server_.form() != Form::routed || server_.table().knows_all_near(spot.place);
  return guesses ? server_.nearest_to(spot.place) : std::vector<PeerId>();
}

std::vector<PeerId> Router::with_self(const Place& place, std::vector<PeerId> nearest, std::size_t count) const {
  if (!server_.serves()) return nearest;
  const auto behind = std::find_if(nearest.begin(), nearest.end(), [&](const PeerId& id) {
    return nearer(place, server_.table().place(), place_of(id));
  });
  nearest.insert(behind, net_.self());
  if (nearest.size() > count) nearest.resize(count);
  return nearest;
}

bool Router::keeps(const PeerId& node, const std::string& key) {
  const Form form = server_.form();
  if (form != Form::routed && server_.servers().contains(node)) return true;
  if (form == Form::whole) return false;
  const Spot& spot = use(key);
  return spot.looked ? among(spot.nearest, node) : among(nearest_to(spot), node);
}

std::vector<PeerId> Router::targets(const std::string& key) {
  const Form form = server_.form();
  std::vector<PeerId> targets = form == Form::routed ? std::vector<PeerId>() : client_.others();
  if (form == Form::whole) return targets;
  for (const PeerId& node : nearest_to(use(key))) {
    if (node != net_.self()) add_new(targets, node);
  }
  return targets;
}

std::vector<PeerId> Router::sources(const std::string& key) {
  std::vector<PeerId> sources = targets(key);
  if (server_.form() != Form::whole) shuffle(sources);
  return sources;
}

std::vector<PeerId> Router::followers(const std::string& key) {
  if (server_.form() != Form::routed) return {};
  std::vector<PeerId> followers = use(key).followers;
  shuffle(followers);
  return followers;
}

std::vector<std::vector<PeerId>> Router::quorums(const std::string& key) {
  const Form form = server_.form();
  std::vector<std::vector<PeerId>> quorums;
  if (form != Form::routed) quorums.push_back(server_.servers().ids());
  if (form != Form::whole) quorums.push_back(nearest_to(use(key)));
  return quorums;
}

TimePoint Router::moved_at(const std::string& key) {
  return server_.form() == Form::whole ? TimePoint() : use(key).moved_at;
}

void Router::look_again(const std::string& key) {
  if (server_.form() != Form::routed) return;
  Spot& spot = use(key);
  spot.due = std::min(spot.due, spot.looked_at + options_.spot_repair);
}

Task<> Router::locate(std::string key, TimePoint deadline) {
  if (server_.form() == Form::whole) co_return;
  use(key);
  co_await locate_spot(key, deadline);
}

Task<> Router::locate_spot(std::string key, TimePoint deadline) {
  Question question;
  question.place = server_.place(key);
  question.key = key;
  question.width = server_.routing().replicas;
  const Report report = co_await look_up(std::move(question), deadline);
  const auto found = spots_.find(key);
  if (found == spots_.end()) co_return;
  Spot& spot = found->second;
  if (!std::exchange(spot.tried, true)) ++moves_;
  spot.looked_at = clock_.now();
  spot.followers = report.followers;
  auto nearest = with_self(spot.place, report.nearest, server_.routing().replicas);
  const bool calm = spot.looked && nearest == spot.nearest;
  spot.doublings = calm ? std::min(spot.doublings + 1, options_.calm_doublings) : 0;
  spot.due = clock_.now() + about(options_.spot_period) * (1U << spot.doublings);
  if (report.nearest.empty()) co_return;  // cut off: what is known is better than nothing
  if (nearest != nearest_to(spot)) spot.moved_at = clock_.now();
  if (!spot.looked || nearest != spot.nearest) ++moves_;
  spot.nearest = std::move(nearest);
  spot.looked = true;
}

Task<Router::Report> Router::look_up(Question question, TimePoint deadline) {
  std::vector<RouteNode> start;
  const std::size_t known = std::min(server_.routing().k, 2 * question.width);
  for (const RoutingTable::Entry* entry : server_.table().nearest(question.place, known)) {
    if (!client_.failing(entry->node.id)) start.push_back(entry->node);
  }
  for (const RouteNode& node : question.also) start.push_back(node);
  Lookup::Options rules;
  rules.width = question.width;
  rules.alpha = options_.alpha;
  Lookup lookup(question.place, net_.self(), std::move(start), rules);
  Running running(std::move(lookup), std::move(question), deadline, executor_);
  running.heard_at = clock_.now();
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    while (!running.lookup.over() && clock_.now() < deadline) {
      while (auto node = next_to_ask(running)) tasks.spawn("directory.look_up", ask(running, std::move(*node)));
      // time passes too: who is slow or dead gets another beside him
      const TimePoint late = running.heard_at + options_.ask_beside;
      const TimePoint until = clock_.now() < late ? std::min(deadline, late) : deadline;
      co_await running.changed.wait_until(clock_, until);
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  Report report = std::move(running.report);
  report.nearest = running.lookup.nearest(running.question.width);
  // those of a keeper watch at a keeper; whoever is farther away may watch at this node itself
  const std::size_t keepers = std::min(server_.routing().replicas, report.nearest.size());
  for (std::size_t i = 0; i < keepers; ++i) {
    for (const PeerId& follower : running.followers[report.nearest[i]]) {
      if (report.followers.size() < options_.followers_max) add_new(report.followers, follower);
    }
  }
  report.asked = running.lookup.asked();
  report.hops = running.lookup.hops();
  ++totals_.look_ups;
  totals_.asked += report.asked;
  totals_.hops += report.hops;
  co_return report;
}

/// The first answer tells better whom to ask than this node can guess, and who reads asks no more than he lacks.
std::optional<RouteNode> Router::next_to_ask(Running& running) {
  const std::size_t in_flight = running.lookup.in_flight();
  const std::size_t copies = running.question.copies;
  const bool knows_whom = running.report.answered > 0;
  const bool lacks = copies == 0 || running.keep + in_flight < copies;
  const bool silent = clock_.now() >= running.heard_at + options_.ask_beside;
  if (in_flight > 0 && !silent && !(knows_whom && lacks)) return std::nullopt;
  return running.lookup.next();
}

/// One question of a look-up.
Task<> Router::ask(Running& running, RouteNode node) {
  Client::Search search;
  search.key = running.question.key;
  search.place = running.question.place;
  search.values = running.question.values;
  search.nodes = 2 * running.question.width;  // some may be dead
  const PeerId id = node.id;
  const TimePoint deadline = std::min(running.deadline, clock_.now() + options_.ask_timeout);
  auto nearby = co_await client_.find(std::move(node), std::move(search), deadline);
  running.heard_at = clock_.now();
  if (!nearby) {
    running.lookup.failed(id);
    running.changed.notify();
    co_return;
  }
  ++running.report.answered;
  if (nearby->more && running.question.values)
    co_await read_rest(id, running.question.key, nearby->next, running.deadline);
  running.lookup.answered(id, nearby->serves, std::move(nearby->nodes));
  if (!nearby->followers.empty()) running.followers[id] = std::move(nearby->followers);
  if (nearby->records > 0) running.gave.push_back(id);
  // only those who are to keep it are believed to have all of it
  running.keep = running.lookup.among_nearest(running.gave, server_.routing().replicas);
  if (running.question.copies > 0 && running.keep >= running.question.copies) running.lookup.stop();
  running.changed.notify();
}

Task<> Router::read_rest(PeerId node, std::string key, Cursor from, TimePoint deadline) {
  bool more = true;
  for (std::size_t page = 1; more && page < options_.read_pages_max; ++page) {
    Client::Question question;
    question.key = key;
    question.from = from;
    const auto read = co_await client_.read(node, std::move(question), deadline);
    if (!read) co_return;
    from = read->next;
    more = read->more;
  }
}

Task<> Router::run() {
  spots_busy_ = 0;
  refreshing_ = false;
  for (auto& [key, spot] : spots_) spot.busy = false;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (;;) {
      plan(tasks);
      const TimePoint next = clock_.now() + std::chrono::seconds(1);
      co_await wake_.wait_until(clock_, next);
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Router::Question Router::own_neighbourhood() const {
  Question own;
  own.place = server_.table().place();
  own.width = server_.routing().k;
  return own;
}

void Router::plan(TaskGroup& tasks) {
  const auto guide = client_.take_guide();
  if (guide && !refreshing_ && clock_.now() >= refreshed_at_ + options_.guide_period) {
    Question question = own_neighbourhood();
    question.also.push_back({*guide, {}});
    refreshing_ = true;
    refresh_at_ = clock_.now() + about(options_.refresh_period);
    tasks.spawn("directory.refresh", refresh(std::move(question)));
  }
  std::erase_if(spots_, [&](const auto& entry) {
    return !entry.second.busy && clock_.now() - entry.second.used_at > options_.spot_unused;
  });
  hurry_for(server_.table().take_added());
  // as many as say they can be dialled might make a large swarm: then they have to show it
  const RoutingTable& table = server_.table();
  const bool may_be_large = table.size() + table.suggested() + 1 >= server_.routing().k;
  if (may_be_large && !refreshing_) plan_suggested(tasks);  // a refresh finds most of them itself
  if (server_.form() == Form::whole) return;
  if (clock_.now() >= refresh_at_ && !refreshing_) {
    refreshing_ = true;
    refresh_at_ = clock_.now() + about(options_.refresh_period);
    tasks.spawn("directory.refresh", refresh(own_neighbourhood()));
  }
  plan_pings(tasks);
  plan_spots(tasks);
}

/// Calm is over where somebody has come who is to keep a key: it is looked up again as soon as keys ever are.
void Router::hurry_for(const std::vector<Place>& newcomers) {
  if (newcomers.empty()) return;
  for (auto& [key, spot] : spots_) {
    const bool all_kept = spot.nearest.size() < server_.routing().replicas;
    const Place place = spot.place;
    const Place farthest = all_kept ? Place() : place_of(spot.nearest.back());
    const auto keeps = [&](const Place& newcomer) { return all_kept || nearer(place, newcomer, farthest); };
    if (std::none_of(newcomers.begin(), newcomers.end(), keeps)) continue;
    spot.doublings = 0;
    spot.due = std::min(spot.due, spot.looked_at + options_.spot_period);
  }
}

void Router::plan_spots(TaskGroup& tasks) {
  for (auto& [key, spot] : spots_) {
    if (spots_busy_ >= options_.spots_at_once) return;
    if (spot.busy) continue;
    const bool ill = std::any_of(spot.nearest.begin(), spot.nearest.end(),
                                 [&](const PeerId& node) { return client_.failing(node); });
    const TimePoint due = ill ? std::min(spot.due, spot.looked_at + options_.spot_repair) : spot.due;
    if (clock_.now() < due) continue;
    spot.busy = true;
    ++spots_busy_;
    tasks.spawn("directory.locate", locate_and_free(key));
  }
}

Task<> Router::locate_and_free(std::string key) {
  const TimePoint deadline = clock_.now() + std::chrono::seconds(15);
  co_await locate_spot(key, deadline);
  --spots_busy_;
  if (const auto found = spots_.find(key); found != spots_.end()) {
    found->second.busy = false;
    if (!found->second.looked) found->second.due = clock_.now() + options_.spot_repair;
  }
  wake_.notify();
}

void Router::plan_pings(TaskGroup& tasks) {
  RoutingTable& table = server_.table();
  // so two swarms that touch know each other within seconds
  for (const PeerId& node : table.take_unasked(options_.unasked_pings)) {
    tasks.spawn("directory.ping", ping_and_forget(table.find(node)->node));
  }
  const TimePoint before = clock_.now() - options_.ping_after;
  const TimePoint before_far = clock_.now() - options_.ping_far_after;
  std::size_t pinged = 0;
  for (const PeerId& node : table.silent_since(before, table.entries().size())) {
    if (pinged == options_.pings) break;
    const net::LinkState link = net_.link(node);
    const RoutingTable::Entry* entry = table.find(node);
    const bool sound = entry->failures == 0;
    if (sound && entry->heard >= before_far && !table.knows_all_near(entry->place)) continue;
    if (sound && link.connected && link.last_received >= before) {  // its connection shows that it lives
      table.heard(node, link.last_received);
      continue;
    }
    ++pinged;
    tasks.spawn("directory.ping", ping_and_forget(table.find(node)->node));
  }
}

/// Nobody has a place in the table because others name him, or he himself: he is asked first.
void Router::plan_suggested(TaskGroup& tasks) {
  RoutingTable& table = server_.table();
  if (clock_.now() >= misled_until_) {
    misled_.clear();
    misled_until_ = clock_.now() + options_.misled_time;
  }
  for (std::size_t i = 0; i < options_.new_pings && table.suggested() > 0; ++i) {
    auto suggested = table.take_suggested(random_.below(table.suggested()));
    const auto misled = suggested.teacher ? misled_.find(*suggested.teacher) : misled_.end();
    if (misled != misled_.end() && misled->second >= options_.misled_max) continue;
    if (table.is_short_of(suggested.node.id) && !client_.failing(suggested.node.id))
      tasks.spawn("directory.ping", try_suggested(std::move(suggested)));
  }
}

/// Whoever is asked hears of this node, and names its neighbours, newcomers among them.
Task<bool> Router::ping(RouteNode node) {
  Client::Search search;
  search.place = server_.table().place();
  const TimePoint deadline = clock_.now() + options_.ask_timeout;
  const PeerId teacher = node.id;
  const auto nearby = co_await client_.find(std::move(node), std::move(search), deadline);
  if (!nearby) co_return false;
  for (const RouteNode& named : nearby->nodes) {
    if (!client_.failing(named.id)) (void)server_.table().suggest(named, teacher);
  }
  co_return true;
}

/// Whoever names nodes that are not there would have this node knock wherever he likes.
Task<> Router::try_suggested(RoutingTable::Suggested suggested) {
  const bool answers = co_await ping(std::move(suggested.node));
  if (!answers && suggested.teacher) ++misled_[*suggested.teacher];
}

Task<> Router::ping_and_forget(RouteNode node) {
  (void)co_await ping(std::move(node));  // the table is told either way
}

Task<bool> Router::meet(RouteNode node, TimePoint deadline) {
  const RoutingTable& table = server_.table();
  const std::size_t known = table.size() + table.suggested();
  const bool answers = co_await ping(node);
  // in a swarm that is one it names nobody who would have a place here
  const bool taught = table.size() + table.suggested() > known;
  if (!answers || !taught) co_return answers;
  Question question = own_neighbourhood();
  question.also.push_back(std::move(node));
  (void)co_await look_up(std::move(question), deadline);
  co_return true;
}

/// Some place of a bucket that may not hold all who belong there, each bucket as often as the others.
Place Router::far_place() {
  Place place = server_.table().place();
  const std::size_t first = random_.below(server_.table().neighbourhood() + 1);
  for (std::size_t bit = first; bit < 8 * place.size(); ++bit) {
    const auto mask = static_cast<unsigned char>(0x80U >> (bit % 8));
    if (bit == first || random_.below(2) == 1) place[bit / 8] = static_cast<unsigned char>(place[bit / 8] ^ mask);
  }
  return place;
}

/// The own neighbourhood, where newcomers matter most; then a place for the far buckets.
Task<> Router::refresh(Question question) {
  refreshed_at_ = clock_.now();
  const TimePoint deadline = clock_.now() + std::chrono::seconds(20);
  const Report report = co_await look_up(question, deadline);
  question.place = far_place();
  question.width = server_.routing().replicas;  // a few more of that bucket: who is near there knows the others
  const Report far = co_await look_up(std::move(question), deadline);
  // Two swarms that have met on one side only, whose far buckets are full of their own, meet on the other side so:
  // strangers are asked for this node's own neighbourhood.
  std::vector<RouteNode> strangers;
  for (const PeerId& node : far.nearest) {
    if (server_.table().find(node) == nullptr && strangers.size() < options_.strangers) strangers.push_back({node, {}});
  }
  for (const RouteNode& stranger : strangers) (void)co_await ping(stranger);
  refreshing_ = false;
  log_.debug("directory.refreshed", {{"nodes", server_.table().size()}, {"asked", report.asked}});
}

}  // namespace collab::directory
