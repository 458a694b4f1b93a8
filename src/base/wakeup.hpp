#pragma once
// Where one task waits until another wakes it: below Signal, clocks and TaskGroup.

#include "base/task.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>

#include <optional>

namespace collab {

class Wakeup;

/// Those of one loop who wait in a Wakeup, and those who were woken and go on in the loop's next turn, in the order in
/// which they were woken. A service of the loop: what still waits when the loop is destroyed is destroyed with it.
class Turns final : public asio::execution_context::service {
 public:
  static asio::execution_context::id id;

  explicit Turns(asio::execution_context& loop) : service(loop) {}
  /// Those of the loop that `executor` belongs to. Good for as long as the loop lives.
  static Turns& of(const asio::any_io_executor& executor);

 private:
  friend class Wakeup;
  struct List {
    Wakeup* first = nullptr;
    Wakeup* last = nullptr;
    void append(Wakeup&);
    void remove(Wakeup&);
  };

  void shutdown() noexcept override;
  void schedule();
  void run();

  asio::any_io_executor executor_;
  List waiting_;
  List woken_;
  bool scheduled_ = false;
};

/// For one wait at a time. Belongs to the loop; must outlive its waiter.
class Wakeup {
 public:
  explicit Wakeup(Turns& turns) : turns_(turns) {}
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  /// Returns in a turn of the loop after `wake()`, or when the task is cancelled: then its next co_await throws.
  Task<> wait();
  /// Nothing happens when nobody waits, or who waits is woken already.
  void wake();

 private:
  friend class Turns;
  using Handler = asio::async_result<asio::use_awaitable_t<>, void()>::handler_type;

  void suspend(Handler handler);

  Turns& turns_;
  std::optional<Handler> waiter_;
  bool woken_ = false;
  Wakeup* before_ = nullptr;
  Wakeup* after_ = nullptr;
};

}  // namespace collab
