#include "matchmaking/search.hpp"

#include "base/frame.hpp"
#include "base/text.hpp"

#include <utility>

namespace collab::matchmaking {
namespace {

Links links_of(net::Endpoint& net) {
  Links links;
  links.state = [&net](const PeerId& peer) { return net.link(peer); };
  links.can_reach = [&net](const PeerId& peer) { return net.can_reach(peer); };
  return links;
}

}  // namespace

Search::Search(Context context, std::shared_ptr<Declarations> declarations, asio::any_io_executor executor, Terms terms,
               Start start)
    : context_(context),
      declarations_(std::move(declarations)),
      wanted_(terms.wanted),
      declined_(terms.options.declined),
      links_(links_of(context.net)),
      opened_at_(context.clock.now()),
      conversation_(context.net.converse(kProtocol, topic(terms.options.key, wanted_.epoch, wanted_.round), {})),
      gathering_(std::make_unique<Gathering>(std::move(terms), links_, std::move(start), Gathering::Carried(),
                                             context.clock.now())),
      changed_(executor),
      tasks_(executor, rethrow) {
  if (!gathering_->lends())  // else they say when they come
    for (const Expected& expected : wanted_.expected) heed(expected.id);
  for (const PeerId& follower : gathering_->followers()) heed(follower);
  flush();
  tasks_.spawn("matchmaking.receive", receive_frames());
  if (declarations_->watches()) tasks_.spawn("matchmaking.watch", watch_directory());
}

void Search::retry(Terms terms, Start start) {
  wanted_ = terms.wanted;
  auto carried = gathering_->take_carried();
  gathering_ =
      std::make_unique<Gathering>(std::move(terms), links_, std::move(start), std::move(carried), context_.clock.now());
  flush();
}

Task<Result<Group>> Search::outcome() {
  while (!gathering_->outcome()) {
    const bool in_time = co_await changed_.wait_until(context_.clock, wanted_.deadline);
    if (in_time || gathering_->outcome()) continue;
    gathering_->expire(context_.clock.now());
    flush();
  }
  co_return *gathering_->outcome();
}

Task<> Search::asked_again() {
  while (!gathering_->asked_again()) co_await changed_.wait();
}

void Search::samples(std::uint64_t own_total) {
  gathering_->on_samples(own_total, context_.clock.now());
  flush();
}

void Search::samples_elsewhere(std::uint64_t total) {
  gathering_->on_samples_elsewhere(total, context_.clock.now());
  flush();
}

void Search::electorate(std::size_t count) {
  gathering_->on_electorate(count, context_.clock.now());
  flush();
}

void Search::sit_out() {
  gathering_->sit_out();
  flush();
}

void Search::settled() {
  gathering_->settled(context_.clock.now());
  flush();
}

void Search::abandon() {
  gathering_->expire(context_.clock.now());
  flush();
}

Task<> Search::leave(TimePoint deadline) {
  gathering_->leave();
  flush();
  leaving_ = true;
  while (!outbox_.empty()) {
    const bool in_time = co_await changed_.wait_until(context_.clock, deadline);
    if (!in_time) break;
  }
}

Task<> Search::stop() {
  gathering_->expire(context_.clock.now());
  stopping_ = true;
  changed_.notify();
  co_await tasks_.stop();
}

Task<> Search::receive_frames() {
  TimePoint next_look = context_.clock.now() + kTick;
  for (;;) {
    const auto envelope = co_await conversation_->receive(next_look);
    const TimePoint now = context_.clock.now();
    if (envelope) {
      const auto message = frame::decode<wire::Header>(*envelope->frame);
      if (message && message->payload.empty()) {
        gathering_->on_message(envelope->from, message->header, now);
      } else {
        context_.log.warn("matchmaking.malformed", {{"peer", envelope->from.short_text()}});
      }
    } else if (envelope.error() != Errc::late) {
      co_return;  // the node's network is closing
    }
    if (now >= next_look) {  // not at each frame: every look is at all followers, and each of them tells its samples
      gathering_->on_time(now);
      next_look = now + kTick;
    }
    flush();
  }
}

Task<> Search::watch_directory() {
  for (;;) {
    (void)co_await declarations_->changed_until(TimePoint::max());  // a spurious wake-up costs a look
    gathering_->on_candidates(declarations_->candidates(wanted_), context_.clock.now());
    flush();
  }
}

Task<> Search::send_frames(PeerId to) {
  // one sender per peer: its frames stay in order, and it delays nobody else's
  while (!outbox_.at(to).empty()) {
    Frame next = std::move(outbox_.at(to).front());
    outbox_.at(to).pop_front();
    const TimePoint deadline = context_.clock.now() + kSendMax;
    const auto sent = co_await conversation_->send(to, net::TrafficClass::control, std::move(next), deadline);
    if (sent) continue;
    outbox_.at(to).clear();
    const TimePoint now = context_.clock.now();
    if (sent.error() == Errc::stale && now < opened_at_ + kUnopened) {
      gathering_->on_over(to, now);
    } else {
      gathering_->on_unreachable(to, now);
    }
  }
  outbox_.erase(to);
  flush();
}

/// From now on the silence of `peer` means something. Only of those with whom this one has words, or who are presumed
/// to follow it: were each to ask for signs of life of everybody, a swarm of 64 would do little else.
void Search::heed(const PeerId& peer) {
  if (heeded_.size() < Candidates::kCandidatesMax && heeded_.insert(peer).second) conversation_->add_member(peer);
}

void Search::flush() {
  if (stopping_) return;
  for (const auto& [peer, why] : gathering_->take_struck()) {
    context_.log.info("matchmaking.struck", {{"epoch", wanted_.epoch}, {"peer", peer.short_text()}, {"why", why}});
  }
  for (const Group& group : gathering_->take_declined()) {
    context_.log.info(
        "matchmaking.declined",
        {{"epoch", group.epoch}, {"round", group.round}, {"group", to_hex(std::span(group.id).first(8))}});
    if (declined_) declined_(group);
  }
  for (auto& [to, message] : gathering_->take_outgoing()) {
    const auto [entry, idle] = outbox_.try_emplace(to);
    heed(to);
    if (entry->second.size() >= kOutboxMax) entry->second.pop_front();
    entry->second.push_back(frame::encode(message));
    if (idle) tasks_.spawn("matchmaking.send", send_frames(to));
  }
  if (gathering_->outcome() || leaving_) changed_.notify();
}

}  // namespace collab::matchmaking
