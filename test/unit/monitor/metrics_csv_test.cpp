#include "monitor/metrics_csv.hpp"

#include "support/temp_folder.hpp"

#include <algorithm>
#include <csignal>
#include <limits>
#include <sys/resource.h>
#include <vector>

#include "support/doctest.hpp"

namespace collab::monitor {
namespace {

const std::string kHeader = "epoch,unix_ms,loss,samples,own_samples,peers,round_s,up_bytes,down_bytes,parameter_hash\n";

EpochLine line(std::uint64_t epoch) {
  EpochLine line;
  line.epoch = epoch;
  line.unix_ms = 1'700'000'000'123;
  line.loss = 3.25;
  line.samples = 4096;
  line.own_samples = 512;
  line.peers = 8;
  line.round_s = 0.75;
  line.up_bytes = 1000;
  line.down_bytes = 2000;
  line.parameter_hash[0] = 0xAB;
  return line;
}

std::string text(std::uint64_t epoch) {
  return std::to_string(epoch) + ",1700000000123,3.25,4096,512,8,0.750,1000,2000,ab" + std::string(62, '0') + "\n";
}

struct CsvFixture {
  CsvFixture() {
    log.observe([this](LogLevel, std::string_view event, Log::Fields) { events.emplace_back(event); });
  }
  auto said(std::string_view event) const { return std::count(events.begin(), events.end(), event); }

  test::TempFolder folder;
  std::filesystem::path file = folder / "metrics.csv";
  std::vector<std::string> events;
  Log log;
};

/// While it lives, no file of this process grows beyond `bytes`: what a full disk looks like.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace

TEST_CASE("metrics.csv: one header and one line per epoch, over restarts") {
  CsvFixture fixture;
  {
    MetricsCsv csv(fixture.file, fixture.log);
    CHECK(csv.append(line(1)));
    CHECK(csv.append(line(2)));
  }
  MetricsCsv again(fixture.file, fixture.log);
  CHECK(again.append(line(3)));
  CHECK(test::content(fixture.file) == kHeader + text(1) + text(2) + text(3));
}

TEST_CASE("metrics.csv: an unknown loss is an empty cell") {
  CsvFixture fixture;
  EpochLine unknown = line(4);
  unknown.loss = std::numeric_limits<double>::quiet_NaN();
  MetricsCsv csv(fixture.file, fixture.log);
  CHECK(csv.append(unknown));
  CHECK(test::content(fixture.file).find("\n4,1700000000123,,4096,") != std::string::npos);
}

TEST_CASE("metrics.csv: what a crash left of a line is cut off, whole lines never") {
  for (const std::string& torn : {std::string("3,17000"), std::string(10000, '\0'), kHeader.substr(0, 20)}) {
    CsvFixture fixture;
    test::write(fixture.file, kHeader + text(1) + text(2) + torn);
    MetricsCsv csv(fixture.file, fixture.log);
    CHECK(csv.append(line(3)));
    CHECK(test::content(fixture.file) == kHeader + text(1) + text(2) + text(3));
  }
  CsvFixture fixture;
  test::write(fixture.file, kHeader.substr(0, 20));
  MetricsCsv csv(fixture.file, fixture.log);
  CHECK(csv.append(line(1)));
  CHECK(test::content(fixture.file) == kHeader + text(1));
}

TEST_CASE("metrics.csv: a file of other columns is kept aside") {
  CsvFixture fixture;
  for (const char* foreign : {"epoch,loss\n1,2\n", "my notes"}) {
    test::write(fixture.file, foreign);
    MetricsCsv csv(fixture.file, fixture.log);
    CHECK(csv.append(line(1)));
    CHECK(test::content(fixture.file) == kHeader + text(1));
  }
  CHECK(test::content(fixture.folder / "metrics.csv.old-1") == "epoch,loss\n1,2\n");
  CHECK(test::content(fixture.folder / "metrics.csv.old-2") == "my notes");
}

TEST_CASE("metrics.csv: on a full disk a line is lost whole, said once, and it goes on when there is space") {
  CsvFixture fixture;
  MetricsCsv csv(fixture.file, fixture.log);
  REQUIRE(csv.append(line(1)));
  const std::string before = test::content(fixture.file);
  {
    const FullDisk full(before.size() + 20);
    CHECK_FALSE(csv.append(line(2)));
    CHECK_FALSE(csv.append(line(3)));
    CHECK(test::content(fixture.file) == before);
  }
  CHECK(fixture.said("monitor.metrics_csv_failed") == 1);
  CHECK(csv.append(line(4)));
  CHECK(fixture.said("monitor.metrics_csv_works_again") == 1);
  CHECK(test::content(fixture.file) == kHeader + text(1) + text(4));
}

TEST_CASE("metrics.csv: a folder that is gone or a device that is full is an event, not an end") {
  CsvFixture fixture;
  MetricsCsv nowhere(fixture.folder / "no such folder/metrics.csv", fixture.log);
  CHECK_FALSE(nowhere.append(line(1)));
  MetricsCsv full("/dev/full", fixture.log);
  CHECK_FALSE(full.append(line(1)));
  CHECK(fixture.said("monitor.metrics_csv_failed") == 2);
}

}  // namespace collab::monitor
