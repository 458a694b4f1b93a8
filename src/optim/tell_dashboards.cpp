#include "optim/tell_dashboards.hpp"

#include "base/text.hpp"
#include "monitor/wire.hpp"

#include <cmath>
#include <utility>

namespace collab::optim {
namespace {

std::string left_out(const averaging::PeerReport& peer) {
  using averaging::Fault;
  using averaging::LeftOut;
  switch (peer.fault) {
    case Fault::none: break;
    case Fault::malformed: return "malformed";
    case Fault::not_finite: return "not_finite";
    case Fault::conflict: return "conflict";
    case Fault::weight_refused: return "weight_refused";
    case Fault::overlap: return "overlap";
  }
  switch (peer.left_out) {
    case LeftOut::no: return "";
    case LeftOut::elsewhere: return "elsewhere";
    case LeftOut::dead: return "dead";
    case LeftOut::frozen: return "frozen";
    case LeftOut::slow: return "slow";
    case LeftOut::refused: return "refused";
  }
  return "refused";
}

monitor::RoundView view_of(const epoch::EpochReport& report) {
  monitor::RoundView round;
  round.epoch = report.epoch;
  round.round = report.round.round;
  round.group = to_hex(report.round.group);
  round.result = "committed";
  round.exchange_s = report.round.exchange_s;
  round.commit_s = report.round.commit_s;
  round.apply_s = report.round.apply_s;
  round.samples = report.weight;
  for (const averaging::PeerReport& peer : report.round.peers) {
    monitor::RoundMember member;
    member.id = peer.id;
    member.counted = peer.counted;
    member.samples = peer.weight;
    member.left_out = left_out(peer);
    round.up_bytes += peer.bytes_up;
    round.down_bytes += peer.bytes_down;
    round.members.push_back(std::move(member));
  }
  return round;
}

void publish(Collaboration::Parts& parts, std::string_view key, Bytes value) {
  parts.node->directory().publish(std::string(key), "", std::move(value), monitor::kReportTtl);
}

}  // namespace

void tell_round(Collaboration::Parts& parts, const epoch::EpochReport& report) {
  if (!report.group) return;  // it was the whole swarm: there was no round
  if (!parts.tracker->is_lowest_of_epoch(report.epoch + 1)) return;
  auto value = monitor::encode_round(view_of(report));
  if (!value) return;  // more members than a record holds, and than a group may have
  publish(parts, monitor::kRoundKey, std::move(*value));
}

void tell_failed_round(Collaboration::Parts& parts, std::uint64_t epoch, const std::string& reason) {
  monitor::RoundView round;
  round.epoch = epoch;
  round.result = "failed";
  round.reason = reason;
  round.exchange_s = round.commit_s = round.apply_s = monitor::kUnknown;
  auto value = monitor::encode_round(round);
  if (!value) return;  // never: a reason alone fits
  publish(parts, monitor::kRoundKey, std::move(*value));
}

void tell_evaluation(Collaboration::Parts& parts, std::uint64_t epoch, double loss) {
  if (!std::isfinite(loss)) return;
  publish(parts, monitor::kEvaluationKey, monitor::encode_evaluation({epoch, loss}));
}

}  // namespace collab::optim
