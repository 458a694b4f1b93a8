#include "node/admission_keeper.hpp"

#include "base/file.hpp"
#include "base/task_group.hpp"
#include "node/ban_file.hpp"

#include <fmt/format.h>

#include <utility>

namespace collab::node {
namespace {

constexpr Duration kOwnPeriod = std::chrono::seconds(1);

}  // namespace

AdmissionKeeper::AdmissionKeeper(const Needs& needs, Options options)
    : needs_(needs), options_(std::move(options)), token_(options_.token_file), dismissed_(needs_.loop) {
  look_at_token();
}

/// A token that is not ours is not shown: the one before may still hold.
void AdmissionKeeper::look_at_token() {
  auto news = token_.look();
  if (!news) return;
  if (news->problem.empty() && !news->token.empty()) {
    const auto shown = needs_.access.show(needs_.endpoint.self(), news->token);
    if (!shown) news->problem = fmt::format("{}: {}", token_.path().string(), shown.error().message());
  }
  if (!news->problem.empty()) return needs_.log.warn("node.token_refused", {{"why", news->problem}});
  if (news->token.empty()) return;
  needs_.log.info("node.token", {{"expires_ms", needs_.access.expiry_of(needs_.endpoint.self()).value_or(0)}});
  needs_.endpoint.credentials().present(std::move(news->token), needs_.endpoint.connected());
}

Task<> AdmissionKeeper::follow_token() {
  for (;;) {
    co_await needs_.clock.sleep_until(needs_.clock.now() + options_.look_period);
    look_at_token();
  }
}

Task<> AdmissionKeeper::follow_bans(directory::SwarmDirectory& directory) {
  const auto watch = directory.watch(std::string(directory::kBanKey));
  for (;;) {
    std::vector<Ban> bans;
    for (const directory::Record& record : watch->records()) {
      const auto ban = read_ban(record.value, options_.run_id, options_.authority, needs_.endpoint.swarm_ms());
      if (ban && target_name(*ban) == record.subkey) {
        bans.push_back(*ban);
      } else {
        needs_.log.warn("node.ban_refused", {{"name", record.subkey}, {"why", ban ? "name" : ban.error().message()}});
      }
    }
    needs_.log.info("node.bans", {{"bans", bans.size()}});
    needs_.access.obey(bans);
    co_await watch->changed_until(TimePoint::max());
  }
}

/// What the user of this home has banned. Servers keep it as any record; one that has forgotten is told again.
Task<> AdmissionKeeper::hand_on_bans(directory::SwarmDirectory& directory) {
  std::string stamp = "-";
  TimePoint again = TimePoint::max();
  for (;;) {
    std::string now = file_stamp(options_.ban_file);
    const bool changed = now != std::exchange(stamp, now);
    if (changed || needs_.clock.now() >= again) {
      std::vector<directory::SignedRecord> records;
      try {
        records = read_ban_file(options_.ban_file);
      } catch (const Failure& failure) {  // what was told before stays told
        needs_.log.error("node.ban_file_refused", {{"why", failure.cause()}});
      }
      again = records.empty() ? TimePoint::max() : needs_.clock.now() + options_.again_period;
      co_await directory.hand_on(std::move(records));
    }
    co_await needs_.clock.sleep_until(needs_.clock.now() + options_.look_period);
  }
}

Task<> AdmissionKeeper::mind_own_place() {
  TimePoint good = needs_.clock.now();
  for (;;) {
    co_await needs_.clock.sleep_until(needs_.clock.now() + kOwnPeriod);
    const Decision own = needs_.access.own();
    if (own) good = needs_.clock.now();
    if (needs_.clock.now() - good < options_.grace) continue;
    dismiss(own.reason);
    co_return;
  }
}

void AdmissionKeeper::dismiss(const std::string& why) {
  if (dismissal_) return;
  needs_.log.error("node.not_admitted", {{"why", why}});
  const bool by_token = why.find("token") != std::string::npos;
  const std::string place = token_.path().empty() ? "--token FILE" : token_.path().string();
  dismissal_.emplace(ExitCode::not_admitted, fmt::format("not admitted to {}: {}", options_.run_id, why),
                     by_token ? fmt::format("ask the host of the run for a new token, and put it into {}", place)
                              : "ask the host of the run");
  dismissed_.notify();
}

Task<> AdmissionKeeper::run(directory::SwarmDirectory& directory) {
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    if (!options_.token_file.empty()) tasks.spawn("node.token", follow_token());
    if (!options_.ban_file.empty()) tasks.spawn("node.hand_on_bans", hand_on_bans(directory));
    tasks.spawn("node.bans", follow_bans(directory));
    co_await mind_own_place();
    co_await needs_.clock.sleep_until(TimePoint::max());
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

}  // namespace collab::node
