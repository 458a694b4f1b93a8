#include "net/opening.hpp"

#include <algorithm>
#include <utility>

namespace collab::net {
namespace {

constexpr std::size_t kReadBytes = 8 * 1024;  // nothing long is said before the hellos

struct First {
  FrameType type = FrameType::hello;
  Bytes head;
};

/// The bytes that go to and fro before there is a connection.
class Exchange {
 public:
  Exchange(const TlsContext& tls, std::unique_ptr<ByteStream> stream, Side side, std::optional<PeerId> expected)
      : opened_(std::make_unique<Opened>(std::move(stream), SecureChannel(tls, side, expected), side)),
        buffer_(kReadBytes) {}

  Opened& opened() { return *opened_; }
  std::unique_ptr<Opened> finish() { return std::move(opened_); }

  Task<Result<>> flush() {
    const auto output = opened_->channel.output();
    if (output.empty()) co_return Result<>();
    const Bytes bytes(output.begin(), output.end());
    opened_->channel.sent(bytes.size());
    co_return co_await opened_->stream->write(bytes);
  }

  Task<boost::system::result<void, Refusal>> secure() {
    SecureChannel& channel = opened_->channel;
    while (!channel.established()) {
      const auto more = co_await read_more();
      if (!more) co_return more.error();
    }
    co_return boost::system::result<void, Refusal>();
  }

  Task<Result<>> say(FrameType type, Bytes head) {
    Prefix prefix;
    prefix.type = static_cast<std::uint8_t>(type);
    prefix.head_bytes = static_cast<std::uint16_t>(head.size());
    prefix.body_bytes = static_cast<std::uint32_t>(head.size());
    const auto twelve = encode(prefix);
    Bytes bytes(twelve.begin(), twelve.end());
    bytes.insert(bytes.end(), head.begin(), head.end());
    const auto sealed = opened_->channel.seal(bytes);
    if (!sealed) co_return sealed.error();
    co_return co_await flush();
  }

  /// The other side's first frame. Whatever follows it stays in the channel.
  Task<boost::system::result<First, Refusal>> hear() {
    SecureChannel& channel = opened_->channel;
    for (;;) {
      const auto bytes = channel.opened();
      if (bytes.size() >= kPrefixBytes) {
        const Prefix prefix = decode_prefix(bytes.first<kPrefixBytes>());
        const auto type = static_cast<FrameType>(prefix.type);
        const bool expected = type == FrameType::hello || type == FrameType::refuse;
        if (!expected || prefix.body_bytes > kHelloBytesMax || prefix.head_bytes != prefix.body_bytes)
          co_return Refusal(Errc::bad_request, "the other side does not begin with a hello");
        if (bytes.size() >= kPrefixBytes + prefix.body_bytes) {
          const auto head = bytes.subspan(kPrefixBytes, prefix.body_bytes);
          First first;
          first.type = type;
          first.head.assign(head.begin(), head.end());
          channel.consume(kPrefixBytes + prefix.body_bytes);
          co_return first;
        }
      }
      const auto more = co_await read_more();
      if (!more) co_return more.error();
    }
  }

 private:
  Task<boost::system::result<void, Refusal>> read_more() {
    SecureChannel& channel = opened_->channel;
    const auto flushed = co_await flush();
    if (!flushed) co_return Refusal(flushed.error());
    if (channel.closed()) co_return Refusal(Errc::gone, "the other side closed the connection");
    const auto size = co_await opened_->stream->read(buffer_);
    if (!size) co_return Refusal(size.error());
    if (*size == 0) co_return Refusal(Errc::gone, "the other side closed the connection");
    const auto taken = channel.receive(std::span(buffer_).first(*size));
    if (taken) co_return boost::system::result<void, Refusal>();
    const Refusal why(Refusal(taken.error()).code, channel.failure());
    (void)co_await flush();  // the alert; whether it arrives changes nothing
    co_return why;
  }

  std::unique_ptr<Opened> opened_;
  Bytes buffer_;
};

Hello our_hello(const OpeningRules& rules, const ByteStream& stream) {
  Hello hello = rules.hello();
  hello.time_ms = rules.swarm_ms();
  if (!stream.is_circuit()) hello.observed = host_and_port(stream.remote());
  return hello;
}

/// What there is to say against the other side, its hello in hand.
std::optional<Refuse> judge_all(const OpeningRules& rules, Opened& opened, const Hello& ours, std::int64_t our_ms) {
  const std::int64_t swarm_offset = rules.swarm_ms() - rules.own_ms();
  opened.skew_ms = opened.theirs.time_ms - our_ms;
  if (auto refuse = judge(opened.theirs, ours, opened.skew_ms - swarm_offset)) return refuse;
  return rules.welcome(opened.channel.peer(), opened.theirs);
}

/// The text is written for the other side.
Refusal refused_by_us(const Refuse& refuse) {
  Refusal why = to_refusal(refuse);
  why.reason = "this node told the peer: " + why.reason;
  return why;
}

}  // namespace

Task<OpenResult> open_dialled(const OpeningRules& rules, std::unique_ptr<ByteStream> stream,
                              std::optional<PeerId> expected, std::uint64_t attempt) {
  Exchange exchange(rules.tls, std::move(stream), Side::dialled, expected);
  Opened& opened = exchange.opened();
  const auto secured = co_await exchange.secure();
  if (!secured) co_return secured.error();
  if (rules.connected && rules.connected(opened.channel.peer(), *opened.stream)) {
    opened.redundant = true;
    (void)opened.channel.close();
    (void)co_await exchange.flush();  // the other end learns as much when the stream closes
    opened.stream->close();
    co_return exchange.finish();
  }

  Hello ours = our_hello(rules, *opened.stream);
  ours.attempt = opened.attempt = attempt;
  if (rules.moves) ours.moves = rules.moves(opened.channel.peer(), *opened.stream, Side::dialled);
  const std::int64_t sent_ms = rules.own_ms();
  const auto said = co_await exchange.say(FrameType::hello, encode_head(ours));
  if (!said) co_return Refusal(said.error());
  const auto first = co_await exchange.hear();
  if (!first) co_return first.error();
  if (first->type == FrameType::refuse) {
    const auto refuse = decode_head<Refuse>(first->head);
    if (!refuse) co_return Refusal(Errc::bad_request);
    co_return to_refusal(*refuse);
  }
  auto theirs = decode_hello(first->head);
  if (!theirs) co_return Refusal(Errc::bad_request, "malformed hello");
  opened.theirs = std::move(*theirs);
  const std::int64_t middle_ms = sent_ms + (rules.own_ms() - sent_ms) / 2;
  if (const auto refuse = judge_all(rules, opened, ours, middle_ms)) {
    (void)co_await exchange.say(FrameType::refuse, encode_head(*refuse));
    co_return refused_by_us(*refuse);
  }
  if (opened.theirs.moves == ours.moves) opened.moves = ours.moves;
  co_return exchange.finish();
}

Task<OpenResult> open_accepted(const OpeningRules& rules, std::unique_ptr<ByteStream> stream) {
  Exchange exchange(rules.tls, std::move(stream), Side::accepted, std::nullopt);
  Opened& opened = exchange.opened();
  const auto secured = co_await exchange.secure();
  if (!secured) co_return secured.error();
  const auto first = co_await exchange.hear();
  if (!first) co_return first.error();
  auto theirs = first->type == FrameType::hello ? decode_hello(first->head) : Result<Hello>(Errc::bad_request);
  if (!theirs) co_return Refusal(Errc::bad_request, "malformed hello");
  opened.theirs = std::move(*theirs);
  opened.attempt = opened.theirs.attempt;
  Hello ours = our_hello(rules, *opened.stream);
  if (const auto refuse = judge_all(rules, opened, ours, rules.own_ms())) {
    (void)co_await exchange.say(FrameType::refuse, encode_head(*refuse));
    (void)opened.channel.close();
    (void)co_await exchange.flush();
    co_return refused_by_us(*refuse);
  }
  const bool moves = !opened.theirs.moves.empty() && rules.moves;
  if (moves && rules.moves(opened.channel.peer(), *opened.stream, Side::accepted) == opened.theirs.moves)
    ours.moves = opened.moves = opened.theirs.moves;
  const auto said = co_await exchange.say(FrameType::hello, encode_head(ours));
  if (!said) co_return Refusal(said.error());
  co_return exchange.finish();
}

}  // namespace collab::net
