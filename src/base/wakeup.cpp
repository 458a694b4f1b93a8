#include "base/wakeup.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

#include <cassert>
#include <utility>

namespace collab {

asio::execution_context::id Turns::id;

Turns& Turns::of(const asio::any_io_executor& executor) {
  Turns& turns = asio::use_service<Turns>(asio::query(executor, asio::execution::context));
  if (!turns.executor_) turns.executor_ = executor;
  return turns;
}

void Turns::List::append(Wakeup& wakeup) {
  wakeup.before_ = last;
  wakeup.after_ = nullptr;
  (last != nullptr ? last->after_ : first) = &wakeup;
  last = &wakeup;
}

void Turns::List::remove(Wakeup& wakeup) {
  (wakeup.before_ != nullptr ? wakeup.before_->after_ : first) = wakeup.after_;
  (wakeup.after_ != nullptr ? wakeup.after_->before_ : last) = wakeup.before_;
}

void Turns::schedule() {
  if (std::exchange(scheduled_, true)) return;
  asio::post(executor_, [this] { run(); });
}

/// Those who were woken by now; who is woken meanwhile comes after what else the loop has to do.
void Turns::run() {
  struct Again {
    Turns& turns;
    ~Again() {
      turns.scheduled_ = false;
      if (turns.woken_.first != nullptr) turns.schedule();
    }
  };
  const Again again{*this};
  for (const Wakeup* const last = woken_.last; woken_.first != nullptr;) {
    Wakeup& next = *woken_.first;
    const bool is_last = &next == last;
    woken_.remove(next);
    Wakeup::Handler waiter = std::move(*next.waiter_);
    next.waiter_.reset();
    std::move(waiter)();  // `next` is gone, perhaps
    if (is_last) return;
  }
}

/// A task that waits owns itself: its frame holds the Wakeup, which holds the handler, which owns the frame.
void Turns::shutdown() noexcept {
  scheduled_ = true;  // never again
  while (woken_.first != nullptr || waiting_.first != nullptr) {
    List& list = woken_.first != nullptr ? woken_ : waiting_;
    Wakeup& next = *list.first;
    list.remove(next);
    const Wakeup::Handler waiter = std::move(*next.waiter_);  // its end may wake others
    next.waiter_.reset();
  }
}

Task<> Wakeup::wait() {
  const auto begin = [this](Handler handler) { suspend(std::move(handler)); };
  return asio::async_initiate<const asio::use_awaitable_t<>, void()>(begin, asio::use_awaitable);
}

void Wakeup::suspend(Handler handler) {
  assert(!waiter_ && "somebody waits here already");
  auto slot = asio::get_associated_cancellation_slot(handler);
  if (slot.is_connected()) slot.assign([this](asio::cancellation_type) { wake(); });
  waiter_.emplace(std::move(handler));
  woken_ = false;
  turns_.waiting_.append(*this);
}

void Wakeup::wake() {
  if (!waiter_ || std::exchange(woken_, true)) return;
  turns_.waiting_.remove(*this);
  turns_.woken_.append(*this);
  turns_.schedule();
}

}  // namespace collab
