#pragma once
// How the other programs of this user talk to a running peer: collab-peer status, collab-peer leave.

#include "base/task_group.hpp"
#include "directory/directory.hpp"
#include "monitor/api.hpp"
#include "monitor/status_socket.hpp"
#include "optim/collaboration.hpp"

#include <atomic>
#include <memory>

namespace collab::jobs {

/// Answers on the home's socket from construction to destruction. The collaboration is started and outlives it.
class PeerStatus {
 public:
  /// Throws `Failure(machine)` when another process answers there.
  explicit PeerStatus(optim::Collaboration& run);
  ~PeerStatus();
  PeerStatus(const PeerStatus&) = delete;
  PeerStatus& operator=(const PeerStatus&) = delete;

  /// Whether somebody asked this peer to leave.
  bool asked_to_leave() const noexcept { return asked_to_leave_; }

 private:
  monitor::SwarmView view();

  optim::Collaboration& run_;
  std::atomic<bool> asked_to_leave_ = false;
  // on the loop
  std::unique_ptr<directory::Watch> members_;
  monitor::Rounds rounds_;
  std::unique_ptr<monitor::Events> events_;
  std::unique_ptr<monitor::StatusSocket> socket_;
  std::unique_ptr<TaskGroup> tasks_;
};

}  // namespace collab::jobs
