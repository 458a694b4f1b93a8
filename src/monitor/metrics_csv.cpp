#include "monitor/metrics_csv.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace collab::monitor {
namespace {

constexpr std::string_view kHeader =
    "epoch,unix_ms,loss,samples,own_samples,peers,round_s,up_bytes,down_bytes,parameter_hash\n";

/// A descriptor that closes itself.
class File {
 public:
  explicit File(int number) noexcept : number_(number) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const noexcept { return number_; }

 private:
  int number_;
};

std::string text_of(const EpochLine& line) {
  const std::string loss = std::isfinite(line.loss) ? fmt::format("{:.6g}", line.loss) : "";
  return fmt::format("{},{},{},{},{},{},{:.3f},{},{},{}\n", line.epoch, line.unix_ms, loss, line.samples,
                     line.own_samples, line.peers, line.round_s, line.up_bytes, line.down_bytes,
                     to_hex(line.parameter_hash));
}

/// Where the last whole line ends; 0: there is none.
off_t end_of_lines(int file, off_t size) {
  std::array<char, 4096> block{};
  for (off_t end = size; end > 0;) {
    const off_t from = std::max<off_t>(0, end - static_cast<off_t>(block.size()));
    const ssize_t got = ::pread(file, block.data(), static_cast<std::size_t>(end - from), from);
    if (got <= 0) return 0;
    const std::size_t last = std::string_view(block.data(), static_cast<std::size_t>(got)).rfind('\n');
    if (last != std::string_view::npos) return from + static_cast<off_t>(last) + 1;
    end = from;
  }
  return 0;
}

/// Whether the file begins as ours, as far as it goes.
bool is_ours(int file) {
  std::array<char, kHeader.size()> start{};
  const ssize_t got = ::pread(file, start.data(), start.size(), 0);
  return got >= 0 && kHeader.starts_with(std::string_view(start.data(), static_cast<std::size_t>(got)));
}

std::filesystem::path free_name(const std::filesystem::path& file) {
  for (unsigned i = 1;; ++i) {
    std::filesystem::path name = fmt::format("{}.old-{}", file.string(), i);
    if (!std::filesystem::exists(name)) return name;
  }
}

std::string reason(int error) {
  return std::strerror(error);
}

}  // namespace

bool MetricsCsv::append(const EpochLine& line) {
  const std::string why = try_append(text_of(line));
  if (!why.empty() && !failing_) log_.warn("monitor.metrics_csv_failed", {{"file", file_.string()}, {"reason", why}});
  if (why.empty() && failing_) log_.info("monitor.metrics_csv_works_again", {{"file", file_.string()}});
  failing_ = !why.empty();
  return why.empty();
}

/// Empty when the line is in the file; else why it is not, and the file is as it was.
std::string MetricsCsv::try_append(const std::string& line) {
  // opened for each line, so that a file which somebody moved or removed is simply begun anew
  for (bool moved = false;; moved = true) {
    const File file(::open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    struct stat status {};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return reason(errno);
    const bool regular = S_ISREG(status.st_mode);
    if (regular && !is_ours(file.get())) {
      if (moved) return "the file has other columns";
      if (::rename(file_.c_str(), free_name(file_).c_str()) != 0) return reason(errno);
      continue;
    }
    const off_t end = regular ? end_of_lines(file.get(), status.st_size) : 0;
    if (regular && end < status.st_size && ::ftruncate(file.get(), end) != 0) return reason(errno);
    const std::string text = end > 0 ? line : std::string(kHeader) + line;
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put == static_cast<ssize_t>(text.size())) return {};
    const int error = put < 0 ? errno : ENOSPC;
    if (regular && ::ftruncate(file.get(), end) != 0) return reason(errno);  // the next append cuts it
    return reason(error);
  }
}

}  // namespace collab::monitor
