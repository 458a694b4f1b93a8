#include "directory/hand_over.hpp"

#include "base/frame.hpp"
#include "base/task_group.hpp"
#include "directory/server.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <utility>

namespace collab::directory {
namespace {

constexpr Duration kBringTimeout = std::chrono::seconds(5);
constexpr std::size_t kErrandsMax = 256;  // of one turn; the others are looked at again in the next

bool has(const std::vector<PeerId>& ids, const PeerId& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

std::vector<PeerId> HandOver::keepers(const std::string& key) const {
  const Form form = server_.form();
  if (form == Form::whole) return server_.servers().ids();
  std::vector<PeerId> keepers = server_.nearest_to(server_.place(key));
  if (form == Form::routed) return keepers;
  for (const PeerId& server : server_.servers().ids()) {
    if (!has(keepers, server)) keepers.push_back(server);
  }
  return keepers;
}

/// The first of them who is alive brings it, as far as this node knows who is; if it errs, the owner still re-puts.
bool HandOver::is_mine_to_give(const std::vector<PeerId>& keepers) const {
  for (const PeerId& keeper : keepers) {
    if (keeper == server_.self()) return true;
    const RoutingTable::Entry* entry = server_.table().find(keeper);
    if (entry != nullptr && entry->failures == 0) return false;
  }
  return false;
}

std::vector<HandOver::Errand> HandOver::errands() {
  std::vector<Errand> errands;
  std::map<std::string, std::vector<PeerId>> kept;
  for (const std::string& key : server_.storage().keys()) {
    std::vector<PeerId> now = keepers(key);
    const auto known = kept_.find(key);
    // what was there when this node saw a large swarm for the first time, all servers have
    const std::vector<PeerId> before = known != kept_.end() ? known->second
                                       : was_whole_         ? server_.servers().ids()
                                                            : now;
    const bool mine = now != before && is_mine_to_give(before);
    for (const PeerId& keeper : now) {
      if (!mine || keeper == server_.self() || has(before, keeper)) continue;
      if (errands.size() < kErrandsMax) errands.push_back({key, keeper});
    }
    kept.emplace(key, errands.size() < kErrandsMax ? std::move(now) : before);
  }
  kept_ = std::move(kept);
  return errands;
}

Task<> HandOver::turn() {
  const bool whole = server_.form() == Form::whole;
  if (whole && was_whole_) co_return;
  std::vector<Errand> todo = errands();
  was_whole_ = whole;
  if (whole) kept_.clear();
  if (todo.empty()) co_return;
  log_.debug("directory.hands_over", {{"errands", todo.size()}});
  const auto worker = [&]() -> Task<> {
    while (!todo.empty()) {
      Errand errand = std::move(todo.back());
      todo.pop_back();
      co_await bring(std::move(errand));
    }
  };
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (int i = 0; i < 8; ++i) tasks.spawn("directory.bring", worker());
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

/// All records of the key, withdrawn ones too.
Task<> HandOver::bring(Errand errand) {
  const TimePoint deadline = clock_.now() + kBringTimeout;
  std::uint64_t since = 0;
  for (bool more = true; more;) {
    const auto page = server_.storage().page(errand.key, since, server_.unix_ms(), wire::kPutBytesMax / 2);
    since = page.next;
    more = page.more;
    std::vector<Bytes> records;  // the storage may change while we wait
    for (const auto record : page.records) records.emplace_back(record.begin(), record.end());
    for (std::size_t first = 0; first < records.size(); first += wire::kPutRecordsMax) {
      const std::size_t last = std::min(records.size(), first + wire::kPutRecordsMax);
      std::vector<std::span<const std::byte>> some(records.begin() + static_cast<std::ptrdiff_t>(first),
                                                   records.begin() + static_cast<std::ptrdiff_t>(last));
      wire::Put put;
      put.records = static_cast<std::uint32_t>(some.size());
      put.servers = server_.servers_hash();
      Frame request = frame::encode(wire::Header(put), wire::pack_records(some));
      const net::Answer answer = co_await net_.call(errand.to, "directory.put", std::move(request), deadline);
      if (answer) continue;
      // who does not answer is no keeper; if he is one after all he gets it when he is seen again
      server_.table().failed(errand.to);
      if (const auto kept = kept_.find(errand.key); kept != kept_.end()) std::erase(kept->second, errand.to);
      co_return;
    }
  }
}

}  // namespace collab::directory
