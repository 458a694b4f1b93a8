#include "optim/auxiliary.hpp"

#include "epoch/auxiliary.hpp"
#include "epoch/manifest_options.hpp"
#include "optim/parts.hpp"
#include "optim/tell_dashboards.hpp"

#include <utility>

namespace collab::optim {

/// On the loop, but for what the constructor sets.
struct Auxiliary::Inner {
  explicit Inner(Collaboration& run) : parts(run.parts()) {}

  Collaboration::Parts& parts;
  std::unique_ptr<TaskGroup> tasks;
  std::unique_ptr<epoch::Auxiliary> auxiliary;

  void on_round(std::uint64_t epoch, boost::system::error_code why) const {
    parts.tell({why ? "round.failed" : "round.committed", epoch, why ? why.message() : std::string()});
    if (why) tell_failed_round(parts, epoch, why.message());
  }
};

Auxiliary::Auxiliary(Collaboration& run, const Schema& schema) : inner_(std::make_unique<Inner>(run)) {
  Collaboration::Parts& parts = inner_->parts;
  epoch::MemberOptions options = epoch::member_options(*parts.manifest, schema);
  options.incarnation = parts.incarnation;
  parts.runtime.on_loop([&] {
    if (parts.options.client || nat::only_dials(parts.node->reachability().state())) {
      throw Failure(ExitCode::machine, "nobody can dial this machine, so it cannot average for others",
                    "a machine or a port that others reach: collab-peer doctor says more");
    }
    const auto on_failure = [&parts](std::string_view task, std::exception_ptr what) {
      parts.fail(task, std::move(what));
    };
    inner_->tasks = std::make_unique<TaskGroup>(parts.runtime.loop(), on_failure);
    epoch::Auxiliary::Context context{
        parts.node->endpoint(), parts.runtime.clock(), parts.node->directory(), *parts.tracker, parts.log,
        parts.metrics,          parts.identity(),      parts.runtime.loop()};
    context.can_be_dialled = [&node = *parts.node] { return !nat::only_dials(node.reachability().state()); };
    inner_->auxiliary = std::make_unique<epoch::Auxiliary>(
        context, std::move(options),
        [inner = inner_.get()](std::uint64_t epoch, boost::system::error_code why) { inner->on_round(epoch, why); });
    parts.auxiliary = inner_->auxiliary.get();
    inner_->tasks->spawn("epoch.auxiliary", inner_->auxiliary->run());
  });
}

Auxiliary::~Auxiliary() {
  if (!inner_->tasks) return;
  const auto stop = [this]() -> Task<> {
    inner_->parts.auxiliary = nullptr;
    co_await inner_->tasks->stop();
    co_await inner_->auxiliary->stop();
    co_await inner_->parts.visited();
    inner_->auxiliary.reset();
    inner_->tasks.reset();
  };
  inner_->parts.runtime.call(stop());
}

std::uint64_t Auxiliary::rounds() const {
  std::uint64_t rounds = 0;
  inner_->parts.runtime.on_loop([&] { rounds = inner_->auxiliary->rounds(); });
  return rounds;
}

}  // namespace collab::optim
