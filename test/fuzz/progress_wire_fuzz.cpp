// What peers and keepers say of their progress: any bytes are refused or are a record that all arithmetic on records
// survives, also a history of them, each at any time after the one before.
//
// Script: u8 peer | u32 milliseconds since the record before | u16 bytes | the record; again and again.
#include "progress/self_report.hpp"
#include "progress/standing.hpp"
#include "support.hpp"

#include <cmath>
#include <map>

namespace collab::fuzz::progress_wire_target {

void check_codec(const progress::Record& record) {
  require(record.samples_per_s >= 0 && std::isfinite(record.samples_per_s) && record.period_ms > 0);
  require(std::isnan(record.loss) || std::isfinite(record.loss));
  const Bytes once = progress::encode(record);
  const auto again = progress::decode(once);
  require(again && progress::encode(*again) == once);
}

COLLAB_FUZZ_TARGET(progress_wire) {
  if (const auto record = progress::decode(fuzz::bytes_of(data, size))) check_codec(*record);
  if (const auto keeper = progress::decode_keeper(fuzz::bytes_of(data, size))) {
    const auto again = progress::decode_keeper(progress::encode(*keeper));
    require(again && again->epoch == keeper->epoch);
  }

  std::int64_t unix_ms = 1'893'456'000'000;  // some day
  std::map<PeerId, progress::SelfReport> reports;
  std::uint64_t sequence = 0;
  for (fuzz::Input input(fuzz::bytes_of(data, size)); !input.empty();) {
    PeerId peer;
    peer.key[0] = static_cast<unsigned char>(input.number<std::uint8_t>() % 4);
    unix_ms += input.number<std::uint32_t>();
    const auto told = progress::decode(input.piece());
    if (!told) continue;
    check_codec(*told);
    progress::SelfReport& report = reports[peer];
    const progress::Yardstick yardstick{peer.key[0] * 10.0, 16, 128, peer.key[0] == 3};
    const std::uint64_t refused = report.see(*told, ++sequence, yardstick, unix_ms);
    require(refused <= told->samples && report.believed().samples <= told->samples);
    require(report.believed().unix_ms <= unix_ms);
    require(report.samples_max(told->epoch, unix_ms) >= 0);
  }
  std::vector<progress::Standing> standings;
  for (const auto& [peer, report] : reports) standings.push_back({peer, report.believed()});
  for (const progress::Standing& standing : standings) (void)progress::is_fresh(standing.record, unix_ms);
  const auto epoch = progress::global_epoch(standings);
  require(epoch.has_value() == !standings.empty());
  if (!epoch) return 0;
  require(standings.size() > 1 || progress::majority(standings, *epoch).has_value());
  require(std::isfinite(progress::gathered(standings, *epoch, unix_ms)));
  require(std::isfinite(progress::samples_per_s(standings, *epoch)));
  return 0;
}

}  // namespace collab::fuzz::progress_wire_target
