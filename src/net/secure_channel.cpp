#include "net/secure_channel.hpp"

#include "net/tls_context_state.hpp"
#include "net/tls_engine.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::net {
namespace {

constexpr std::size_t kLongBody = kRecordBytes / 2;

Errc errc_of(TlsFault fault) {
  switch (fault) {
    case TlsFault::no_certificate:
    case TlsFault::certificate:
    case TlsFault::wrong_peer:
    case TlsFault::own_key: return Errc::denied;
    case TlsFault::refused: return Errc::gone;
    default: return Errc::bad_request;
  }
}

Result<> status_of(const ChannelEngine& engine) {
  if (engine.fault != TlsFault::none) return errc_of(engine.fault);
  return {};
}

}  // namespace

SecureChannel::SecureChannel(const TlsContext& context, Side side, std::optional<PeerId> expected)
    : engine_(context.options().engines != nullptr
                  ? context.options().engines->make(context.own(), side, expected)
                  : make_tls_engine(context, context.state_->context.get(), side, expected)) {}
SecureChannel::SecureChannel(SecureChannel&&) noexcept = default;
SecureChannel& SecureChannel::operator=(SecureChannel&&) noexcept = default;
SecureChannel::~SecureChannel() = default;

Result<> SecureChannel::receive(std::span<const std::byte> ciphertext) {
  while (!ciphertext.empty()) {
    const auto taken = receive_record(ciphertext, {});
    if (!taken) return taken.error();
    assert(taken->ciphertext > 0);
    ciphertext = ciphertext.subspan(taken->ciphertext);
  }
  return status_of(*engine_);
}

Result<SecureChannel::Taken> SecureChannel::receive_record(std::span<const std::byte> ciphertext,
                                                           std::span<std::byte> room) {
  Taken taken{ciphertext.size()};
  engine_->placed = 0;
  if (engine_->fault == TlsFault::none && !engine_->closed) taken.ciphertext = engine_->receive(ciphertext, room);
  if (const auto status = status_of(*engine_); !status) return status.error();
  taken.placed = engine_->placed;
  return taken;
}

std::span<const std::byte> SecureChannel::opened() const noexcept {
  return engine_->opened.bytes();
}

void SecureChannel::consume(std::size_t bytes) noexcept {
  engine_->opened.consume(bytes);
}

Result<> SecureChannel::seal(std::span<const std::byte> head, std::span<const std::byte> body) {
  assert(established() && !engine_->closing);
  if (engine_->fault != TlsFault::none) return status_of(*engine_);
  const std::size_t records = 2 + (head.size() + body.size()) / kRecordBytes;
  engine_->output.prepare(head.size() + body.size() + records * (kRecordHeaderBytes + kRecordTagBytes));
  while (!head.empty() || !body.empty()) {
    const auto first = head.first(std::min(head.size(), kRecordBytes));
    const bool apart = !first.empty() && body.size() >= kLongBody;
    const auto second = body.first(apart ? 0 : std::min(body.size(), kRecordBytes - first.size()));
    engine_->seal(first, second);
    head = head.subspan(first.size());
    body = body.subspan(second.size());
  }
  return status_of(*engine_);
}

std::span<const std::byte> SecureChannel::output() const noexcept {
  return engine_->output.bytes();
}

void SecureChannel::sent(std::size_t bytes) noexcept {
  engine_->output.consume(bytes);
}

void SecureChannel::take_output(ByteQueue& into) noexcept {
  assert(into.empty());
  std::swap(into, engine_->output);
}

bool SecureChannel::established() const noexcept {
  return engine_->established;
}

const PeerId& SecureChannel::peer() const noexcept {
  assert(established());
  return engine_->peer;
}

TlsFault SecureChannel::fault() const noexcept {
  return engine_->fault;
}

const std::string& SecureChannel::failure() const noexcept {
  return engine_->failure;
}

Result<> SecureChannel::close() {
  if (engine_->fault != TlsFault::none || !engine_->established || engine_->closing) return status_of(*engine_);
  engine_->closing = true;
  engine_->close();
  return {};
}

bool SecureChannel::closed() const noexcept {
  return engine_->closed;
}

std::array<std::byte, 32> SecureChannel::exporter(std::string_view label) const {
  assert(established());
  return engine_->exporter(label);
}

void SecureChannel::rest() {
  engine_->opened.rest();
  engine_->output.rest();
}

void SecureChannel::trim() {
  engine_->opened.trim();
  engine_->output.trim();
  engine_->trim();
}

}  // namespace collab::net
