#include "state/download.hpp"

#include "base/offload.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace collab::state {
namespace {

using wire::Kind;

/// Whether it is one section of that name; results and files are.
bool is_single(const Index& index, std::string_view name) {
  return index.sections.size() == 1 && index.sections.front().name == name;
}

std::uint32_t wait_ms(Duration wait) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ms, 0, 60'000));
}

wire::AskIndex question(Kind kind, std::uint64_t epoch) {
  wire::AskIndex ask;
  ask.kind = static_cast<std::uint8_t>(kind);
  ask.epoch = epoch;
  return ask;
}

}  // namespace

namespace {

/// What came, on the shelf. `store` null: it is not shared.
Task<boost::system::result<void, Refusal>> fetch_state(Context context, Store* store, const WantedState& wanted,
                                                       std::vector<PeerId> donors, OnProgress on_progress,
                                                       FetchOptions options, Shelf& shelf) {
  const auto acceptable = [&wanted](const Index& index) {
    if (index.epoch != wanted.epoch || index.bytes() > wanted.bytes_max) return false;
    if (wanted.root && index.root() != *wanted.root) return false;
    const auto has = [&index](std::string_view name, const Digest& hash) {
      const auto named = [&](const SectionIndex& section) { return section.name == name; };
      const auto found = std::find_if(index.sections.begin(), index.sections.end(), named);
      return found != index.sections.end() && found->hash() == hash;
    };
    if (wanted.parameters && !has("parameters", *wanted.parameters)) return false;
    return !wanted.ledger || has("ledger", *wanted.ledger);
  };
  wire::AskIndex ask = question(Kind::snapshot, wanted.epoch);
  ask.wait_ms = wait_ms(wanted.wait);
  Fetch fetch(context, ask, acceptable, std::move(on_progress), options, store);
  auto index = co_await fetch.run(std::move(donors), shelf, wanted.deadline);
  if (!index) co_return index.error();
  co_return boost::system::result<void, Refusal>();
}

ShelfOptions shelf_of(const WantedState& wanted) {
  ShelfOptions options;
  options.folder = wanted.folder;
  options.have = wanted.have;
  return options;
}

}  // namespace

Task<boost::system::result<Snapshot, Refusal>> download(Context context, WantedState wanted, std::vector<PeerId> donors,
                                                        OnProgress on_progress, FetchOptions options) {
  Shelf shelf(shelf_of(wanted));
  auto came = co_await fetch_state(context, nullptr, wanted, std::move(donors), std::move(on_progress), options, shelf);
  if (!came) co_return came.error();
  co_return shelf.take();
}

Task<boost::system::result<std::shared_ptr<const Snapshot>, Refusal>> download_and_share(Context context, Store& store,
                                                                                         WantedState wanted,
                                                                                         std::vector<PeerId> donors,
                                                                                         OnProgress on_progress,
                                                                                         FetchOptions options) {
  Shelf shelf(shelf_of(wanted));
  auto came = co_await fetch_state(context, &store, wanted, std::move(donors), std::move(on_progress), options, shelf);
  if (!came) co_return came.error();
  co_return shelf.take_shared();
}

std::optional<std::uint64_t> EpochInstead::after(const Refusal& refusal, std::uint64_t asked, std::uint64_t last) {
  const std::uint64_t theirs = refusal.number;
  const bool was_theirs = std::exchange(theirs_, std::nullopt) == asked;
  if (refusal.code == Errc::stale && theirs >= asked) {
    theirs_ = theirs;
    of_a_blink_ = of_a_blink_ || was_theirs || theirs > asked + 1;
    return of_a_blink_ && theirs < last ? theirs + 1 : theirs;
  }
  if (refusal.code == Errc::late && theirs > 0 && theirs < asked) return theirs;
  return std::nullopt;
}

Task<boost::system::result<FetchedResult, Refusal>> download_result(Context context, WantedResult wanted,
                                                                    std::vector<PeerId> donors, FetchOptions options) {
  std::set<Digest> refused;
  Refusal why(Errc::gone);
  for (;;) {
    const auto acceptable = [&](const Index& index) {
      return index.epoch == wanted.epoch && is_single(index, "result") && index.bytes() <= wanted.bytes_max &&
             !refused.contains(index.root());
    };
    Shelf shelf{ShelfOptions()};
    wire::AskIndex ask = question(wanted.first_group ? Kind::first_group : Kind::result, wanted.epoch);
    ask.name = wanted.first_group.value_or(Digest());
    ask.wait_ms = wait_ms(wanted.wait);
    Fetch fetch(context, ask, acceptable, {}, options);
    auto index = co_await fetch.run(donors, shelf, wanted.deadline);
    if (!index) co_return refused.empty() ? index.error() : Refusal(Errc::bad_request, "no donor's bytes are right");
    Snapshot whole = shelf.take();
    Bytes& bytes = whole.sections.front().bytes;
    const auto work = [&] { return !wanted.check || wanted.check(bytes); };
    const bool good = co_await offload(context.workers, work);
    if (good) co_return FetchedResult{std::move(bytes), fetch.silent()};
    context.log.warn("state.bad_result", {{"epoch", wanted.epoch}, {"bytes", bytes.size()}});
    refused.insert(index->root());
  }
}

Task<boost::system::result<void, Refusal>> download_file(Context context, WantedFile wanted, std::vector<PeerId> donors,
                                                         OnProgress on_progress, FetchOptions options) {
  wire::AskIndex ask = question(Kind::file, 0);
  ask.name = wanted.name;
  std::set<Digest> refused;
  for (;;) {
    const auto acceptable = [&](const Index& index) {
      if (!is_single(index, "file") || index.bytes() > wanted.bytes_max || refused.contains(index.root())) return false;
      return wanted.check || index.sections.front().hash() == wanted.name;
    };
    ShelfOptions shelf_options;
    shelf_options.memory = false;
    shelf_options.folder = wanted.target.string() + ".parts";
    Shelf shelf(shelf_options);
    Fetch fetch(context, ask, acceptable, on_progress, options);
    auto index = co_await fetch.run(donors, shelf, wanted.deadline);
    if (!index) co_return refused.empty() ? index.error() : Refusal(Errc::bad_request, "no donor's file is right");
    const auto work = [&] {
      if (wanted.check && !wanted.check(shelf.file())) {
        shelf.remove_file();
        return false;
      }
      shelf.name_file(wanted.target);
      std::error_code ignored;  // an empty folder that stays harms nobody
      std::filesystem::remove(shelf_options.folder, ignored);
      return true;
    };
    const bool good = co_await offload(context.workers, work);
    if (good) co_return boost::system::result<void, Refusal>();
    context.log.warn("state.bad_file", {{"file", wanted.target.filename().string()}});
    refused.insert(index->root());
  }
}

}  // namespace collab::state
