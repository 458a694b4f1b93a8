#include "node/lan_discovery.hpp"

#include "base/task_group.hpp"
#include "crypto/fields.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/multicast.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace collab::node {
namespace {

using asio::ip::udp;

constexpr std::string_view kMagic = "collab/1";
constexpr std::size_t kDatagramBytesMax = 512;
constexpr std::size_t kIgnoredMax = 1000;  // datagrams that are no answer, before asking gives up
const asio::ip::address kGroupV4 = asio::ip::make_address_v4("239.192.46.0");
const asio::ip::address kGroupV6 = asio::ip::make_address_v6("ff02::1");

void take_key(FieldReader& reader, PeerId& into) {
  const auto bytes = reader.take_raw(into.key.size());
  std::transform(bytes.begin(), bytes.end(), into.key.begin(),
                 [](std::byte b) { return static_cast<unsigned char>(b); });
}

/// A socket that hears the group of its family, with other programs on the same port; closed when there is none.
udp::socket open_group(const asio::any_io_executor& executor, const asio::ip::address& group,
                       const LanOptions& options) {
  udp::socket socket(executor);
  boost::system::error_code error;
  const udp protocol = group.is_v6() ? udp::v6() : udp::v4();
  socket.open(protocol, error);
  if (!error) socket.set_option(udp::socket::reuse_address(true), error);
  if (!error && group.is_v6()) socket.set_option(asio::ip::v6_only(true), error);
  udp::endpoint at(protocol, options.port);
  if (options.loopback_only) at.address(asio::ip::address_v4::loopback());
  if (!error) socket.bind(at, error);
  if (!error && !options.loopback_only) socket.set_option(asio::ip::multicast::join_group(group), error);
  boost::system::error_code ignored;
  if (error) socket.close(ignored);
  return socket;
}

Task<> answer_at(udp::socket& socket, Clock& clock, Log& log, LanAnswer answer, LanOptions options) {
  const Bytes reply = encode(answer);
  std::array<std::byte, kDatagramBytesMax> buffer{};
  TimePoint next = clock.now();
  for (;;) {
    udp::endpoint from;
    const auto [error, size] = co_await socket.async_receive_from(asio::buffer(buffer), from, as_result);
    if (error) {  // a network that comes and goes must not make a busy loop
      co_await clock.sleep_until(clock.now() + options.answer_every);
      continue;
    }
    const auto asked = decode_lan_question(std::span(buffer).first(size));
    if (!asked || *asked != answer.run_id || clock.now() < next) continue;
    next = clock.now() + options.answer_every;
    const auto [failed, sent] = co_await socket.async_send_to(asio::buffer(reply), from, as_result);
    log.debug("lan.answered", {{"to", from.address().to_string()}, {"ok", !failed}});
  }
}

/// Sends the question, and collects answers until cancelled.
Task<> ask_at(asio::any_io_executor executor, udp::endpoint group, RunName run, std::size_t answers_max,
              std::vector<PeerAddress>& found) {
  udp::socket socket(executor);
  boost::system::error_code error;
  socket.open(group.protocol(), error);
  if (error) co_return;
  const Bytes question = encode_lan_question(run.run_id);
  const auto [failed, sent] = co_await socket.async_send_to(asio::buffer(question), group, as_result);
  if (failed) co_return;
  std::array<std::byte, kDatagramBytesMax> buffer{};
  for (std::size_t heard = 0; heard < kIgnoredMax && found.size() < answers_max; ++heard) {
    udp::endpoint from;
    const auto [broken, size] = co_await socket.async_receive_from(asio::buffer(buffer), from, as_result);
    if (broken) co_return;
    const auto answer = decode_lan_answer(std::span(buffer).first(size));
    if (!answer || answer->run_id != run.run_id) continue;
    if (run.authority && answer->authority != *run.authority) continue;  // another run of this name
    PeerAddress at;
    at.address.host = from.address().to_string();
    at.address.port = answer->port;
    at.peer = answer->peer;
    if (std::find(found.begin(), found.end(), at) == found.end()) found.push_back(std::move(at));
  }
}

}  // namespace

Bytes encode_lan_question(const std::string& run_id) {
  FieldWriter writer;
  return writer.add_text(kMagic).add_text(run_id).finish();
}

Result<std::string> decode_lan_question(std::span<const std::byte> datagram) {
  FieldReader reader(datagram);
  const bool ours = reader.take_text() == kMagic;
  const std::string run_id(reader.take_text());
  if (!reader.finish() || !ours || !is_run_id(run_id)) return Errc::bad_request;
  return run_id;
}

Bytes encode(const LanAnswer& answer) {
  FieldWriter writer;
  writer.add_text(kMagic).add_text(answer.run_id).add_raw(std::as_bytes(std::span(answer.peer.key)));
  writer.add(answer.port).add_raw(std::as_bytes(std::span(answer.authority.key)));
  return writer.finish();
}

Result<LanAnswer> decode_lan_answer(std::span<const std::byte> datagram) {
  FieldReader reader(datagram);
  const bool ours = reader.take_text() == kMagic;
  LanAnswer answer;
  answer.run_id = reader.take_text();
  take_key(reader, answer.peer);
  answer.port = reader.take<std::uint16_t>();
  take_key(reader, answer.authority);
  if (!reader.finish() || !ours || !is_run_id(answer.run_id) || answer.port == 0) return Errc::bad_request;
  return answer;
}

Task<> answer_on_lan(asio::any_io_executor executor, Clock& clock, Log& log, LanAnswer answer, LanOptions options) {
  udp::socket v4 = open_group(executor, kGroupV4, options);
  udp::socket v6(executor);
  if (!options.loopback_only) v6 = open_group(executor, kGroupV6, options);
  if (!v4.is_open() && !v6.is_open()) {
    log.info("lan.no_discovery", {{"why", "no UDP port for the local network"}});
    co_return;
  }
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    if (v4.is_open()) tasks.spawn("lan.v4", answer_at(v4, clock, log, answer, options));
    if (v6.is_open()) tasks.spawn("lan.v6", answer_at(v6, clock, log, answer, options));
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<std::vector<PeerAddress>> ask_lan(asio::any_io_executor executor, Clock& clock, RunName run, LanOptions options) {
  std::vector<PeerAddress> found;
  const udp::endpoint v4(options.loopback_only ? asio::ip::address(asio::ip::address_v4::loopback()) : kGroupV4,
                         options.port);
  const udp::endpoint v6(kGroupV6, options.port);
  const TimePoint until = clock.now() + options.wait;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("lan.ask_v4", ask_at(executor, v4, run, options.answers_max, found));
    if (!options.loopback_only) tasks.spawn("lan.ask_v6", ask_at(executor, v6, run, options.answers_max, found));
    co_await clock.sleep_until(until);
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return found;
}

}  // namespace collab::node
