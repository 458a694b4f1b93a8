#include "shaped_lines.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <string_view>
#include <unistd.h>

namespace collab::bench {
namespace {

constexpr double kMbit = 1e6 / 8;
constexpr double kMbitMin = 0.1;
constexpr double kMbitMax = 10'000;
constexpr std::size_t kPeersMax = 250;  // of one 10.83.0.0/24
constexpr double kRttMax = 2000;        // ms
constexpr double kQueueBytesMin = 16e3;
constexpr double kBurstTime = 0.004;  // a busy machine wakes up late
constexpr double kBurstBytesMin = 16e3;

[[noreturn]] void refuse(const std::string& table) {
  throw Failure(ExitCode::usage, fmt::format("--shape \"{}\" is no table of lines", table),
                fmt::format("--shape 20/100, or 1x2/10,3x20/100: of four peers one has 2 Mbit/s up and 10 down, three "
                            "have 20 and 100; {} to {} Mbit/s; 50/50/80 is 80 ms of round trip away from its like",
                            kMbitMin, kMbitMax));
}

/// The number at the start of `text`, which loses it and `after`; '\0': nothing may follow.
template <class Number>
Number cut_number(std::string_view& text, char after, const std::string& table) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc() || (after == '\0' ? !text.empty() : !text.starts_with(after))) refuse(table);
  if (after != '\0') text.remove_prefix(1);
  return value;
}

Failure no_network(const std::string& what) {
  return {ExitCode::machine, "--shape cannot make networks of limited rate here: " + what,
          "run it as root, with ip and tc (Debian: iproute2) and a kernel that has veth, bridges and tbf"};
}

void run(const std::string& script) {
  if (std::system(("set -e; " + script).c_str()) != 0) throw no_network("ip or tc failed, as they say above");
}

int this_network() {
  const int descriptor = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw no_network(std::strerror(errno));
  return descriptor;
}

void unshare_network() {
  if (::unshare(CLONE_NEWNET) != 0) throw no_network(std::strerror(errno));
}

void move_to(int network) noexcept {
  const int moved = ::setns(network, CLONE_NEWNET);
  assert(moved == 0);  // whoever could make it may go there
}

bool is_far(const std::vector<Line>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const Line& line) { return line.rtt_s > 0; });
}

/// What a device sends from now on is no faster.
std::string limit(const std::string& device, double bytes_per_s, Duration queue_time) {
  const double queue = std::max(to_seconds(queue_time) * bytes_per_s, kQueueBytesMin);
  const double burst = std::max(kBurstTime * bytes_per_s, kBurstBytesMin);
  return fmt::format("tc qdisc add dev {} root tbf rate {:.0f}bps burst {:.0f} limit {:.0f}\n", device, bytes_per_s,
                     burst, queue);
}

}  // namespace

std::vector<Line> lines_of(const std::string& table, std::size_t peers) {
  if (table.empty()) return {};
  std::vector<Line> rows;
  std::string_view rest = table;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    more = comma != std::string_view::npos;
    std::string_view row = rest.substr(0, comma);
    if (more) rest.remove_prefix(comma + 1);
    const auto count = row.find('x') == std::string_view::npos ? 1 : cut_number<std::size_t>(row, 'x', table);
    const double up = cut_number<double>(row, '/', table);
    const bool far = std::count(row.begin(), row.end(), '/') > 0;
    const double down = cut_number<double>(row, far ? '/' : '\0', table);
    const double rtt_ms = far ? cut_number<double>(row, '\0', table) : 0;
    const auto fits = [](double mbit) { return mbit >= kMbitMin && mbit <= kMbitMax; };
    if (count < 1 || count > kPeersMax || !fits(up) || !fits(down) || !(rtt_ms >= 0 && rtt_ms <= kRttMax))
      refuse(table);
    rows.insert(rows.end(), count, Line{up * kMbit, down * kMbit, rtt_ms / 1000});
  }
  std::vector<Line> lines;
  for (std::size_t i = 0; i < peers; ++i) lines.push_back(rows[i % rows.size()]);
  return lines;
}

ShapedLines::ShapedLines(std::vector<Line> lines, Duration queue)
    : lines_(std::move(lines)), queue_(queue), home_(this_network()) {
  assert(lines_.size() <= kPeersMax);
  unshare_network();
  between_ = this_network();
  if (!is_far(lines_)) run("ip link add middle type bridge\nip link set middle up");
}

ShapedLines::~ShapedLines() {
  switch_.reset();
  move_to(home_);
  ::close(home_);
  ::close(between_);
}

/// A box is a bridge: what its peer sends comes in by `home` and leaves by `up`, what comes for it the other way.
std::string ShapedLines::enter_next() {
  const std::size_t index = made_++;
  const Line& line = lines_.at(index);
  const std::string address = fmt::format("10.83.0.{}", index + 1);
  unshare_network();
  const int own = this_network();
  // a packet of ten, as it goes to a network card, would be too long for the queue of a slow line, and lost whole
  run(fmt::format(
      "ip link set lo up\n"
      "ip link add eth0 type veth peer name home{} netns /proc/{}/fd/{}\n"
      "ip addr add {}/24 dev eth0\nip link set eth0 gso_max_segs 1\nip link set eth0 up\n"
      "cd /proc/sys/net/ipv4\n(echo cubic > tcp_congestion_control) 2>&- || echo reno > tcp_congestion_control",
      index, ::getpid(), between_, address));
  move_to(between_);
  run(fmt::format("ip link add box{0} type bridge\nip link set box{0} up\n"
                  "ip link add up{0} type veth peer name line{0}\n"
                  "ip link set home{0} master box{0} up\nip link set up{0} master box{0} up\n"
                  "ip link set line{0} {1} up\n",
                  index, is_far(lines_) ? "" : "master middle") +
      limit(fmt::format("up{}", index), line.up_bytes_per_s, queue_) +
      limit(fmt::format("home{}", index), line.down_bytes_per_s, queue_));
  if (made_ == lines_.size() && is_far(lines_)) connect_far();
  move_to(own);
  ::close(own);
  return address;
}

/// A thread sees the network of who starts it.
void ShapedLines::connect_far() {
  std::vector<SlowSwitch::Port> ports;
  for (std::size_t i = 0; i < lines_.size(); ++i)
    ports.push_back({fmt::format("line{}", i), from_seconds(lines_[i].rtt_s / 4)});
  switch_ = std::make_unique<SlowSwitch>(ports);
}

void ShapedLines::leave() {
  move_to(between_);
}

}  // namespace collab::bench
