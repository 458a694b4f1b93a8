#include "state/pass_on.hpp"

#include "base/frame.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

namespace collab::state {
namespace {

struct Question {
  PeerId donor;
  std::string_view method;
  Frame frame;
};

/// Written anew, so that nothing travels on in our name but what these two messages say.
std::optional<Question> read_question(const Frame& request) {
  auto outer = frame::decode<wire::Message>(*request);
  const auto* pass = outer ? std::get_if<wire::Pass>(&outer->header) : nullptr;
  if (pass == nullptr) return std::nullopt;
  auto inner = frame::decode<wire::Message>(outer->payload);
  if (!inner || !inner->payload.empty()) return std::nullopt;
  Question question{PeerId{pass->donor}, {}, {}};
  if (std::holds_alternative<wire::AskIndex>(inner->header)) {
    question.method = wire::kIndexMethod;  // with `shares`: who trains alone waits for one that comes to take part
  } else if (std::holds_alternative<wire::AskChunk>(inner->header)) {
    question.method = wire::kChunkMethod;
  } else {
    return std::nullopt;
  }
  question.frame = frame::encode(inner->header);
  return question;
}

/// So long a line of that rate is taken by `bytes`.
Duration time_of(std::size_t bytes, double bytes_per_s) {
  return bytes_per_s > 0 ? from_seconds(static_cast<double>(bytes) / bytes_per_s) : Duration::zero();
}

}  // namespace

PassOnOptions pass_on_options(bool offered, double bytes_per_s) {
  PassOnOptions options;
  options.offered = offered;
  options.bytes_per_s = bytes_per_s;
  options.bytes_per_s_of_all = 10 * bytes_per_s;
  return options;
}

/// Counts as a question while it lives.
class PassOn::Asking {
 public:
  Asking(PassOn& of, const PeerId& from) : of_(of), from_(from) {
    ++of_.askers_[from_].asks;
    ++of_.asks_;
  }
  ~Asking() {
    --of_.askers_.at(from_).asks;
    --of_.asks_;
    const TimePoint now = of_.clock_.now();
    std::erase_if(of_.askers_, [&](const auto& one) { return one.second.asks == 0 && one.second.free_at <= now; });
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  PassOn& of_;
  PeerId from_;
};

PassOn::PassOn(net::Endpoint& net, Clock& clock, PassOnOptions options) : net_(net), clock_(clock), options_(options) {}

Task<net::Answer> PassOn::pass(PeerId from, Frame request, TimePoint deadline) {
  const auto question = read_question(request);
  if (!question || question->donor == from || question->donor == net_.self())
    co_return Refusal(Errc::bad_request, "nothing to ask another for");
  if (!options_.offered) co_return Refusal(Errc::denied, "this peer carries nothing between others");
  const auto busy = [&](Duration pause) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(pause).count();
    return Refusal(Errc::busy, "too much is asked for", static_cast<std::uint64_t>(ms));
  };
  const auto asker = askers_.find(from);
  if (asks_ >= options_.of_node_max || (asker != askers_.end() && asker->second.asks >= options_.of_peer_max))
    co_return busy(options_.busy_pause);
  const Asking asking(*this, from);
  for (TimePoint turn = turn_of(from); turn > clock_.now(); turn = turn_of(from)) {
    if (turn >= deadline) co_return busy(turn - clock_.now());
    co_await clock_.sleep_until(turn);
  }
  const net::LinkState link = net_.link(question->donor);
  if (!link.connected || !link.tensors) co_return Refusal(Errc::gone, "that peer is not connected here");
  net::Answer answer = co_await net_.call(question->donor, question->method, question->frame, deadline);
  if (answer) count(from, (*answer)->size());
  co_return answer;
}

TimePoint PassOn::turn_of(const PeerId& from) const {
  return std::max(free_at_, askers_.at(from).free_at);
}

void PassOn::count(const PeerId& from, std::size_t bytes) {
  const TimePoint now = clock_.now();
  Asker& asker = askers_.at(from);
  asker.free_at = std::max(now, asker.free_at) + time_of(bytes, options_.bytes_per_s);
  free_at_ = std::max(now, free_at_) + time_of(bytes, options_.bytes_per_s_of_all);
}

}  // namespace collab::state
