#include "slow_switch.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <linux/if_packet.h>
#include <map>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <queue>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace collab::bench {
namespace {

constexpr std::size_t kOffloadBytes = 10;    // what the kernel says of each frame: its checksum, and how to cut it
constexpr std::size_t kFrameMax = 70'000;    // 64 KiB that are not cut yet, and headers
constexpr int kFramesInTurn = 64;            // of one port before the next has its turn
constexpr int kKernelBufferBytes = 8 << 20;  // of a port
constexpr unsigned long kTimerSlackNs = 1000;

using HardwareAddress = std::array<char, ETH_ALEN>;

Failure no_switch(const std::string& what) {
  return {ExitCode::machine, fmt::format("--shape cannot make long lines here: {}: {}", what, std::strerror(errno)),
          "run it as root, or leave the round trip out"};
}

/// Gets and sends all frames of a device, with what the kernel has yet to do for them.
int open_device(const std::string& device) {
  const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
  if (socket < 0) throw no_switch("no packet socket");
  const int on = 1;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(device.c_str()));
  packet_mreq all{};
  all.mr_ifindex = address.sll_ifindex;
  all.mr_type = PACKET_MR_PROMISC;
  const auto set = [socket](int level, int name, const auto& value) {
    return ::setsockopt(socket, level, name, &value, sizeof(value)) == 0;
  };
  const bool opened = set(SOL_PACKET, PACKET_VNET_HDR, on) && set(SOL_PACKET, PACKET_IGNORE_OUTGOING, on) &&
                      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
                      set(SOL_PACKET, PACKET_ADD_MEMBERSHIP, all);
  if (!opened) {
    const Failure failure = no_switch(device);
    ::close(socket);
    throw failure;
  }
  (void)set(SOL_SOCKET, SO_RCVBUFFORCE, kKernelBufferBytes);
  (void)set(SOL_SOCKET, SO_SNDBUFFORCE, kKernelBufferBytes);
  return socket;
}

}  // namespace

class SlowSwitch::Loop {
 public:
  explicit Loop(const std::vector<Port>& ports) : stop_(::eventfd(0, EFD_CLOEXEC)), buffer_(kFrameMax) {
    if (stop_ < 0) throw no_switch("no descriptor");
    polled_.push_back({stop_, POLLIN, 0});
    try {
      for (const Port& port : ports) {
        polled_.push_back({open_device(port.device), POLLIN, 0});
        ways_.push_back(port.way);
      }
    } catch (...) {
      close_all();
      throw;
    }
    thread_ = std::thread([this] { run(); });
  }

  ~Loop() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_, &one, sizeof(one));
    thread_.join();
    close_all();
  }

  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

 private:
  struct Held {
    TimePoint leaves{};
    std::uint64_t number = 0;
    std::size_t to = 0;
    std::vector<char> bytes;
    bool operator>(const Held& other) const {
      return std::pair(leaves, number) > std::pair(other.leaves, other.number);
    }
  };

  void close_all() {
    for (const pollfd& one : polled_) ::close(one.fd);
  }

  int socket(std::size_t port) const { return polled_[port + 1].fd; }

  void run() {
    ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
    while (wait()) {
      for (std::size_t port = 0; port < ways_.size(); ++port)
        if ((polled_[port + 1].revents & POLLIN) != 0) receive(port);
      send_due();
    }
  }

  /// Until a frame comes or is due. False: it is over.
  bool wait() {
    timespec left{};
    if (!held_.empty()) {
      const auto ns = std::max<std::int64_t>(0, (held_.top().leaves - std::chrono::steady_clock::now()).count());
      left = {ns / 1'000'000'000, ns % 1'000'000'000};
    }
    if (::ppoll(polled_.data(), polled_.size(), held_.empty() ? nullptr : &left, nullptr) <= 0)
      for (pollfd& one : polled_) one.revents = 0;
    return polled_[0].revents == 0;
  }

  void receive(std::size_t from) {
    for (int i = 0; i < kFramesInTurn; ++i) {
      const auto size = ::recv(socket(from), buffer_.data(), buffer_.size(), 0);
      if (size < static_cast<ssize_t>(kOffloadBytes + ETH_HLEN)) return;
      hold(from, static_cast<std::size_t>(size));
    }
  }

  /// For the port where the receiver was last heard of, or for all others.
  void hold(std::size_t from, std::size_t size) {
    homes_[address_at(ETH_ALEN)] = from;
    const auto home = homes_.find(address_at(0));
    for (std::size_t to = 0; to < ways_.size(); ++to) {
      if (to == from || (home != homes_.end() && home->second != to)) continue;
      held_.push({std::chrono::steady_clock::now() + ways_[from] + ways_[to],
                  ++number_,
                  to,
                  {buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(size)}});
    }
  }

  /// In the Ethernet header: the receiver's comes first.
  HardwareAddress address_at(std::size_t offset) const {
    HardwareAddress address;
    std::copy_n(buffer_.data() + kOffloadBytes + offset, address.size(), address.data());
    return address;
  }

  void send_due() {
    const TimePoint now = std::chrono::steady_clock::now();
    for (; !held_.empty() && held_.top().leaves <= now; held_.pop()) {
      const Held& frame = held_.top();  // what a full device does not take is lost, as on any line
      [[maybe_unused]] const auto sent = ::send(socket(frame.to), frame.bytes.data(), frame.bytes.size(), 0);
    }
  }

  int stop_;
  std::vector<pollfd> polled_;  // the end, then the ports
  std::vector<Duration> ways_;
  std::map<HardwareAddress, std::size_t> homes_;
  std::priority_queue<Held, std::vector<Held>, std::greater<>> held_;
  std::uint64_t number_ = 0;
  std::vector<char> buffer_;
  std::thread thread_;
};

SlowSwitch::SlowSwitch(const std::vector<Port>& ports) : loop_(std::make_unique<Loop>(ports)) {}

SlowSwitch::~SlowSwitch() = default;

}  // namespace collab::bench
