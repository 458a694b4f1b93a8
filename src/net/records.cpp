#include "net/records.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

namespace collab::net {
namespace {

constexpr std::uint32_t kLastRecord = std::uint32_t(1) << 31U;
using Header = std::array<std::byte, kRecordHeaderBytes>;

Header header_of(std::uint32_t word) {
  Header header;
  for (std::size_t i = 0; i < header.size(); ++i) header[i] = static_cast<std::byte>(word >> (8 * i));
  return header;
}

std::uint32_t word_of(std::span<const std::byte> header) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < kRecordHeaderBytes; ++i) word |= std::to_integer<std::uint32_t>(header[i]) << (8 * i);
  return word;
}

struct Head {
  std::size_t bytes = 0;
  bool last = false;
  std::size_t whole() const { return kRecordHeaderBytes + bytes + kRecordTagBytes; }
};

/// Nothing: no sealer writes such a header.
std::optional<Head> head_of(std::span<const std::byte> header) {
  const std::uint32_t word = word_of(header);
  const Head head{word & ~kLastRecord, (word & kLastRecord) != 0};
  const bool fits = head.last ? head.bytes == 0 : head.bytes > 0 && head.bytes <= kRecordBytes;
  return fits ? std::optional(head) : std::nullopt;
}

/// Nothing that a peer sends makes these calls fail: the sizes are ours.
void need(int worked) {
  if (worked != 1) throw std::bad_alloc();
}

unsigned char* raw(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}
const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

/// Seals or opens `from` into `into`, of the same size.
void turn(EVP_CIPHER_CTX* context, std::span<const std::byte> from, std::byte* into) {
  if (from.empty()) return;
  int bytes = 0;
  need(EVP_CipherUpdate(context, reinterpret_cast<unsigned char*>(into), &bytes, raw(from),
                        static_cast<int>(from.size())));
  assert(static_cast<std::size_t>(bytes) == from.size());
}

}  // namespace

RecordKeys::RecordKeys(const EVP_CIPHER* cipher, bool seals, Derive derive, std::uint64_t records_per_key)
    : cipher_(cipher),
      seals_(seals),
      derive_(std::move(derive)),
      records_per_key_(records_per_key),
      context_(EVP_CIPHER_CTX_new()) {
  if (!context_) throw std::bad_alloc();
}

EVP_CIPHER_CTX* RecordKeys::next(std::span<const std::byte, kRecordHeaderBytes> header) {
  const bool fresh = number_ % records_per_key_ == 0;
  if (fresh) {
    Material material = derive_(number_ / records_per_key_);
    const std::span<const std::byte> all(material);
    need(EVP_CipherInit_ex(context_.get(), cipher_, nullptr, raw(all), nullptr, seals_ ? 1 : 0));
    std::copy(all.end() - static_cast<std::ptrdiff_t>(iv_.size()), all.end(), iv_.begin());
    OPENSSL_cleanse(material.data(), material.size());
  }
  std::array<std::byte, 12> nonce = iv_;
  for (std::size_t i = 0; i < sizeof number_; ++i)
    nonce[nonce.size() - 1 - i] ^= static_cast<std::byte>(number_ >> (8 * i));
  ++number_;
  need(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, raw(std::span<const std::byte>(nonce)), -1));
  int bytes = 0;
  need(EVP_CipherUpdate(context_.get(), nullptr, &bytes, raw(header), static_cast<int>(header.size())));
  return context_.get();
}

void RecordSealer::seal(std::span<const std::byte> head, std::span<const std::byte> body, ByteQueue& output) {
  const std::size_t records = (head.size() + body.size() + kRecordBytes - 1) / kRecordBytes;
  output.prepare(head.size() + body.size() + records * (kRecordHeaderBytes + kRecordTagBytes));
  while (!head.empty() || !body.empty()) {
    const auto first = head.first(std::min(head.size(), kRecordBytes));
    const auto second = body.first(std::min(body.size(), kRecordBytes - first.size()));
    seal_record(first, second, false, output);
    head = head.subspan(first.size());
    body = body.subspan(second.size());
  }
}

void RecordSealer::seal_record(std::span<const std::byte> head, std::span<const std::byte> body, bool last,
                               ByteQueue& output) {
  const std::size_t size = head.size() + body.size();
  const Header header = header_of(static_cast<std::uint32_t>(size) | (last ? kLastRecord : 0));
  EVP_CIPHER_CTX* context = next(header);
  const auto space = output.prepare(kRecordHeaderBytes + size + kRecordTagBytes);
  std::copy(header.begin(), header.end(), space.begin());
  std::byte* at = space.data() + kRecordHeaderBytes;
  turn(context, head, at);
  turn(context, body, at + head.size());
  int bytes = 0;
  const auto tag = space.subspan(kRecordHeaderBytes + size, kRecordTagBytes);
  need(EVP_CipherFinal_ex(context, raw(tag), &bytes));
  need(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()), tag.data()));
  output.commit(kRecordHeaderBytes + size + kRecordTagBytes);
}

RecordOpener::State RecordOpener::open(std::span<const std::byte> sealed, ByteQueue& opened) {
  while (state_ == State::open && !sealed.empty()) {
    const bool in_place = begun_.empty() && sealed.size() >= kRecordHeaderBytes;
    if (!in_place && !complete(kRecordHeaderBytes, sealed)) break;
    const auto head = head_of(in_place ? sealed : begun_.bytes());
    if (!head) {
      state_ = State::damaged;
    } else if (in_place && sealed.size() >= head->whole()) {
      state_ = open_record(sealed.first(head->whole()), opened);
      sealed = sealed.subspan(head->whole());
    } else if (complete(head->whole(), sealed)) {
      state_ = open_record(begun_.bytes(), opened);
      begun_.consume(begun_.size());
    }
  }
  return state_;
}

bool RecordOpener::complete(std::size_t bytes, std::span<const std::byte>& sealed) {
  const std::size_t lacking = bytes - std::min(bytes, begun_.size());
  const auto more = sealed.first(std::min(lacking, sealed.size()));
  begun_.append(more);
  sealed = sealed.subspan(more.size());
  return more.size() == lacking;
}

/// Nothing of a record is shown before its tag has proved all of it.
RecordOpener::State RecordOpener::open_record(std::span<const std::byte> record, ByteQueue& opened) {
  const auto ciphertext = record.subspan(kRecordHeaderBytes, record.size() - kRecordHeaderBytes - kRecordTagBytes);
  EVP_CIPHER_CTX* context = next(record.first<kRecordHeaderBytes>());
  turn(context, ciphertext, opened.prepare(ciphertext.size()).data());
  std::array<std::byte, kRecordTagBytes> tag;
  std::copy_n(record.last(kRecordTagBytes).begin(), tag.size(), tag.begin());
  need(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(tag.size()), tag.data()));
  int bytes = 0;
  if (EVP_CipherFinal_ex(context, raw(std::span<std::byte>(tag)), &bytes) != 1) return State::damaged;
  opened.commit(ciphertext.size());
  return ciphertext.empty() ? State::ended : State::open;
}

}  // namespace collab::net
